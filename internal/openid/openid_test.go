package openid

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/clocktest"
	"github.com/eventhook/eventhook/internal/session"
)

// browser signs in at a gateway through a fake provider.
type browser struct {
	*testing.T
	gateway *Provider
	at      *fakeProvider
	clock   *clocktest.Clock
	cookies []*http.Cookie
	log     bytes.Buffer
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	b := &browser{T: t, at: newFakeProvider(t)}
	c := DefaultConfig()
	c.Issuer, c.ClientID, c.ClientSecret = b.at.URL, "gateway", "client-secret"
	c.Grants = []string{"platform=admin", "support=admin_read", "pay=acme:read+manage", "ops=acme:work", "pay=other:read"}
	b.clock = clocktest.New(today)
	b.gateway = New(c, Deps{PublicURL: "https://hooks.example", Key: []byte("the key of these tests"), Log: slog.New(slog.NewTextHandler(&b.log, nil)), Now: b.clock.Now,
		Client: func(*http.Request) netip.Addr { return netip.MustParseAddr("198.51.100.7") }})
	return b
}

// begin clicks the button and returns the URL of the provider.
func (b *browser) begin() string {
	b.Helper()
	w := httptest.NewRecorder()
	if err := b.gateway.Begin(w, httptest.NewRequest(http.MethodGet, "/console/openid", nil), "/console/t/acme"); err != nil {
		b.Fatal(err)
	}
	b.cookies = w.Result().Cookies()
	return w.Header().Get("Location")
}

// finish follows the provider's redirect.
func (b *browser) finish(target string) (session.Session, string, error) {
	b.Helper()
	r := httptest.NewRequest(http.MethodGet, target, nil)
	for _, c := range b.cookies {
		r.AddCookie(c)
	}
	return b.gateway.Finish(httptest.NewRecorder(), r)
}

func TestPersonSignsInWithThePermissionsOfTheClaim(t *testing.T) {
	for _, c := range []struct {
		claim  string
		value  any
		mapped []string
		want   eventhook.Grant
	}{
		{"groups", []string{"platform", "support"}, []string{"platform", "support"}, eventhook.Grant{Admin: true, Tenants: map[string][]eventhook.Scope{}}},
		{"groups", "support", []string{"support"}, eventhook.Grant{AdminReadOnly: true, Tenants: map[string][]eventhook.Scope{}}},
		{"groups", []string{"unknown", "ops", "pay"}, []string{"pay", "ops"}, eventhook.Grant{Tenants: map[string][]eventhook.Scope{
			"acme": {"read", "manage", "work"}, "other": {"read"}}}},
	} {
		b := newBrowser(t)
		b.at.claims = map[string]any{c.claim: c.value, "email": "ada@acme.example", "email_verified": true}
		s, next, err := b.finish(b.at.authorize(t, b.begin()).String())
		if err != nil {
			t.Fatalf("%v: %v\n%s", c.value, err, &b.log)
		}
		c.want.Name = "ada@acme.example"
		if diff := cmp.Diff(&c.want, b.gateway.Grant(s)); diff != "" || next != "/console/t/acme" {
			t.Errorf("%v: next %q, grant (-want +got):\n%s", c.value, next, diff)
		}
		want := session.Session{Kind: session.Console, Name: "ada@acme.example", Person: &session.Person{Issuer: b.at.URL, Claim: "groups", Values: c.mapped}, ExpiresAt: today.Add(12 * time.Hour)}
		if diff := cmp.Diff(want, s); diff != "" {
			t.Errorf("%v: session (-want +got):\n%s", c.value, diff)
		}
	}
}

func TestPersonWithoutPermissionsIsRefused(t *testing.T) {
	for _, claims := range []map[string]any{{}, {"groups": "Platform"}, {"groups": 7}, {"roles": "platform"}, {"groups": []any{map[string]any{"name": "platform"}}}} {
		b := newBrowser(t)
		b.at.claims = claims
		s, _, err := b.finish(b.at.authorize(t, b.begin()).String())
		if wanted, ok := errors.AsType[*Error](err); !ok || !strings.Contains(wanted.Message, "nothing grants you access") {
			t.Errorf("%v: error, got %v", claims, err)
		}
		if diff := cmp.Diff(session.Session{Name: "u-1"}, s); diff != "" {
			t.Errorf("%v: session (-want +got):\n%s", claims, diff)
		}
	}
}

func TestForgedTokensAreRefused(t *testing.T) {
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, forge := range map[string]func(*fakeProvider){
		"another key":      func(p *fakeProvider) { p.signWith = other },
		"another audience": func(p *fakeProvider) { p.claims["aud"] = "shop" },
		"another issuer":   func(p *fakeProvider) { p.claims["iss"] = "https://evil.example" },
		"another nonce":    func(p *fakeProvider) { p.claims["nonce"] = "n" },
		"no nonce":         func(p *fakeProvider) { p.claims["nonce"] = "" },
		"an expired token": func(p *fakeProvider) { p.claims["exp"] = today.Add(-time.Hour).Unix() },
		"no subject":       func(p *fakeProvider) { p.claims["sub"] = nil },
		"an empty subject": func(p *fakeProvider) { p.claims["sub"] = "" },
		"another party":    func(p *fakeProvider) { p.claims["azp"] = "shop" },
		"another party of several": func(p *fakeProvider) {
			p.claims["aud"], p.claims["azp"] = []string{"gateway", "shop"}, "shop"
		},
		"several audiences without a party": func(p *fakeProvider) { p.claims["aud"] = []string{"gateway", "shop"} },
		"the algorithm none":                func(p *fakeProvider) { p.sign = unsigned },
		"the client secret as the key": func(p *fakeProvider) {
			p.sign = func(claims map[string]any) string {
				return signed(jose.HS256, []byte(strings.Repeat("client-secret", 3)), claims)
			}
		},
	} {
		b := newBrowser(t)
		b.at.claims["groups"] = "platform"
		forge(b.at)
		if s, _, err := b.finish(b.at.authorize(t, b.begin()).String()); err == nil {
			t.Errorf("%s: accepted, got session %+v", name, s)
		}
	}
}

func TestTokenForSeveralClientsNamesThisOne(t *testing.T) {
	b := newBrowser(t)
	b.at.claims = map[string]any{"groups": "platform", "aud": []string{"gateway", "shop"}, "azp": "gateway"}
	if _, _, err := b.finish(b.at.authorize(t, b.begin()).String()); err != nil {
		t.Error(err)
	}
}

func TestAddressGrantsOnlyIfItIsVerified(t *testing.T) {
	for verified, want := range map[any]bool{nil: false, false: false, "true": false, true: true} {
		b := newBrowser(t)
		b.gateway.Claim, b.gateway.grants = "email", []grant{{value: "ceo@acme.example", access: accessAdmin}}
		b.at.claims = map[string]any{"email": "ceo@acme.example", "email_verified": verified}
		s, _, err := b.finish(b.at.authorize(t, b.begin()).String())
		if (err == nil) != want || (b.gateway.Grant(s) != nil) != want {
			t.Errorf("email_verified %v: got %+v, %v", verified, s, err)
		}
		if !want && !strings.Contains(err.Error(), "has not verified your e-mail address") {
			t.Errorf("email_verified %v: error, got %v", verified, err)
		}
	}
}

func TestPermissionsAreThoseOfTheConfigurationNow(t *testing.T) {
	b := newBrowser(t)
	b.at.claims["groups"] = []string{"platform", "pay", "new"}
	s, _, err := b.finish(b.at.authorize(t, b.begin()).String())
	if err != nil {
		t.Fatal(err)
	}
	restarted := func(change func(*Config)) *eventhook.Grant {
		c := b.gateway.Config
		change(&c)
		return New(c, b.gateway.Deps).Grant(s)
	}
	tenant := &eventhook.Grant{Name: "u-1", Tenants: map[string][]eventhook.Scope{"acme": {"read"}}}
	for claim, c := range map[string]struct{ got, want *eventhook.Grant }{
		"fewer permissions": {restarted(func(c *Config) { c.Grants = []string{"pay=acme:read"} }), tenant},
		"no permissions":    {restarted(func(c *Config) { c.Grants = []string{"support=admin_read"} }), nil},
		"a new grant":       {restarted(func(c *Config) { c.Grants = []string{"new=admin"} }), nil}, // from the next sign-in on
		"another claim":     {restarted(func(c *Config) { c.Claim = "roles" }), nil},
		"another provider":  {restarted(func(c *Config) { c.Issuer = "https://other.example" }), nil},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", claim, diff)
		}
	}
	if got := b.gateway.Grant(session.Session{Name: "a key"}); got != nil {
		t.Errorf("a session without a person, got %+v", got)
	}
}

func TestSignInOfAnotherBrowserIsRefused(t *testing.T) {
	b := newBrowser(t)
	b.at.claims["groups"] = "platform"
	back := b.at.authorize(t, b.begin())
	q := back.Query()
	q.Set("state", "x") // everything else fits the attempt in the cookie
	back.RawQuery = q.Encode()
	if _, _, err := b.finish(back.String()); err == nil {
		t.Error("another state was accepted")
	}
	victim := b.at.authorize(t, b.begin()).String()
	b.begin() // another attempt replaces the cookie
	if _, _, err := b.finish(victim); err == nil {
		t.Error("the state of another attempt was accepted")
	}
	b.cookies = nil
	if _, _, err := b.finish(victim); err == nil {
		t.Error("a redirect without the cookie was accepted")
	}
	if b.at.calls > 0 {
		t.Errorf("requests to the token endpoint, got %d, want none", b.at.calls)
	}
}

func TestCodeIsUsedOnce(t *testing.T) {
	b := newBrowser(t)
	b.at.claims["groups"] = "platform"
	back := b.at.authorize(t, b.begin()).String()
	if _, _, err := b.finish(back); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.finish(back); err == nil {
		t.Error("a code was accepted twice")
	}
	if strings.Contains(b.log.String(), "planted-secret") || strings.Contains(b.log.String(), "client-secret") {
		t.Errorf("the log has a secret or the provider's text:\n%s", &b.log)
	}
}

func TestRefusalOfTheProviderIsAPlainMessage(t *testing.T) {
	b := newBrowser(t)
	state := b.at.authorize(t, b.begin()).Query().Get("state")
	_, _, err := b.finish(CallbackPath + "?error=access_denied&error_description=%3Cscript%3E&state=" + state)
	if err == nil || !strings.Contains(err.Error(), "The provider refused the sign-in") || strings.Contains(err.Error(), "script") {
		t.Errorf("error, got %v", err)
	}
}

func TestConfigNamesEveryFault(t *testing.T) {
	c := DefaultConfig()
	if f := c.Validate(); len(f) > 0 {
		t.Errorf("faults without an issuer, got %v", f)
	}
	c = Config{Issuer: "http://login.example", Grants: []string{"platform", "a=acme:fly", "b=ACME:read", "=admin"}}
	var got []string
	for _, fault := range c.Validate() {
		got = append(got, fault.Location)
	}
	want := []string{"grants[0]", "grants[1]", "grants[2]", "grants[3]", "session_hours", "issuer", "client_id", "claim", "name"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}
