package ingest_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook/ingest"
)

func (r *fixture) fastlyChallenge() *httptest.ResponseRecorder {
	return r.send(httptest.NewRequest(http.MethodGet, ingest.FastlyPath, nil))
}

func TestTheFastlyChallengeListsEachServiceOnce(t *testing.T) {
	r := newFixture(t)
	r.services.ids = []string{"a,b", "", " c ", "*,a", "b"}
	w := r.fastlyChallenge()
	lines := strings.Split(strings.TrimSuffix(w.Body.String(), "\n"), "\n")
	if len(lines) != 4 || lines[0] != "*" || !slices.IsSorted(lines) {
		t.Errorf("answered %q, want * and three hashes, sorted", lines)
	}
	wantSafe(t, w)
	wantCount(t, "handshakes", r.observer.outcomes[ingest.OutcomeHandshake], 1)
}

func TestTheFastlyChallengeListsAtMostAThousandServices(t *testing.T) {
	r := newFixture(t)
	for n := range 1500 {
		r.services.ids = append(r.services.ids, fmt.Sprint(n))
	}
	text := r.fastlyChallenge().Body.String()
	wantCount(t, "lines", strings.Count(text, "\n"), 1000)
	if !strings.Contains(r.log.String(), `"services":1500`) {
		t.Errorf("logged %s, want the number of services", r.log)
	}
}

func TestTheFastlyChallengeWithoutServicesIs404(t *testing.T) {
	r := newFixture(t)
	for range 3 {
		wantProblem(t, r.fastlyChallenge(), http.StatusNotFound, "The source does not exist.")
	}
	wantCount(t, "reads", r.services.calls, 1)
}

func TestFastlyServicesAreReadOnceAMinute(t *testing.T) {
	r := newFixture(t)
	r.services.ids = []string{"*"}
	for range 59 {
		r.fastlyChallenge()
		r.clock.Advance(time.Second)
	}
	wantCount(t, "reads in a minute", r.services.calls, 1)
	r.clock.Advance(time.Second)
	r.fastlyChallenge()
	wantCount(t, "reads in two minutes", r.services.calls, 2)
}

func TestAChangedSourceInvalidatesTheFastlyChallenge(t *testing.T) {
	for claim, invalidate := range map[string]func(*fixture){
		"of a source": func(r *fixture) { r.handler.InvalidateSource("acme", "crm") },
		"of a tenant": func(r *fixture) { r.handler.InvalidateTenant("acme") },
		"of anything": func(r *fixture) { r.handler.InvalidateAll() },
	} {
		r := newFixture(t)
		r.fastlyChallenge()
		r.services.ids = []string{"*"}
		invalidate(r)
		if w := r.fastlyChallenge(); w.Body.String() != "*\n" {
			t.Errorf("%s: answered %q, want *", claim, w.Body)
		}
	}
}

func TestFastlyServicesThatCannotBeReadAre500(t *testing.T) {
	r := newFixture(t)
	r.services.err = errDown
	for range 50 {
		w := r.fastlyChallenge()
		wantProblem(t, w, http.StatusInternalServerError, "The webhook could not be stored; send it again.")
	}
	wantCount(t, "failed", r.observer.outcomes[ingest.OutcomeFailed], 50)
	if n := strings.Count(r.log.String(), "\n"); n == 0 || n > 20 {
		t.Errorf("logged %d lines, want a few", n)
	}
	r.services.err, r.services.ids = nil, []string{"*"}
	if w := r.fastlyChallenge(); w.Body.String() != "*\n" {
		t.Errorf("answered %q, want *", w.Body)
	}
}
