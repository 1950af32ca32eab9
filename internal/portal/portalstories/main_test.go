// Package portalstories_test runs the portal in a browser: the stories of customers, every page with
// checks of accessibility, layout, budgets and hostile text, the limits of a customer's rights, and the
// portal in a frame on another site.
package portalstories_test

import (
	"testing"

	"github.com/eventhook/eventhook/internal/browsertest"
	"github.com/eventhook/eventhook/internal/browsertest/gatewaytest"
)

func TestMain(m *testing.M) { gatewaytest.Main(m) }

// attack is hostile text of a sender.
const attack = browsertest.Attack
