// Package openid signs people in to the console with OpenID Connect: the authorization code flow
// with PKCE (OpenID Connect Core 1.0, section 3.1; RFC 7636).
//
// The provider proves who the person is. A claim of the ID token, such as groups, decides what the
// person may do: Config.Grants maps its values to tenants and scopes, again for each request of the
// session. A person without a value that is mapped is refused. The provider is read at the first
// sign-in and not at the start, so a gateway starts while the provider is down.
package openid

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/clients"
	"github.com/eventhook/eventhook/internal/session"
)

// CallbackPath is the path to which the provider redirects. Its URL is registered at the provider.
const CallbackPath = "/console/openid/callback"

// Error is a failed sign-in. Its text is shown to the person and has no secret.
type Error struct{ Message string }

func (e *Error) Error() string { return e.Message }

// Deps are the dependencies of a Provider.
type Deps struct {
	PublicURL string      // of the gateway
	Key       []byte      // signs sign-ins that have begun; the same on all instances
	Jar       session.Jar // for the cookie of a sign-in that has begun
	// Client returns the client address of a request, by which failed sign-ins are limited. nil: no limit.
	Client func(*http.Request) netip.Addr
	Log    *slog.Logger
	Now    func() time.Time
}

// Provider signs people in. Create it with New. It is safe for concurrent use.
type Provider struct {
	Config
	Deps
	grants   []grant
	failures *clients.Budget
	http     *http.Client

	mu      sync.Mutex
	found   *description  // nil until the provider was read
	reading chan struct{} // closed at the end of the running read; nil without one
	retryAt time.Time     // no read before
}

// New returns a provider. It makes no request.
func New(c Config, d Deps) *Provider {
	const perSecond, burst = 1, 20
	p := &Provider{Config: c, Deps: d, failures: clients.NewBudget(perSecond, burst), http: &http.Client{Timeout: requestTimeout}}
	for _, text := range c.Grants {
		if g, err := grantOf(text); err == nil { // Validate has refused a malformed grant
			p.grants = append(p.grants, g)
		}
	}
	return p
}

// Name returns the name on the button.
func (p *Provider) Name() string { return p.DisplayName }

// Begin redirects the browser to the provider. next is the page to show afterwards. The error is an
// *Error if the provider cannot be reached. Begin needs no limit: it sends no request besides the one
// read of the provider, and stores nothing.
func (p *Provider) Begin(w http.ResponseWriter, r *http.Request, next string) error {
	found, err := p.provider(r.Context())
	if err != nil {
		return err
	}
	a := attempt{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Next: next, ExpiresAt: p.Now().Add(signInTime)}
	p.keep(w, r, a)
	http.Redirect(w, r, p.oauth(found).AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)), http.StatusSeeOther)
	return nil
}

// Finish handles the provider's redirect. It returns the session and the page to show. The error is
// an *Error, or of KindRateLimited if too many sign-ins from the client address have failed. If the
// provider has confirmed a person who has no permissions, s.Name is the person's name beside the error.
func (p *Provider) Finish(w http.ResponseWriter, r *http.Request) (s session.Session, next string, err error) {
	a, err := p.attemptOf(r)
	p.forget(w, r)
	if err != nil {
		return s, "", err
	}
	q := r.URL.Query()
	if subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(a.State)) != 1 {
		return s, "", &Error{"This sign-in was begun in another window, or has expired. Sign in again."}
	}
	if err := p.takeFailure(r); err != nil {
		return s, "", err
	}
	if q.Get("error") != "" {
		p.Log.Warn("the OpenID provider refused a sign-in", "error", short(q.Get("error")), "description", short(q.Get("error_description")))
		return s, "", &Error{"The provider refused the sign-in. Sign in again, or ask its administrators."}
	}
	claims, err := p.claims(r.Context(), q.Get("code"), a)
	if err != nil {
		return s, "", err
	}
	if s, err = p.session(claims); err != nil {
		return s, "", err
	}
	p.returnFailure(r)
	return s, a.Next, nil
}

// takeFailure counts a sign-in as failed, before it costs a request to the provider or a line of the
// log. returnFailure undoes that.
func (p *Provider) takeFailure(r *http.Request) error {
	if p.Client == nil || p.failures.Take(p.Client(r), p.Now()) {
		return nil
	}
	return &eventhook.Error{Kind: eventhook.KindRateLimited, RetryAfter: max(p.failures.Wait(p.Client(r), p.Now()), 1),
		Message: "Too many sign-ins from your address have failed. Wait a minute and try again, or sign in with a key."}
}

func (p *Provider) returnFailure(r *http.Request) {
	if p.Client != nil {
		p.failures.Return(p.Client(r), p.Now())
	}
}

// short limits a text of the provider's redirect, which anyone can write, for the log.
func short(text string) string {
	const limit = 200
	return text[:min(len(text), limit)]
}

// claims exchanges the code for an ID token, verifies the token and returns its claims.
func (p *Provider) claims(ctx context.Context, code string, a attempt) (map[string]any, error) {
	found, err := p.provider(ctx)
	if err != nil {
		return nil, err
	}
	ctx = oidc.ClientContext(ctx, p.http)
	tokens, err := p.oauth(found).Exchange(ctx, code, oauth2.VerifierOption(a.Verifier))
	if err != nil {
		p.Log.Warn("the OpenID provider did not exchange a code", "error", exchangeError(err))
		return nil, &Error{"The provider did not confirm the sign-in. Sign in again; the log of the gateway has the cause."}
	}
	raw, _ := tokens.Extra("id_token").(string)
	token, err := found.VerifierContext(ctx, &oidc.Config{ClientID: p.ClientID, Now: p.Now}).Verify(ctx, raw)
	claims := map[string]any{}
	if err == nil {
		err = token.Claims(&claims)
	}
	if err == nil {
		err = p.check(token, claims, a)
	}
	if err != nil {
		p.Log.Warn("an ID token is not valid", "error", err)
		return nil, &Error{"The provider's answer is not valid. Sign in again; the log of the gateway has the cause."}
	}
	return claims, nil
}

// check checks the rules of OpenID Connect Core 1.0, section 3.1.3.7, that the library leaves to its
// caller: the nonce, the subject, and the party to which the token was issued.
func (p *Provider) check(token *oidc.IDToken, claims map[string]any, a attempt) error {
	party, hasParty := claims["azp"]
	switch {
	case subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(a.Nonce)) != 1:
		return errors.New("the nonce differs")
	case token.Subject == "":
		return errors.New("the claim sub is missing")
	case hasParty && party != any(p.ClientID):
		return errors.New("the claim azp names another client")
	case !hasParty && slices.ContainsFunc(token.Audience, func(name string) bool { return name != p.ClientID }):
		return errors.New("the token is for several clients, and the claim azp is missing")
	}
	return nil
}

// exchangeError returns the cause of a failed exchange without the body of the answer, which may
// have tokens.
func exchangeError(err error) error {
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return errors.New(refused.Response.Status + " " + refused.ErrorCode)
	}
	return err
}
