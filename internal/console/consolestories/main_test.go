// Package consolestories_test runs the stories of the people who use the console in a browser.
package consolestories_test

import (
	"testing"

	"github.com/eventhook/eventhook/internal/browsertest/gatewaytest"
)

func TestMain(m *testing.M) { gatewaytest.Main(m) }
