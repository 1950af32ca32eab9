package ingest_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/verify"
)

var (
	asana  = verify.Spec{Provider: "asana"}
	notion = verify.Spec{Provider: "notion"}
)

func hooked(secrets ...string) *http.Request {
	r := asking("POST", "", "")
	r.Header["X-Hook-Secret"] = secrets
	return r
}

// asanaEvent is signed with a secret.
func asanaEvent(secret string) *http.Request {
	const body = `{"events":[{"action":"added"}]}`
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	return asking("POST", "", body, "X-Hook-Signature", hex.EncodeToString(mac.Sum(nil)))
}

const first, second = "the-first-secret", "the-second-secret"

func TestASourceLearnsOneSecret(t *testing.T) {
	r := newFixture(t, like(asana))
	r.wantStatus(t, asanaEvent(first), http.StatusUnauthorized)
	w := r.wantStatus(t, hooked(first), http.StatusOK)
	wantHeader(t, w, "X-Hook-Secret", first)
	r.wantStored(t, 0)
	r.accepted(t, asanaEvent(first)) // at once
	for _, again := range []string{second, first} {
		w := r.wantStatus(t, hooked(again), http.StatusUnauthorized)
		wantHeader(t, w, "X-Hook-Secret", "")
	}
	r.wantStatus(t, asanaEvent(second), http.StatusUnauthorized)
	r.accepted(t, asanaEvent(first))
	wantList(t, "learned", r.learner.learned, first)
	everything := fmt.Sprint(r.log, r.observer.reasons)
	if strings.Contains(everything, first) || strings.Contains(everything, second) {
		t.Errorf("a secret is found in %s", everything)
	}
}

// Another instance was faster, and this one has not heard of it yet.
func TestASecretThatIsKnownElsewhereIsNotLearned(t *testing.T) {
	r := newFixture(t, like(asana))
	r.wantStatus(t, asanaEvent(first), http.StatusUnauthorized) // it is cached, and waits
	r.sources.list[0].LearnedSecrets = []eventhook.Secret{eventhook.NewSecret(first)}
	w := r.send(hooked(second))
	wantProblem(t, w, http.StatusUnauthorized, unverified)
	wantHeader(t, w, "X-Hook-Secret", "")
	if diff := cmp.Diff([]string{"key_not_found", "secret_known"}, r.observer.reasons); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
	r.accepted(t, asanaEvent(first)) // now it has heard
}

func TestASecretThatCannotBeStoredIs500(t *testing.T) {
	for _, c := range []struct {
		spec verify.Spec
		ask  func() *http.Request
	}{
		{asana, func() *http.Request { return hooked(first) }},
		{notion, func() *http.Request { return asking("POST", "", member("verification_token", first)) }},
	} {
		r := newFixture(t, like(c.spec), forgeriesOf(1, 1))
		r.learner.err = errDown
		for range 3 {
			w := r.wantStatus(t, c.ask(), http.StatusInternalServerError)
			wantHeader(t, w, "X-Hook-Secret", "")
		}
		r.learner.err = nil
		r.wantStatus(t, c.ask(), http.StatusOK)
		wantList(t, "learned", r.learner.learned, first)
		if !strings.Contains(r.log.String(), "learn the secret") || strings.Contains(r.log.String(), first) {
			t.Errorf("logged %s, want the failure and no secret", r.log)
		}
	}
}

// A sender that leaves in the middle does not undo what it began: it has sent
// the secret.
func TestASecretIsLearnedThoughTheSenderLeaves(t *testing.T) {
	r := newFixture(t, like(asana))
	r.wantStatus(t, asanaEvent(first), http.StatusUnauthorized) // it is cached
	ctx, leave := context.WithCancel(t.Context())
	leave()
	r.wantStatus(t, hooked(first).WithContext(ctx), http.StatusOK)
	wantList(t, "learned", r.learner.learned, first)
}

func TestOnlySecretsAreLearned(t *testing.T) {
	for _, c := range []struct {
		claim, secret string
		want          int
	}{
		{"the shortest", "12345678", 200},
		{"too short", "1234567", 400},
		{"the longest", strings.Repeat("s", 512), 200},
		{"too long", strings.Repeat("s", 513), 400},
		{"empty", "", 400},
		{"not ASCII", "12345678ä", 400},
		{"a line end", "12345678\nX: y", 400},
		{"DEL", "12345678\x7f", 400},
	} {
		t.Run(c.claim, func(t *testing.T) {
			for spec, req := range map[*verify.Spec]*http.Request{&asana: hooked(c.secret), &notion: asking("POST", "", member("verification_token", c.secret))} {
				r := newFixture(t, like(*spec))
				r.wantStatus(t, req, c.want)
				wantCount(t, "learned", len(r.learner.learned), map[int]int{200: 1}[c.want])
			}
		})
	}
}

func TestOnlyWhoWaitsLearns(t *testing.T) {
	for _, c := range []struct {
		claim string
		spec  verify.Spec
		r     *http.Request
		want  int
	}{
		{"two secrets at once", asana, hooked(first, second), 400},
		{"a source with a secret of its own", withOptions("asana", nil, secret), hooked(first), 401},
		{"another provider", withOptions("github", nil, secret), hooked(first), 401},
		{"notion's token beside something", notion, asking("POST", "", `{"verification_token":"secret_12345","type":"x"}`), 401},
		{"notion's token twice", notion, asking("POST", "", `{"verification_token":"secret_12345","verification_token":"secret_67890"}`), 401},
		{"notion's token as a number", notion, asking("POST", "", `{"verification_token":1234567890}`), 400},
		{"asana's header at notion's", notion, hooked(first), 401},
		{"a source with a token of its own", withOptions("notion", nil, secret), asking("POST", "", member("verification_token", first)), 401},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := newFixture(t, like(c.spec))
			r.wantStatus(t, c.r, c.want)
			wantList(t, "learned", r.learner.learned, "")
			wantCount(t, "handshakes", r.observer.outcomes[ingest.OutcomeHandshake], 0)
		})
	}
}

// A stranger's secret must not count: Asana's is taken within an hour of the
// source's creation or reset, since it counts at once.
func TestASecretThatCountsAtOnceIsTakenForAnHour(t *testing.T) {
	for _, c := range []struct {
		claim string
		after time.Duration
		want  int
	}{
		{"in the hour", time.Hour, http.StatusOK},
		{"after it", time.Hour + time.Second, http.StatusUnauthorized},
	} {
		r := newFixture(t, like(asana))
		r.clock.advance(c.after)
		r.wantStatus(t, hooked(first), c.want)
		if got := r.send(asanaEvent(first)).Code; got != c.want {
			t.Errorf("%s: an event signed with the secret: answered %d, want %d", c.claim, got, c.want)
		}
		wantCount(t, c.claim+": learned", len(r.learner.learned), map[int]int{http.StatusOK: 1}[c.want])
		if c.want == http.StatusOK {
			continue
		}
		if r.observer.reasons[0] != "handshake_closed" {
			t.Errorf("%s: refused as %s, want handshake_closed", c.claim, r.observer.reasons[0])
		}
		r.sources.list[0].HandshakeOpenedAt = noon.Add(c.after) // reset
		r.handler.InvalidateAll()
		r.wantStatus(t, hooked(second), http.StatusOK)
		r.accepted(t, asanaEvent(second))
	}
}

// Notion's secret counts when a person was shown it, however late it comes.
func TestASecretThatMustBeConfirmedCountsWhenItWasRevealed(t *testing.T) {
	const body = `{"id":"1","type":"page.created"}`
	event := func(secret string) *http.Request {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(body))
		return asking("POST", "", body, "X-Notion-Signature", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	}
	r := newFixture(t, like(notion))
	r.clock.advance(48 * time.Hour)
	r.wantStatus(t, asking("POST", "", member("verification_token", first)), http.StatusOK)
	r.wantStatus(t, event(first), http.StatusUnauthorized)
	r.wantStatus(t, asking("POST", "", member("verification_token", second)), http.StatusUnauthorized)
	r.wantStatus(t, event(second), http.StatusUnauthorized)
	wantList(t, "learned", r.learner.learned, first)
	r.sources.list[0].SecretRevealed = true
	r.handler.InvalidateAll()
	r.accepted(t, event(first))
	r.wantStatus(t, event(second), http.StatusUnauthorized)
}
