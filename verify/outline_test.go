package verify

import (
	"sync"
	"testing"
)

func TestSharedOutlinesDoNotShareSecrets(t *testing.T) {
	ours, theirs := mustNew(t, Config{Type: "hmac", Header: "X-Sig", Secrets: []string{"ours"}}), mustNew(t, Config{Type: "hmac", Header: "X-Sig", Secrets: []string{"theirs"}})
	if ours.(*signatureVerifier).outline != theirs.(*signatureVerifier).outline {
		t.Error("the verifiers have different outlines, want a shared one")
	}
	var senders sync.WaitGroup
	for range 4 {
		senders.Go(func() {
			for range 200 {
				for _, c := range []struct {
					v      Verifier
					secret string
					want   Reason
				}{{ours, "ours", ""}, {ours, "theirs", ReasonMismatch}, {theirs, "theirs", ""}, {theirs, "ours", ReasonMismatch}} {
					if got := reasonOf(t, c.v.Verify(t.Context(), signedRequest(c.secret, "body"))); got != c.want {
						t.Errorf("signed with %s: got %q, want %q", c.secret, got, c.want)
					}
				}
			}
		})
	}
	senders.Wait()
}

// Two schemes have the same Config but different outlines.
func TestAdaptDoesNotChangeSharedOutline(t *testing.T) {
	c := Config{Type: "url_form_hmac", Header: "X-Sig", Algorithm: "sha1", Secrets: []string{"secret"}}
	mustNew(t, c)
	c.Type, c.Signed = "hmac", "{url}"
	if outlineOf(c.signatureDefaults()).message.anyURL {
		t.Error("the outline of hmac has anyURL, which only url_form_hmac sets")
	}
	c = Config{Type: "body_hmac", Path: "sig", Signed: "{field.id}", Secrets: []string{"secret"}}
	mustNew(t, c)
	if got := outlineOf(c.signatureDefaults()).separator; got != "," {
		t.Errorf("separator: got %q, want a comma", got)
	}
}
