package send

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	_ "embed" // the samples
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/cli/input"
)

//go:embed samples/github-push.json
var githubPush string

//go:embed samples/stripe-payment_intent.json
var stripePaymentIntent string

// Sample describes a webhook of a provider.
type Sample struct {
	Provider  string
	EventType string
	ID        string // of the webhook; a new id if empty
	PaymentID string // Stripe only
	Body      []byte // the provider's sample if nil
}

// samples has the default event type, the body and the signature of each provider.
var samples = map[string]struct {
	eventType string
	body      func(s Sample, now time.Time) []byte
	sign      func(h http.Header, s Sample, secret string, body []byte, now time.Time)
}{
	"github": {"push", githubBody, signGitHub},
	"stripe": {"payment_intent.succeeded", stripeBody, signStripe},
}

// Request returns the signed request to url.
func (s Sample) Request(ctx context.Context, url, secret string, now time.Time) (*http.Request, error) {
	kind, ok := samples[s.Provider]
	if !ok {
		return nil, input.Usagef("there is no sample of %q; want github or stripe", s.Provider)
	}
	if s.EventType == "" {
		s.EventType = kind.eventType
	}
	if s.ID == "" {
		s.ID = eventhook.NewID[Sample](now).String()
	}
	body := s.Body
	if body == nil {
		body = kind.body(s, now)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, input.Usagef("the URL is not valid: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	kind.sign(r.Header, s, secret, body, now)
	return r, nil
}

// signGitHub signs a request, see "Validating webhook deliveries" on docs.github.com.
func signGitHub(h http.Header, s Sample, secret string, body []byte, _ time.Time) {
	h.Set("User-Agent", "GitHub-Hookshot/eventhook-sample")
	h.Set("X-GitHub-Event", s.EventType)
	h.Set("X-GitHub-Delivery", s.ID)
	h.Set("X-Hub-Signature-256", "sha256="+hexHMAC(secret, body))
}

// githubBody returns a push of a commit whose hash is derived from the id of the
// webhook. The bodies of two webhooks differ, as those of GitHub do.
func githubBody(s Sample, _ time.Time) []byte {
	const commitBytes = 20
	commit := sha256.Sum256([]byte(s.ID))
	return fmt.Appendf(nil, githubPush, hex.EncodeToString(commit[:commitBytes]))
}

// signStripe signs a request, see "Verify webhook signatures manually" on
// docs.stripe.com.
func signStripe(h http.Header, _ Sample, secret string, body []byte, now time.Time) {
	at := strconv.FormatInt(now.Unix(), 10)
	h.Set("User-Agent", "Stripe/1.0 (eventhook sample)")
	h.Set("Stripe-Signature", "t="+at+",v1="+hexHMAC(secret, append([]byte(at+"."), body...)))
}

func stripeBody(s Sample, now time.Time) []byte {
	if s.PaymentID == "" {
		s.PaymentID = "pi_" + s.ID
	}
	return fmt.Appendf(nil, stripePaymentIntent, "evt_"+s.ID, s.EventType, s.PaymentID, now.Unix())
}

func hexHMAC(secret string, message []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(message)
	return hex.EncodeToString(mac.Sum(nil))
}
