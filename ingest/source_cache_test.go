package ingest_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/verify"
)

func TestTheSteadyStateReadsNoSource(t *testing.T) {
	r := newFixture(t)
	for range 40 {
		r.wantStatus(t, webhook(""), http.StatusOK)
		r.clock.Advance(time.Second)
	}
	wantCount(t, "reads", r.sources.called(), 1)
}

func TestANotifiedChangeTakesEffect(t *testing.T) {
	for claim, invalidate := range map[string]func(*fixture){
		"of the source": func(r *fixture) { r.handler.InvalidateSource("acme", "crm") },
		"of the tenant": func(r *fixture) { r.handler.InvalidateTenant("acme") },
		"of anything":   func(r *fixture) { r.handler.InvalidateAll() },
	} {
		t.Run(claim, func(t *testing.T) {
			r := newFixture(t)
			r.wantStatus(t, webhook(""), http.StatusOK)
			r.sources.list[0].IsEnabled = false
			r.wantStatus(t, webhook(""), http.StatusOK) // still cached
			invalidate(r)
			r.wantStatus(t, webhook(""), http.StatusNotFound)
			r.sources.list[0].IsEnabled = true
			invalidate(r)
			r.wantStatus(t, webhook(""), http.StatusOK)
			wantCount(t, "reads", r.sources.called(), 3)
		})
	}
}

func TestAChangeOfAnotherSourceCausesNoReload(t *testing.T) {
	r := newFixture(t)
	r.wantStatus(t, webhook(""), http.StatusOK)
	r.handler.InvalidateSource("acme", "shop")
	r.handler.InvalidateTenant("acm")
	r.wantStatus(t, webhook(""), http.StatusOK)
	wantCount(t, "reads", r.sources.called(), 1)
}

func TestAMissedChangeTakesEffectAfterTenMinutes(t *testing.T) {
	r := newFixture(t)
	r.wantStatus(t, webhook(""), http.StatusOK)
	r.sources.list[0].TenantStatus = eventhook.TenantSuspended
	r.clock.Advance(10 * time.Minute)
	r.wantStatus(t, webhook(""), http.StatusNotFound)
}

// An instance that cannot reach the database is not notified of changes.
func TestACopyIsCachedForTwoSeconds(t *testing.T) {
	r := newFixture(t, func(s *eventhook.Source) { s.IsCopy = true })
	step := func(change func(s *eventhook.Source), want int) {
		t.Helper()
		change(&r.sources.list[0])
		r.clock.Advance(2 * time.Second)
		r.wantStatus(t, webhook(""), want)
		reads := r.sources.called()
		r.clock.Advance(2*time.Second - 1)
		r.wantStatus(t, webhook(""), want)
		wantCount(t, "reads within 2 s", r.sources.called(), reads)
	}
	step(func(*eventhook.Source) {}, http.StatusOK)
	step(func(s *eventhook.Source) { s.IsEnabled = false }, http.StatusNotFound)
	step(func(s *eventhook.Source) { s.IsEnabled = true }, http.StatusOK)
}

func TestASourceThatCannotBeReadIs500AndNotCached(t *testing.T) {
	r := newFixture(t)
	r.sources.err = errDown
	for range 100 {
		w := r.send(webhook(""))
		wantProblem(t, w, http.StatusInternalServerError, "The webhook could not be stored; send it again.")
	}
	wantCount(t, "reads", r.sources.called(), 100)
	if n := strings.Count(r.log.String(), "\n"); n == 0 || n > 20 {
		t.Errorf("logged %d lines, want a few", n)
	}
	r.sources.err = nil
	r.wantStatus(t, webhook(""), http.StatusOK)
}

func TestACancelledRequestIsNotLoggedAsAFailure(t *testing.T) {
	r := newFixture(t)
	r.sources.gate = make(chan struct{})
	defer close(r.sources.gate)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.wantStatus(t, webhook("").WithContext(ctx), http.StatusBadRequest)
	if text := r.log.String(); strings.Contains(text, "ERROR") {
		t.Errorf("logged %s, want no error", text)
	}
}

func TestAnInvalidSourceIs500AndItsSecretIsNotLogged(t *testing.T) {
	for claim, change := range map[string]func(*eventhook.Source){
		"no JSON":         func(s *eventhook.Source) { s.Verifier = eventhook.NewSecret(`{"secrets":"` + secret + `"}`) },
		"an unknown type": func(s *eventhook.Source) { s.Verifier = verifier(verify.Config{Type: "x", Secrets: []string{secret}}) },
		"no verifier":     func(s *eventhook.Source) { s.Verifier = eventhook.Secret{} },
		"a bad key path":  func(s *eventhook.Source) { s.IdempotencyKeyPaths = []string{"id"} },
		"a bad type path": func(s *eventhook.Source) { s.EventTypePaths = []string{"id"} },
		"a bad range":     func(s *eventhook.Source) { s.AllowedIPRanges = []string{"192.0.2.1"} },
	} {
		r := newFixture(t, change)
		r.wantStatus(t, webhook(""), http.StatusInternalServerError)
		if text := r.log.String(); !strings.Contains(text, "acme/crm") || strings.Contains(text, secret) {
			t.Errorf("%s: logged %s, want the source's name and no secret", claim, text)
		}
	}
}

// A scan of made-up names uses only a few connections of the database.
func TestConcurrentSourceReadsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t)
		r.sources.gate = make(chan struct{})
		for n := range 50 {
			go func() {
				req := webhook("")
				req.URL.Path = fmt.Sprintf("/api/tenants/acme/eventhook/in/made-up-%d", n)
				r.wantStatus(t, req, http.StatusNotFound)
			}()
		}
		synctest.Wait()
		wantCount(t, "reads at once", r.sources.called(), 4)
		close(r.sources.gate)
		synctest.Wait()
		wantCount(t, "reads", r.sources.called(), 50)
	})
}
