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
	sent, err := copyOf(request)
	if err != nil {
		return 0, nil, nil, err
	}
	sent.Header.Set("Authorization", b.authorization)
	return exchange(ctx, b.client, sent, maxBytes)
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
	_, credentials, _ := strings.Cut(sent.Header.Get("Authorization"), " ")
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
