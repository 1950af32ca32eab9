package ingest_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/verify"
)

// wantDuplicateOf checks that a request is stored as a duplicate of the event first.
func (r *fixture) wantDuplicateOf(t *testing.T, claim string, first eventhook.Event, req *http.Request) {
	t.Helper()
	if e := r.accepted(t, req); e.Status != eventhook.EventDuplicate || e.DuplicateOf != first.ID {
		t.Errorf("%s: got %s of %s, want a duplicate of %s", claim, e.Status, e.DuplicateOf, first.ID)
	}
}

// Signed JSON is replayed with other headers, which the signature does not cover.
func TestCapturedJSONKeepsItsKey(t *testing.T) {
	r := newFixture(t, func(s *eventhook.Source) { s.IdempotencyKeyPaths = []string{"body.id"} })
	const body = `{"id":"evt_1","text":"a=b&c--XX"}`
	first := r.accepted(t, webhook(body, "Content-Type", "application/json"))
	for _, headers := range [][]string{
		nil, {"Content-Type", formType}, {"Content-Type", multipartType}, {"Content-Type", "multipart/form-data"}, {"Content-Type", "text/xml"},
		{"Content-Type", "application/atom+xml; charset=utf-16"}, {"Content-Type", "image/png"}, {"Content-Type", "text/html"}, {"Content-Type", ";"},
		{"Content-Type", formType + "; charset=utf-16"}, {"Content-Type", cloudType}, {"Content-Encoding", "gzip"}, {"Content-Encoding", "deflate", "Content-Type", formType},
	} {
		r.wantDuplicateOf(t, "sent again with "+strings.Join(headers, ": "), first, webhook(body, headers...))
	}
}

// githubRequest returns a request signed for both GitHub and Razorpay, with a delivery id that
// neither signature covers.
func githubRequest(body, delivery string, headers ...string) *http.Request {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	signature := hex.EncodeToString(mac.Sum(nil))
	return webhook(body, append([]string{"X-Hub-Signature-256", "sha256=" + signature, "X-GitHub-Delivery", delivery,
		"X-Razorpay-Signature", signature, "X-Razorpay-Event-Id", delivery}, headers...)...)
}

func TestAReplayedRequestOfAProviderIsADuplicate(t *testing.T) {
	r := newFixture(t, verifiedAs(verify.Spec{Provider: "razorpay", Secrets: []string{secret}}))
	const body = `{"ref":"refs/heads/main"}`
	first := r.accepted(t, githubRequest(body, "d-1", "X-GitHub-Event", "push"))
	r.wantDuplicateOf(t, "under another id", first, githubRequest(body, "d-2", "X-GitHub-Event", "push"))
	r.wantDuplicateOf(t, "under another id and type", first, githubRequest(body, "d-3", "X-GitHub-Event", "star", "Content-Type", formType))
	r.wantDuplicateOf(t, "under the same id with another body", first, githubRequest(`{}`, "d-1"))
	if e := r.accepted(t, githubRequest(`{"ref":"refs/heads/next"}`, "d-4")); e.Status == eventhook.EventDuplicate {
		t.Error("another body under another id is a duplicate, want an event")
	}
}

func TestReplayProtectionOfASource(t *testing.T) {
	protect := func(to string) func(*eventhook.Source) {
		return func(s *eventhook.Source) { s.ReplayProtection = to }
	}
	github := verifiedAs(verify.Spec{Provider: "github", Secrets: []string{secret}})
	razorpay := verifiedAs(verify.Spec{Provider: "razorpay", Secrets: []string{secret}})
	ownVerifier := func(s *eventhook.Source) { s.IdempotencyKeyPaths = []string{"header.x-github-delivery"} }
	for _, c := range []struct {
		claim     string
		source    []any
		duplicate bool
	}{
		{"a configured verifier", []any{ownVerifier}, false},
		{"a configured verifier with body", []any{ownVerifier, protect("body")}, true},
		{"a source without ids with body", []any{protect("body")}, true},
		{"a provider that can sign the same bytes twice", []any{github}, false},
		{"a provider that can sign the same bytes twice, with body", []any{github, protect("body")}, true},
		{"a provider with body as its default", []any{razorpay}, true},
		{"a provider with body as its default, with off", []any{razorpay, protect("off")}, false},
	} {
		r := newFixture(t, c.source...)
		const form = "id=7&text=%7B"
		r.accepted(t, githubRequest(form, "d-1", "Content-Type", formType))
		again := r.accepted(t, githubRequest(form, "d-2", "Content-Type", "image/png"))
		if got := again.Status == eventhook.EventDuplicate; got != c.duplicate {
			t.Errorf("%s: a captured request is a duplicate: got %t, want %t", c.claim, got, c.duplicate)
		}
	}
}
