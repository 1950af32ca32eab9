package ingest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
)

// largeOf is a source of a tenant of its own.
func largeOf(hasReserved bool) *endpoint {
	return &endpoint{source: eventhook.Source{TenantID: eventhook.NewID[eventhook.Tenant](time.Now())}, hasReserved: hasReserved}
}

func TestLargeRequestsOfATenantTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const cpus = 2
		g, hostile, other := newLargeGate(cpus), largeOf(false), largeOf(false)
		large, small := make([]byte, smallBody+1), make([]byte, smallBody)
		leave, no := g.enter(t.Context(), hostile, "", large)
		if no != nil {
			t.Fatalf("the first got %v, want a slot", no.outcome)
		}
		for claim, e := range map[string]*endpoint{"another tenant's": other, "another tenant's with reserved": largeOf(true)} {
			if leave, no := g.enter(t.Context(), e, "", large); no != nil {
				t.Errorf("%s got %v, want a slot", claim, no.outcome)
			} else {
				leave()
			}
		}
		if _, no := g.enter(t.Context(), hostile, "", small); no != nil {
			t.Errorf("a small body got %v, want that it needs no slot", no.outcome)
		}
		hungUp, hangUp := context.WithCancel(t.Context())
		hangUp()
		for _, c := range []struct{ encoding, body string }{{"gzip", "{}"}, {"", "\x1f\x8b\x08"}} {
			if _, no := g.enter(hungUp, hostile, c.encoding, []byte(c.body)); no == nil {
				t.Errorf("%q with Content-Encoding %q got through, want that a compressed body waits for a slot", c.body, c.encoding)
			}
		}
		began := time.Now()
		if _, no := g.enter(t.Context(), hostile, "", large); no == nil || no.outcome != OutcomeShed || time.Since(began) != largePatience {
			t.Errorf("the second got %v after %s, want that it is shed after %s", no, time.Since(began), largePatience)
		}
		gone, stop := context.WithCancel(t.Context())
		stop()
		if _, no := g.enter(gone, hostile, "", large); no == nil || no.outcome != OutcomeShed {
			t.Errorf("a sender who is gone got %v, want that it is shed", no)
		}
		leave()
		if leave, no := g.enter(t.Context(), hostile, "", large); no != nil {
			t.Errorf("after the first has left: got %v, want a slot", no.outcome)
		} else {
			leave()
		}
	})
}

func TestAReservedExpressionOfItsOwnNeedsASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, e := newLargeGate(1), largeOf(true)
		if _, no := g.enter(t.Context(), e, "", nil); no != nil {
			t.Fatalf("the first got %v, want a slot", no.outcome)
		}
		if _, no := g.enter(t.Context(), e, "", nil); no == nil {
			t.Error("the second got a slot, want that it waits")
		}
	})
}
