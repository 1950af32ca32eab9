// Package auth authenticates the requests of deliveries to their receivers: with Basic
// credentials, with a token of OAuth 2 client credentials, with a TLS client certificate, or
// with AWS Signature Version 4.
//
// Tokens are cached by their credentials until shortly before they end, and callers that need
// the same token share one request for it. A token that the receiver answers with 401 is
// renewed once, and the request is repeated. A failed token request is an error of the
// delivery's request. Each certificate has its own connections. The number of cached tokens
// and of certificates with connections is bounded. No error contains a secret.
package auth

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound/send"
)

// TLSClient is a send.Client with connections of its own.
type TLSClient interface {
	send.Client
	CloseIdleConnections()
}

// Deps are the dependencies of Clients.
type Deps struct {
	// Client makes all requests without a certificate, also those for tokens, so the
	// address policy holds for token endpoints.
	Client send.Client
	// WithCertificate returns a client that presents a certificate. authorities, unless nil,
	// replaces the trusted roots.
	WithCertificate func(certificate tls.Certificate, authorities *x509.CertPool) TLSClient
	Now             func() time.Time
}

// Clients implements send.Authenticator. Safe for concurrent use.
type Clients struct {
	deps   Deps
	tokens *tokens
	pools  *pools
}

var (
	_ send.Authenticator = (*Clients)(nil)
	_ send.Preparer      = basic{}
	_ send.Preparer      = bearer{}
	_ send.Preparer      = signed{}
)

// New returns Clients with empty caches.
func New(d Deps) *Clients {
	return &Clients{d, newTokens(d), newPools(d)}
}

var errType = errors.New("auth has a type that this version does not know")

// Client implements send.Authenticator. The error is for an Auth that Validate refuses.
func (c *Clients) Client(a eventhook.Auth) (send.Client, error) {
	switch a.Type {
	case eventhook.AuthBasic:
		return basic{c.deps.Client, "Basic " + base64.StdEncoding.EncodeToString([]byte(a.Username+":"+a.Password))}, nil
	case eventhook.AuthOAuth2:
		return bearer{c.deps.Client, c.tokens, keyOf(a)}, nil
	case eventhook.AuthMTLS:
		return c.pools.client(a)
	case eventhook.AuthAWS:
		return newSigned(c.deps, a), nil
	}
	return nil, errType
}
