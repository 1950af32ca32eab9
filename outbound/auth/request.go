package auth

import (
	"bytes"
	"context"
	"net/http"
	"strings"

	"github.com/eventhook/eventhook/outbound/send"
)

// basic sends the same Authorization header with each request.
type basic struct {
	client        send.Client
	authorization string
}

// Exchange implements send.Client.
func (b basic) Exchange(ctx context.Context, request *http.Request, maxBytes int) (int, http.Header, []byte, error) {
	sent, err := b.Prepare(ctx, request)
	if err != nil {
		return 0, nil, nil, err
	}
	return exchange(ctx, b.client, sent, maxBytes)
}

// Prepare implements send.Preparer.
func (b basic) Prepare(_ context.Context, request *http.Request) (*http.Request, error) {
	return withAuthorization(request, b.authorization)
}

// Renew implements send.Preparer. There is nothing to renew.
func (b basic) Renew() {}

// Answered implements send.Preparer.
func (b basic) Answered(_ int, beginning []byte) (isRenewed bool) {
	mask(beginning, credentialsOf(b.authorization))
	return false
}

// withAuthorization returns a copy of a request with an Authorization header.
func withAuthorization(request *http.Request, authorization string) (*http.Request, error) {
	sent, err := copyOf(request)
	if err != nil {
		return nil, err
	}
	sent.Header.Set("Authorization", authorization)
	return sent, nil
}

// credentialsOf returns an Authorization header without its scheme.
func credentialsOf(authorization string) string {
	_, credentials, _ := strings.Cut(authorization, " ")
	return credentials
}

// copyOf returns a copy of a request with its own headers and a new body. The transport may
// still read the headers and the body of a request that has ended.
func copyOf(request *http.Request) (*http.Request, error) {
	sent := *request
	sent.Header = request.Header.Clone()
	if request.GetBody == nil {
		return &sent, nil
	}
	var err error
	sent.Body, err = request.GetBody()
	return &sent, err
}

// exchange makes a request, and masks its credentials in the beginning of the answer.
func exchange(ctx context.Context, c send.Client, sent *http.Request, maxBytes int) (int, http.Header, []byte, error) {
	credentials := credentialsOf(sent.Header.Get("Authorization"))
	// A longer part of the answer is read, so that credentials at its end are complete.
	status, header, beginning, err := c.Exchange(ctx, sent, maxBytes+len(credentials))
	mask(beginning, credentials)
	return status, header, beginning[:min(len(beginning), maxBytes)], err
}

// mask overwrites a secret in a text. The length of the text does not change.
func mask(text []byte, secret string) {
	const minSecret = 4 // bytes; shorter texts occur in every answer
	if len(secret) < minSecret {
		return
	}
	for rest := text; ; {
		i := bytes.Index(rest, []byte(secret))
		if i < 0 {
			return
		}
		copy(rest[i:], bytes.Repeat([]byte("*"), len(secret)))
		rest = rest[i+len(secret):]
	}
}
