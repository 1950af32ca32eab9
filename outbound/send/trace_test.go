package send

import (
	"net/http/httptest"
	"testing"

	"github.com/eventhook/eventhook"
)

// Without a Tracer, an attempt does not pay for tracing.
func TestUntracedAttemptsAllocateNothing(t *testing.T) {
	var d Deps
	a := Attempted{&eventhook.Delivery{}, 1, httptest.NewRequest("POST", "/", nil), eventhook.Attempt{StatusCode: 200}}
	if n := testing.AllocsPerRun(100, func() { d.trace(a) }); n > 0 {
		t.Errorf("got %.0f allocations, want none", n)
	}
}
