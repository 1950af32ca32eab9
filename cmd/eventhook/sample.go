package main

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
)

//go:embed samples/github-push.json
var githubPush string

//go:embed samples/stripe-payment_intent.json
var stripePaymentIntent string

// sample is a webhook as a provider would send it, but for the signature.
type sample struct {
	provider  string
	eventType string
	id        string // the delivery's; "" makes one
	paymentID string // Stripe only
	body      []byte // nil: the provider's sample
}

// samples has a line for each provider that `send` knows: its usual event
// type, its body, and how it signs.
var samples = map[string]struct {
	eventType string
	body      func(s sample, now time.Time) []byte
	sign      func(h http.Header, s sample, secret string, body []byte, now time.Time)
}{
	"github": {"push", githubBody, signGitHub},
	"stripe": {"payment_intent.succeeded", stripeBody, signStripe},
}

// request makes the signed request.
func (s sample) request(ctx context.Context, url, secret string, now time.Time) (*http.Request, error) {
	kind, ok := samples[s.provider]
	if !ok {
		return nil, usageError{fmt.Errorf("no sample of %q; there are github and stripe", s.provider)}
	}
	if s.eventType == "" {
		s.eventType = kind.eventType
	}
	if s.id == "" {
		s.id = eventhook.NewID[sample](now).String()
	}
	body := s.body
	if body == nil {
		body = kind.body(s, now)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, usageError{fmt.Errorf("the URL cannot be used: %w", err)}
	}
	r.Header.Set("Content-Type", "application/json")
	kind.sign(r.Header, s, secret, body, now)
	return r, nil
}

// signGitHub signs as docs.github.com, "Validating webhook deliveries", says.
func signGitHub(h http.Header, s sample, secret string, body []byte, _ time.Time) {
	h.Set("User-Agent", "GitHub-Hookshot/eventhook-sample")
	h.Set("X-GitHub-Event", s.eventType)
	h.Set("X-GitHub-Delivery", s.id)
	h.Set("X-Hub-Signature-256", "sha256="+hexHMAC(secret, body))
}

// githubBody is a push of a commit that is derived from the delivery's id: the
// bodies of two deliveries differ, as GitHub's do.
func githubBody(s sample, _ time.Time) []byte {
	const commitBytes = 20
	commit := sha256.Sum256([]byte(s.id))
	return fmt.Appendf(nil, githubPush, hex.EncodeToString(commit[:commitBytes]))
}

// signStripe signs as docs.stripe.com, "Verify webhook signatures manually", says.
func signStripe(h http.Header, _ sample, secret string, body []byte, now time.Time) {
	at := strconv.FormatInt(now.Unix(), 10)
	h.Set("User-Agent", "Stripe/1.0 (eventhook sample)")
	h.Set("Stripe-Signature", "t="+at+",v1="+hexHMAC(secret, append([]byte(at+"."), body...)))
}

func stripeBody(s sample, now time.Time) []byte {
	if s.paymentID == "" {
		s.paymentID = "pi_" + s.id
	}
	return fmt.Appendf(nil, stripePaymentIntent, "evt_"+s.id, s.eventType, s.paymentID, now.Unix())
}

func hexHMAC(secret string, message []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(message)
	return hex.EncodeToString(mac.Sum(nil))
}
