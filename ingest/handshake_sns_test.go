package ingest_test

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const confirmation = "sns: SubscriptionConfirmation"

func TestAConfirmationThatFailsIs500(t *testing.T) {
	c := caseNamed(t, confirmation)
	r := c.fixture(t, forgeriesOf(1, 1))
	r.confirmer.err = errors.New("answered 503")
	for range 3 {
		r.wantStatus(t, c.request(), http.StatusInternalServerError)
	}
	if text := r.log.String(); !strings.Contains(text, "confirm the subscription: answered 503") || strings.Contains(text, "Token=") {
		t.Errorf("logged %s, want the failure without the URL", text)
	}
	r.confirmer.err = nil
	r.wantStatus(t, c.request(), http.StatusOK) // SNS repeats the request
	wantCount(t, "calls", len(r.confirmer.calls()), 4)
	r.wantStored(t, 0)
}

// If the source verifies nothing, no sender can make the gateway call a URL.
func TestAnUnverifiedConfirmationIsAnEvent(t *testing.T) {
	r := newFixture(t, verifiedAs(unsigned("aws-sns")))
	r.accepted(t, caseNamed(t, confirmation).request())
	wantList(t, "confirmed", r.confirmer.calls(), "")
}

func TestAHangingConfirmationTimesOut(t *testing.T) {
	c := caseNamed(t, confirmation)
	synctest.Test(t, func(t *testing.T) {
		r := c.fixture(t)
		r.confirmer.hangs = true
		began := time.Now()
		r.wantStatus(t, c.request(), http.StatusInternalServerError)
		if got := time.Since(began); got != 10*time.Second {
			t.Errorf("took %s, want 10s", got)
		}
	})
}

func TestConcurrentConfirmationsAreLimited(t *testing.T) {
	c := caseNamed(t, confirmation)
	synctest.Test(t, func(t *testing.T) {
		r := c.fixture(t)
		r.confirmer.hangs = true
		began := time.Now()
		var senders sync.WaitGroup
		for range 30 {
			senders.Go(func() { r.wantStatus(t, c.request(), http.StatusInternalServerError) })
		}
		synctest.Wait()
		wantCount(t, "calls at once", len(r.confirmer.calls()), 8)
		senders.Wait()
		if got := time.Since(began); got != 10*time.Second {
			t.Errorf("took %s, want 10s for all", got)
		}
	})
}
