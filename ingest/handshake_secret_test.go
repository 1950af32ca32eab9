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

// asanaHandshake returns Asana's handshake with the given secrets.
func asanaHandshake(secrets ...string) *http.Request {
	r := unsignedRequest("POST", "", "")
	r.Header["X-Hook-Secret"] = secrets
	return r
}

// asanaEvent returns an event signed with a secret.
func asanaEvent(secret string) *http.Request {
	const body = `{"events":[{"action":"added"}]}`
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	return unsignedRequest("POST", "", body, "X-Hook-Signature", hex.EncodeToString(mac.Sum(nil)))
}

const first, second = "the-first-secret", "the-second-secret"

func TestASourceLearnsOneSecret(t *testing.T) {
	r := newFixture(t, verifiedAs(asana))
	r.wantStatus(t, asanaEvent(first), http.StatusUnauthorized)
	w := r.wantStatus(t, asanaHandshake(first), http.StatusOK)
	wantHeader(t, w, "X-Hook-Secret", first)
	r.wantStored(t, 0)
	r.accepted(t, asanaEvent(first)) // the secret is in effect at once
	for _, again := range []string{second, first} {
		w := r.wantStatus(t, asanaHandshake(again), http.StatusUnauthorized)
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

// Another instance has stored a secret, and this one still has the old source in its cache.
func TestASecretThatAnotherInstanceLearnedIsNotReplaced(t *testing.T) {
	r := newFixture(t, verifiedAs(asana))
	r.wantStatus(t, asanaEvent(first), http.StatusUnauthorized) // caches the source without a secret
	r.sources.list[0].LearnedSecrets = []eventhook.Secret{eventhook.NewSecret(first)}
	w := r.send(asanaHandshake(second))
	wantProblem(t, w, http.StatusUnauthorized, unverified)
	wantHeader(t, w, "X-Hook-Secret", "")
	if diff := cmp.Diff([]string{"key_not_found", "secret_known"}, r.observer.reasons); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
	r.accepted(t, asanaEvent(first)) // the refusal has invalidated the cache
}

func TestASecretThatCannotBeStoredIs500(t *testing.T) {
	for _, c := range []struct {
		spec    verify.Spec
		request func() *http.Request
	}{
		{asana, func() *http.Request { return asanaHandshake(first) }},
		{notion, func() *http.Request { return unsignedRequest("POST", "", member("verification_token", first)) }},
	} {
		r := newFixture(t, verifiedAs(c.spec), forgeriesOf(1, 1))
		r.learner.err = errDown
		for range 3 {
			w := r.wantStatus(t, c.request(), http.StatusInternalServerError)
			wantHeader(t, w, "X-Hook-Secret", "")
		}
		r.learner.err = nil
		r.wantStatus(t, c.request(), http.StatusOK)
		wantList(t, "learned", r.learner.learned, first)
		if !strings.Contains(r.log.String(), "learn the secret") || strings.Contains(r.log.String(), first) {
			t.Errorf("logged %s, want the failure and no secret", r.log)
		}
	}
}

// A sender that disconnects has sent the secret, so it is still stored.
func TestASecretIsLearnedIfTheSenderDisconnects(t *testing.T) {
	r := newFixture(t, verifiedAs(asana))
	r.wantStatus(t, asanaEvent(first), http.StatusUnauthorized) // caches the source
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.wantStatus(t, asanaHandshake(first).WithContext(ctx), http.StatusOK)
	wantList(t, "learned", r.learner.learned, first)
}

func TestTheFormOfALearnedSecret(t *testing.T) {
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
			for spec, req := range map[*verify.Spec]*http.Request{&asana: asanaHandshake(c.secret), &notion: unsignedRequest("POST", "", member("verification_token", c.secret))} {
				r := newFixture(t, verifiedAs(*spec))
				r.wantStatus(t, req, c.want)
				wantCount(t, "learned", len(r.learner.learned), map[int]int{200: 1}[c.want])
			}
		})
	}
}

func TestOnlyASourceThatAwaitsASecretLearnsOne(t *testing.T) {
	for _, c := range []struct {
		claim string
		spec  verify.Spec
		r     *http.Request
		want  int
	}{
		{"two secrets at once", asana, asanaHandshake(first, second), 400},
		{"a source with a configured secret", withOptions("asana", nil, secret), asanaHandshake(first), 401},
		{"another provider", withOptions("github", nil, secret), asanaHandshake(first), 401},
		{"notion's token with another member", notion, unsignedRequest("POST", "", `{"verification_token":"secret_12345","type":"x"}`), 401},
		{"notion's token, repeated", notion, unsignedRequest("POST", "", `{"verification_token":"secret_12345","verification_token":"secret_67890"}`), 401},
		{"notion's token as a number", notion, unsignedRequest("POST", "", `{"verification_token":1234567890}`), 400},
		{"asana's header at a notion source", notion, asanaHandshake(first), 401},
		{"a source with a configured token", withOptions("notion", nil, secret), unsignedRequest("POST", "", member("verification_token", first)), 401},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := newFixture(t, verifiedAs(c.spec))
			r.wantStatus(t, c.r, c.want)
			wantList(t, "learned", r.learner.learned, "")
			wantCount(t, "handshakes", r.observer.outcomes[ingest.OutcomeHandshake], 0)
		})
	}
}

// Asana's secret takes effect at once. To keep strangers from setting it, it is only accepted
// within an hour after the source was created or reset.
func TestASecretThatTakesEffectAtOnceIsAcceptedForAnHour(t *testing.T) {
	for _, c := range []struct {
		claim string
		after time.Duration
		want  int
	}{
		{"at the end of the hour", time.Hour, http.StatusOK},
		{"after the hour", time.Hour + time.Second, http.StatusUnauthorized},
	} {
		r := newFixture(t, verifiedAs(asana))
		r.clock.Advance(c.after)
		r.wantStatus(t, asanaHandshake(first), c.want)
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
		r.wantStatus(t, asanaHandshake(second), http.StatusOK)
		r.accepted(t, asanaEvent(second))
	}
}

// Notion's secret takes effect when it has been shown to a user, however late it arrives.
func TestASecretThatMustBeConfirmedTakesEffectWhenRevealed(t *testing.T) {
	const body = `{"id":"1","type":"page.created"}`
	event := func(secret string) *http.Request {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(body))
		return unsignedRequest("POST", "", body, "X-Notion-Signature", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	}
	r := newFixture(t, verifiedAs(notion))
	r.clock.Advance(48 * time.Hour)
	r.wantStatus(t, unsignedRequest("POST", "", member("verification_token", first)), http.StatusOK)
	r.wantStatus(t, event(first), http.StatusUnauthorized)
	r.wantStatus(t, unsignedRequest("POST", "", member("verification_token", second)), http.StatusUnauthorized)
	r.wantStatus(t, event(second), http.StatusUnauthorized)
	wantList(t, "learned", r.learner.learned, first)
	r.sources.list[0].SecretRevealed = true
	r.handler.InvalidateAll()
	r.accepted(t, event(first))
	r.wantStatus(t, event(second), http.StatusUnauthorized)
}
