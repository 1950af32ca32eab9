package openid

import (
	"context"
	"slices"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/eventhook/eventhook/internal/panics"
)

const (
	// requestTimeout limits each request to the provider.
	requestTimeout = 10 * time.Second
	// failureMemory is how long after a failed read the provider is not read again.
	failureMemory = 10 * time.Second
)

var errUnreachable = &Error{"The provider cannot be reached now. Try again in a minute, or sign in with a key."}

// description is what the provider says about itself.
type description struct {
	*oidc.Provider
	endpoint oauth2.Endpoint
}

// provider returns the provider's description, which is read once. Concurrent callers wait for the same
// read, each as long as its context lasts. After a failure, callers get the error at once for a while.
// The error is errUnreachable.
func (p *Provider) provider(ctx context.Context) (*description, error) {
	p.mu.Lock()
	if p.found == nil && p.reading == nil && !p.Now().Before(p.retryAt) {
		p.reading = make(chan struct{})
		go panics.Guarded(p.read)()
	}
	reading := p.reading
	p.mu.Unlock()
	if reading != nil {
		select {
		case <-reading:
		case <-ctx.Done():
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found == nil {
		return nil, errUnreachable
	}
	return p.found, nil
}

// read reads the description. It belongs to no request, so it goes on if the browser leaves.
func (p *Provider) read() {
	found, err := p.discover()
	if err != nil {
		p.Log.Error("the OpenID provider cannot be read", "issuer", p.Issuer, "error", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.found, p.retryAt = found, p.Now().Add(failureMemory)
	close(p.reading)
	p.reading = nil
}

func (p *Provider) discover() (*description, error) {
	found, err := oidc.NewProvider(oidc.ClientContext(context.Background(), p.http), p.Issuer)
	if err != nil {
		return nil, err
	}
	var more struct {
		Methods []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := found.Claims(&more); err != nil {
		return nil, err
	}
	d := &description{found, found.Endpoint()}
	d.endpoint.AuthStyle = p.authStyle(more.Methods)
	return d, nil
}

// authStyle returns how the gateway authenticates at the token endpoint. client_secret_basic is the
// default of OpenID Connect Discovery 1.0, section 3. Without a choice, the library would send each
// refused request twice.
func (p *Provider) authStyle(supported []string) oauth2.AuthStyle {
	if p.ClientSecret == "" || len(supported) > 0 && !slices.Contains(supported, "client_secret_basic") {
		return oauth2.AuthStyleInParams
	}
	return oauth2.AuthStyleInHeader
}

func (p *Provider) oauth(d *description) *oauth2.Config {
	return &oauth2.Config{ClientID: p.ClientID, ClientSecret: p.ClientSecret, Endpoint: d.endpoint, RedirectURL: p.PublicURL + CallbackPath,
		Scopes: append([]string{oidc.ScopeOpenID}, p.Scopes...)}
}
