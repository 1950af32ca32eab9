package send

import (
	"bytes"
	"context"
	"crypto"
	"net/http"
	"strings"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/cli/input"
	"github.com/eventhook/eventhook/verify"
)

// Sample describes a webhook of a provider.
type Sample struct {
	Provider  string
	Scheme    string // of the provider's signatures; the default scheme if empty
	EventType string // the sample's if empty
	ID        string // of the webhook; a new id if empty
	PaymentID string // Stripe only
	Body      []byte // the provider's sample if nil
	Options   map[string]string
	Key       crypto.Signer // for providers that sign with a private key
	PublicURL string        // the URL that is signed; the URL of the request if empty
}

// Request returns the signed request to url. Errors are of wrong usage, and contain
// no secret. secret is ignored if the provider signs with a private key.
func (s Sample) Request(ctx context.Context, url, secret string, now time.Time) (*http.Request, error) {
	c, err := s.verifier(secret)
	if err != nil {
		return nil, err
	}
	if s.ID == "" {
		s.ID = eventhook.NewID[Sample](now).String()
	}
	signed, err := s.render(now)
	if err != nil {
		return nil, err
	}
	signed.URL = url
	if s.PublicURL != "" {
		signed.URL = s.PublicURL
	}
	before := signed.URL
	if err := c.Sign(signed, s.Key); err != nil {
		return nil, input.Usage(err)
	}
	r, err := http.NewRequestWithContext(ctx, signed.Method, url, bytes.NewReader(signed.Body))
	if err != nil {
		return nil, input.Usagef("the URL is not valid: %w", err)
	}
	if signed.URL != before { // the scheme adds a parameter
		_, r.URL.RawQuery, _ = strings.Cut(signed.URL, "?")
	}
	r.Header = signed.Header
	return r, nil
}

// render returns the sample as an unsigned request without a URL.
func (s Sample) render(now time.Time) (*verify.Request, error) {
	f, err := sampleFile(s.Provider, s.preset().Scheme)
	if err != nil {
		return nil, err
	}
	if err := s.checkType(f); err != nil {
		return nil, err
	}
	if s.EventType == "" {
		s.EventType = f.eventType
	}
	v := values{s, now}
	if err := v.check(); err != nil {
		return nil, err
	}
	header, body, err := f.render(v)
	if err != nil {
		return nil, err
	}
	if s.Body != nil {
		body = s.Body
	}
	if header.Get("Content-Type") == "" {
		header.Set("Content-Type", "application/json")
	}
	return &verify.Request{Method: http.MethodPost, Header: header, Body: body, At: now}, nil
}

// checkType refuses an event type that the provider's webhooks cannot have.
func (s Sample) checkType(f file) error {
	switch {
	case s.EventType == "":
		return nil
	case f.eventType == "":
		return input.Usagef("--type: webhooks of %s have no type that can be chosen", s.Provider)
	case f.hasTwoPartTypes() && !strings.Contains(s.EventType, "."):
		return input.Usagef("--type %q: types of %s have two parts, such as %s", s.EventType, s.Provider, f.eventType)
	}
	return nil
}
