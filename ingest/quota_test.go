package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
)

func perDay(n int64) eventhook.Quota { return eventhook.Quota{MaxEventsPerDay: &n} }

func stored(n int64) eventhook.Quota { return eventhook.Quota{MaxStorageBytes: &n} }

func quota(q eventhook.Quota) func(*eventhook.Source) {
	return func(s *eventhook.Source) { s.Quota = q }
}

// wantUsed checks the counts of the fixture's tenant and source.
func (r *fixture) wantUsed(t *testing.T, events int) {
	t.Helper()
	for _, flush := range []func(context.Context) error{r.meter.Flush, r.meter.FlushSources} {
		if err := flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	bytes := 0
	for _, e := range r.store.stored() {
		bytes += len(e.Headers) + len(e.Body)
	}
	var tenant eventhook.TenantCount
	for _, c := range r.used.TenantDays(r.sources.list[0].TenantID) {
		tenant.Events, tenant.Bytes = tenant.Events+c.Events, tenant.Bytes+c.Bytes
	}
	var source int64
	for _, c := range r.used.SourceTotals() {
		source += c.Events
	}
	wantCount(t, "the tenant's events", int(tenant.Events), events)
	wantCount(t, "the tenant's bytes", int(tenant.Bytes), bytes)
	wantCount(t, "the source's events", int(source), events)
}

func wantOverQuota(t *testing.T, w *httptest.ResponseRecorder, quota, resetsAt, retryAfter string) {
	t.Helper()
	want := fmt.Sprintf(`{"detail":"The webhook exceeds the tenant's quota; send it again after the quota is reset.",`+
		`"quota":%q,"resets_at":%q,"status":429,"title":"Too Many Requests"}`, quota, resetsAt)
	if w.Code != http.StatusTooManyRequests || w.Body.String() != want {
		t.Errorf("answered %d %s, want 429 %s", w.Code, w.Body, want)
	}
	wantHeader(t, w, "Content-Type", "application/problem+json")
	wantHeader(t, w, "Retry-After", retryAfter)
}

func TestAQuotaRefusesUntilMidnight(t *testing.T) {
	for _, c := range []struct {
		claim string
		quota eventhook.Quota
		fits  int
		name  string
	}{
		{"of events", perDay(3), 3, "max_events_per_day"},
		{"of none", perDay(0), 0, "max_events_per_day"},
		{"of bytes", stored(250), 2, "max_storage_bytes"},
		{"of no byte", stored(0), 0, "max_storage_bytes"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := newFixture(t, quota(c.quota))
			for range c.fits {
				r.accepted(t, webhook("0123456789"))
			}
			wantOverQuota(t, r.send(webhook("0123456789")), c.name, "2026-03-11T00:00:00Z", "43200")
			r.clock.Advance(12*time.Hour - 1500*time.Millisecond)
			wantOverQuota(t, r.send(webhook("0123456789")), c.name, "2026-03-11T00:00:00Z", "2")
			wantCount(t, "requests refused for the quota", r.observer.outcomes[ingest.OutcomeQuotaExceeded], 2)
			r.wantUsed(t, c.fits)
		})
	}
}

func TestEachDayHasItsOwnQuota(t *testing.T) {
	r := newFixture(t, quota(perDay(1)))
	r.accepted(t, webhook(""))
	r.wantStatus(t, webhook(""), http.StatusTooManyRequests)
	r.clock.Advance(12 * time.Hour)
	r.accepted(t, webhook(""))
	r.wantStatus(t, webhook(""), http.StatusTooManyRequests)
}

func TestARaisedQuotaAcceptsEventsAgain(t *testing.T) {
	r := newFixture(t, quota(perDay(1)))
	r.accepted(t, webhook(""))
	r.wantStatus(t, webhook(""), http.StatusTooManyRequests)
	r.sources.list[0].Quota = perDay(2)
	r.handler.InvalidateTenant("acme")
	r.accepted(t, webhook(""))
	r.wantStatus(t, webhook(""), http.StatusTooManyRequests)
	r.sources.list[0].Quota = eventhook.Quota{}
	r.handler.InvalidateTenant("acme")
	r.accepted(t, webhook(""))
}

func TestOnlyStoredEventsCountForAQuota(t *testing.T) {
	keyed := func(s *eventhook.Source) { s.IdempotencyKeyPaths = []string{"body.id"} }
	r := newFixture(t, quota(perDay(3)), keyed)
	r.wantStatus(t, forgery("x"), http.StatusUnauthorized)
	r.wantStatus(t, webhook(`{"id":1}`), http.StatusOK)
	r.wantStatus(t, webhook(`{"id":1}`), http.StatusOK) // a duplicate is stored, too
	r.store.set(func(s *store) { s.err = errDown })
	for range 5 {
		r.wantStatus(t, webhook(`{"id":2}`), http.StatusInternalServerError)
	}
	r.store.set(func(s *store) { s.err = nil })
	r.wantStatus(t, webhook(`{"id":2}`), http.StatusOK)
	r.wantStatus(t, webhook(`{"id":3}`), http.StatusTooManyRequests)
	r.wantUsed(t, 3)
}

func TestAForgeryDoesNotRevealTheQuota(t *testing.T) {
	r := newFixture(t, quota(perDay(0)))
	wantProblem(t, r.send(forgery("x")), http.StatusUnauthorized, unverified)
}

func TestHandshakesIgnoreTheQuota(t *testing.T) {
	r := newFixture(t, provider("slack"), quota(perDay(0)))
	w := r.wantStatus(t, webhook(`{"type":"url_verification","challenge":"abc"}`, "Content-Type", "application/json"), http.StatusOK)
	if w.Body.String() == "" {
		t.Error("the handshake was not answered")
	}
	r.wantStored(t, 0)
}

func TestWithoutTotalsNoEventIsAcceptedUnderAQuota(t *testing.T) {
	r := newFixture(t, quota(perDay(5)))
	r.used.FailReads(errors.New("the database is down"))
	r.wantStatus(t, webhook(""), http.StatusInternalServerError)
	r.used.FailReads(nil)
	r.accepted(t, webhook(""))
}
