package auth

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound/send"
)

// maxPools bounds the certificates with connections.
const maxPools = 512

// poolKey identifies a certificate with its key and its authorities.
type poolKey [sha256.Size]byte

// pools has a client with its own connections for each certificate. If there are more than
// maxPools, the idle connections of the client that was not used for the longest time are
// closed.
type pools struct {
	deps Deps

	mu      sync.Mutex
	clients *lru.Cache[poolKey, TLSClient] // guarded by mu
}

func newPools(d Deps) *pools {
	clients, _ := lru.NewWithEvict(maxPools, func(_ poolKey, c TLSClient) { c.CloseIdleConnections() }) // the error is for sizes below 1
	return &pools{deps: d, clients: clients}
}

// certified sends requests over the connections of a certificate.
type certified struct {
	pools       *pools
	key         poolKey
	certificate tls.Certificate
	authorities *x509.CertPool
}

var errCertificate = errors.New("the certificate or the private key of auth is not valid")

func (p *pools) client(a eventhook.Auth) (send.Client, error) {
	pair, authorities, err := a.KeyPair()
	if err != nil {
		return nil, errCertificate // the cause may quote the key
	}
	return certified{p, sha256.Sum256([]byte(a.Seal().Reveal())), pair, authorities}, nil
}

// Exchange implements send.Client.
func (c certified) Exchange(ctx context.Context, request *http.Request, maxBytes int) (int, http.Header, []byte, error) {
	return c.pools.get(c).Exchange(ctx, request, maxBytes)
}

// get returns the client of a certificate.
func (p *pools) get(of certified) TLSClient {
	p.mu.Lock()
	defer p.mu.Unlock()
	client, ok := p.clients.Get(of.key)
	if !ok {
		client = p.deps.WithCertificate(of.certificate, of.authorities)
		p.clients.Add(of.key, client)
	}
	return client
}
