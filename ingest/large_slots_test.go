package ingest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
)

// newTenantSource returns a source of a new tenant.
func newTenantSource(hasCustomReserved bool) *source {
	return &source{config: eventhook.Source{TenantID: eventhook.NewID[eventhook.Tenant](time.Now())}, hasCustomReserved: hasCustomReserved}
}

func TestATenantUsesHalfOfTheProcessorsForLargeRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const cpus = 2
		slots, busy, other := newLargeSlots(cpus), newTenantSource(false), newTenantSource(false)
		large, small := make([]byte, smallBody+1), make([]byte, smallBody)
		release, refused := slots.acquire(t.Context(), busy, "", large)
		if refused != nil {
			t.Fatalf("the first got %v, want a slot", refused.outcome)
		}
		for claim, s := range map[string]*source{"another tenant's": other, "another tenant's with reserved": newTenantSource(true)} {
			if release, refused := slots.acquire(t.Context(), s, "", large); refused != nil {
				t.Errorf("%s got %v, want a slot", claim, refused.outcome)
			} else {
				release()
			}
		}
		if _, refused := slots.acquire(t.Context(), busy, "", small); refused != nil {
			t.Errorf("a small body got %v, want it to need no slot", refused.outcome)
		}
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		for _, c := range []struct{ encoding, body string }{{"gzip", "{}"}, {"", "\x1f\x8b\x08"}} {
			if _, refused := slots.acquire(cancelled, busy, c.encoding, []byte(c.body)); refused == nil {
				t.Errorf("%q with Content-Encoding %q got a slot, want a compressed body to wait", c.body, c.encoding)
			}
		}
		began := time.Now()
		if _, refused := slots.acquire(t.Context(), busy, "", large); refused == nil || refused.outcome != OutcomeShed || time.Since(began) != largeTimeout {
			t.Errorf("the second got %v after %s, want it shed after %s", refused, time.Since(began), largeTimeout)
		}
		if _, refused := slots.acquire(cancelled, busy, "", large); refused == nil || refused.outcome != OutcomeShed {
			t.Errorf("a cancelled request got %v, want it shed", refused)
		}
		release()
		if release, refused := slots.acquire(t.Context(), busy, "", large); refused != nil {
			t.Errorf("after a release: got %v, want a slot", refused.outcome)
		} else {
			release()
		}
	})
}

func TestACustomReservedExpressionNeedsASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots, s := newLargeSlots(1), newTenantSource(true)
		if _, refused := slots.acquire(t.Context(), s, "", nil); refused != nil {
			t.Fatalf("the first got %v, want a slot", refused.outcome)
		}
		if _, refused := slots.acquire(t.Context(), s, "", nil); refused == nil {
			t.Error("the second got a slot, want it shed")
		}
	})
}
