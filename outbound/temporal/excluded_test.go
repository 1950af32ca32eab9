//go:build !temporal

package temporal_test

import (
	"strings"
	"testing"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound/temporal"
	"github.com/eventhook/eventhook/targets"
)

// A program without the client says so: it accepts no such target, and the deliveries of a stored one
// wait.
func TestAProgramWithoutTheClient(t *testing.T) {
	read, faults := targets.Parse([]byte(`{"type":"workflow","workflow_kind":"pay","engine":"temporal","address":"temporal.example:7233","namespace":"acme"}`), nil)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	compiled, err := targets.New(read, targets.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	to, err := temporal.Target(nil, eventhook.TenantID{}, compiled.(*targets.Temporal))
	for _, err := range []error{err, temporal.Missing()} {
		if to != nil || err == nil || !strings.Contains(err.Error(), "TAGS=temporal") {
			t.Errorf("got %v, %v; want an error that names the build with the client", to, err)
		}
	}
}
