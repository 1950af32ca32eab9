//go:build !temporal

package temporal

import (
	"errors"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
	"github.com/eventhook/eventhook/outbound/brokers"
	"github.com/eventhook/eventhook/targets"
)

var errMissing = errors.New("this build of the gateway has no client for Temporal: install the archive or image " +
	"whose name has temporal, or build with TAGS=temporal")

// Missing returns why this program cannot send to Temporal, nil if it can.
func Missing() error { return errMissing }

func newTransport(*brokers.Brokers, eventhook.TenantID, *targets.Temporal) (outbound.Transport, error) {
	return nil, errMissing
}
