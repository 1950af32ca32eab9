// Package consolestories_test runs the console in a browser: every page with checks of accessibility,
// layout, budgets and hostile text, and the stories of the people who use it.
package consolestories_test

import (
	"testing"

	"github.com/eventhook/eventhook/internal/browsertest/gatewaytest"
)

func TestMain(m *testing.M) { gatewaytest.Main(m) }

const attack = gatewaytest.Attack

var isAttacked = gatewaytest.CheckSafe
