// Package openid signs people in to the console with OpenID Connect: the authorization code flow
// with PKCE (OpenID Connect Core 1.0, section 3.1; RFC 7636).
//
// The provider proves who the person is. A claim of the ID token, such as groups, decides what the
// person may do: Config.Grants maps its values to tenants and scopes. A person without a value that
// is mapped is refused. The provider is read at the first sign-in and not at the start, so a gateway
// starts while the provider is down.
package openid

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/eventhook/eventhook/internal/session"
)

// CallbackPath is the path to which the provider redirects. Its URL is registered at the provider.
const CallbackPath = "/console/openid/callback"

const (
	stateCookie = "eventhook_openid"
	cookiePath  = "/console/openid"
	// signInTime is how long a person may take at the provider.
	signInTime = 10 * time.Minute
	// requestTimeout limits each request to the provider.
	requestTimeout = 10 * time.Second
)

// Error is a failed sign-in. Its text is shown to the person and has no secret.
type Error struct{ Message string }

func (e *Error) Error() string { return e.Message }

// Provider signs people in. Create it with New. It is safe for concurrent use.
type Provider struct {
	Config
	publicURL string
	isSecure  bool // cookies of an https URL have the attribute Secure
	log       *slog.Logger
	now       func() time.Time
	http      *http.Client

	mu    sync.Mutex
	found *oidc.Provider // nil until the provider was read
}

// New returns a provider for a gateway at publicURL. It makes no request.
func New(c Config, publicURL string, log *slog.Logger, now func() time.Time) *Provider {
	return &Provider{Config: c, publicURL: publicURL, isSecure: isHTTPS(publicURL), log: log, now: now, http: &http.Client{Timeout: requestTimeout}}
}

func isHTTPS(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Scheme == "https"
}

// Name returns the name on the button.
func (p *Provider) Name() string { return p.DisplayName }

// attempt is a sign-in that has begun. The browser keeps it in a cookie; the provider returns State.
type attempt struct {
	State, Nonce, Verifier, Next string
}

// Begin redirects the browser to the provider. next is the page to show afterwards. The error is an
// *Error if the provider cannot be reached.
func (p *Provider) Begin(w http.ResponseWriter, r *http.Request, next string) error {
	provider, err := p.provider(r.Context())
	if err != nil {
		return err
	}
	a := attempt{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Next: next}
	raw, err := json.Marshal(a)
	if err != nil {
		return err
	}
	p.setCookie(w, base64.RawURLEncoding.EncodeToString(raw), signInTime)
	http.Redirect(w, r, p.oauth(provider).AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)), http.StatusSeeOther)
	return nil
}

// Finish handles the provider's redirect. It returns the session and the page to show. The error is
// an *Error.
func (p *Provider) Finish(w http.ResponseWriter, r *http.Request) (s session.Session, next string, err error) {
	a, err := attemptOf(r)
	p.setCookie(w, "", -1)
	if err != nil {
		return s, "", err
	}
	q := r.URL.Query()
	if subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(a.State)) != 1 {
		return s, "", &Error{"This sign-in was begun in another window, or has expired. Sign in again."}
	}
	if q.Get("error") != "" {
		p.log.Warn("the OpenID provider refused a sign-in", "error", q.Get("error"), "description", q.Get("error_description"))
		return s, "", &Error{"The provider refused the sign-in. Sign in again, or ask its administrators."}
	}
	claims, err := p.claims(r.Context(), q.Get("code"), a)
	if err != nil {
		return s, "", err
	}
	s, err = p.session(claims)
	return s, a.Next, err
}

func attemptOf(r *http.Request) (a attempt, err error) {
	cookie, err := r.Cookie(stateCookie)
	if err == nil {
		var raw []byte
		if raw, err = base64.RawURLEncoding.DecodeString(cookie.Value); err == nil {
			err = json.Unmarshal(raw, &a)
		}
	}
	if err != nil || a.State == "" || a.Nonce == "" {
		return a, &Error{"This sign-in has expired, or the browser keeps no cookies. Sign in again."}
	}
	return a, nil
}

// claims exchanges the code for an ID token, verifies the token and returns its claims.
func (p *Provider) claims(ctx context.Context, code string, a attempt) (map[string]any, error) {
	provider, err := p.provider(ctx)
	if err != nil {
		return nil, err
	}
	ctx = oidc.ClientContext(ctx, p.http)
	tokens, err := p.oauth(provider).Exchange(ctx, code, oauth2.VerifierOption(a.Verifier))
	if err != nil {
		p.log.Warn("the OpenID provider did not exchange a code", "error", exchangeError(err))
		return nil, &Error{"The provider did not confirm the sign-in. Sign in again; the log of the gateway has the cause."}
	}
	raw, _ := tokens.Extra("id_token").(string)
	token, err := provider.VerifierContext(ctx, &oidc.Config{ClientID: p.ClientID, Now: p.now}).Verify(ctx, raw)
	if err == nil && subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(a.Nonce)) != 1 {
		err = errors.New("the nonce differs")
	}
	claims := map[string]any{}
	if err == nil {
		err = token.Claims(&claims)
	}
	if err != nil {
		p.log.Warn("an ID token is not valid", "error", err)
		return nil, &Error{"The provider's answer is not valid. Sign in again; the log of the gateway has the cause."}
	}
	return claims, nil
}

// exchangeError returns the cause of a failed exchange without the body of the answer, which may
// have tokens.
func exchangeError(err error) error {
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return errors.New(refused.Response.Status + " " + refused.ErrorCode)
	}
	return err
}

// provider returns the provider's description, which is read once.
func (p *Provider) provider(ctx context.Context) (*oidc.Provider, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found != nil {
		return p.found, nil
	}
	// The provider keeps the context for later requests, so it must not end with this request.
	found, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), p.http), p.Issuer)
	if err != nil {
		p.log.Error("the OpenID provider cannot be read", "issuer", p.Issuer, "error", err)
		return nil, &Error{"The provider cannot be reached now. Try again in a minute, or sign in with a key."}
	}
	p.found = found
	return found, nil
}

func (p *Provider) oauth(provider *oidc.Provider) *oauth2.Config {
	return &oauth2.Config{ClientID: p.ClientID, ClientSecret: p.ClientSecret, Endpoint: provider.Endpoint(), RedirectURL: p.publicURL + CallbackPath,
		Scopes: append([]string{oidc.ScopeOpenID}, p.Scopes...)}
}

// setCookie keeps an attempt in the browser. The provider's redirect comes from another site, which
// SameSite=Strict would not allow.
func (p *Provider) setCookie(w http.ResponseWriter, value string, age time.Duration) {
	//nolint:gosec // Secure unless the public URL is plain http
	http.SetCookie(w, &http.Cookie{Name: stateCookie, Value: value, Path: cookiePath, MaxAge: int(age.Seconds()), HttpOnly: true, Secure: p.isSecure,
		SameSite: http.SameSiteLaxMode})
}
