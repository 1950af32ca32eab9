package ingest

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

// Without a Tracer, a request does not pay for tracing.
func TestUntracedRequestsAllocateNothing(t *testing.T) {
	h := &Handler{now: func() time.Time { panic("the clock is not read") }}
	src, res := &source{}, result{event: &eventhook.Event{}}
	refused := &refusal{outcome: OutcomeUnverified}
	r := traced{httptest.NewRequest("POST", "/", nil), address{"acme", "github"}, time.Time{}}
	if n := testing.AllocsPerRun(100, func() {
		r.began = h.traceStart()
		h.traceResult(r, src, res)
		h.traceRefusal(r, refused)
	}); n > 0 {
		t.Errorf("got %.0f allocations, want none", n)
	}
}
