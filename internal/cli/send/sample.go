package send

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/eventhook/eventhook" // the samples
	"github.com/eventhook/eventhook/internal/cli/input"
)

//go:embed samples/github-push.json
var githubPush string

//go:embed samples/stripe-payment_intent.json
var stripePaymentIntent string

// sample is a webhook as a provider would send it, but for the signature.
type Sample struct {
	Provider  string
	EventType string
	ID        string // the delivery's; "" makes one
	PaymentID string // Stripe only
	Body      []byte // nil: the provider's sample
}

// samples has a line for each provider that `send` knows: its usual event
// type, its body, and how it signs.
var samples = map[string]struct {
	eventType string
	body      func(s Sample, now time.Time) []byte
	sign      func(h http.Header, s Sample, secret string, body []byte, now time.Time)
}{
	"github": {"push", githubBody, signGitHub},
	"stripe": {"payment_intent.succeeded", stripeBody, signStripe},
}

// request makes the signed request.
func (s Sample) Request(ctx context.Context, url, secret string, now time.Time) (*http.Request, error) {
	kind, ok := samples[s.Provider]
	if !ok {
		return nil, input.Usagef("no sample of %q; there are github and stripe", s.Provider)
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
		return nil, input.Usagef("the URL cannot be used: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	kind.sign(r.Header, s, secret, body, now)
	return r, nil
}

// signGitHub signs as docs.github.com, "Validating webhook deliveries", says.
func signGitHub(h http.Header, s Sample, secret string, body []byte, _ time.Time) {
	h.Set("User-Agent", "GitHub-Hookshot/eventhook-sample")
	h.Set("X-GitHub-Event", s.EventType)
	h.Set("X-GitHub-Delivery", s.ID)
	h.Set("X-Hub-Signature-256", "sha256="+hexHMAC(secret, body))
}

// githubBody is a push of a commit that is derived from the delivery's id: the
// bodies of two deliveries differ, as GitHub's do.
func githubBody(s Sample, _ time.Time) []byte {
	const commitBytes = 20
	commit := sha256.Sum256([]byte(s.ID))
	return fmt.Appendf(nil, githubPush, hex.EncodeToString(commit[:commitBytes]))
}

// signStripe signs as docs.stripe.com, "Verify webhook signatures manually", says.
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
