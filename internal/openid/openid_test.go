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
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/session"
)

// browser signs in at a gateway through a fake provider.
type browser struct {
	*testing.T
	gateway *Provider
	at      *fakeProvider
	cookies []*http.Cookie
	log     bytes.Buffer
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	b := &browser{T: t, at: newFakeProvider(t)}
	c := DefaultConfig()
	c.Issuer, c.ClientID, c.ClientSecret = b.at.URL, "gateway", "client-secret"
	c.Grants = []string{"platform=admin", "support=admin_read", "pay=acme:read+manage", "ops=acme:work", "pay=other:read"}
	b.gateway = New(c, "https://hooks.example", slog.New(slog.NewTextHandler(&b.log, nil)), func() time.Time { return today })
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
		claim string
		value any
		want  eventhook.Grant
	}{
		{"groups", []string{"platform", "support"}, eventhook.Grant{Admin: true, Tenants: map[string][]eventhook.Scope{}}},
		{"groups", "support", eventhook.Grant{AdminReadOnly: true, Tenants: map[string][]eventhook.Scope{}}},
		{"groups", []string{"pay", "ops", "unknown"}, eventhook.Grant{Tenants: map[string][]eventhook.Scope{
			"acme": {"read", "manage", "work"}, "other": {"read"}}}},
	} {
		b := newBrowser(t)
		b.at.claims = map[string]any{c.claim: c.value, "email": "ada@acme.example", "email_verified": true}
		s, next, err := b.finish(b.at.authorize(t, b.begin()).String())
		if err != nil {
			t.Fatalf("%v: %v\n%s", c.value, err, &b.log)
		}
		c.want.Name = "ada@acme.example"
		want := session.Session{Kind: session.Console, Name: "ada@acme.example", Grant: &c.want, ExpiresAt: today.Add(12 * time.Hour)}
		if diff := cmp.Diff(want, s); diff != "" || next != "/console/t/acme" {
			t.Errorf("%v: next %q, session (-want +got):\n%s", c.value, next, diff)
		}
	}
}

func TestPersonWithoutPermissionsIsRefused(t *testing.T) {
	for _, claims := range []map[string]any{{}, {"groups": "Platform"}, {"groups": 7}, {"roles": "platform"}, {"groups": []any{map[string]any{"name": "platform"}}}} {
		b := newBrowser(t)
		b.at.claims = claims
		_, _, err := b.finish(b.at.authorize(t, b.begin()).String())
		if wanted, ok := errors.AsType[*Error](err); !ok || !strings.Contains(wanted.Message, "nothing grants you access") {
			t.Errorf("%v: error, got %v", claims, err)
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
	} {
		b := newBrowser(t)
		b.at.claims["groups"] = "platform"
		forge(b.at)
		if s, _, err := b.finish(b.at.authorize(t, b.begin()).String()); err == nil {
			t.Errorf("%s: accepted, got session %+v", name, s)
		}
	}
}

func TestSignInOfAnotherBrowserIsRefused(t *testing.T) {
	b := newBrowser(t)
	b.at.claims["groups"] = "platform"
	victim := b.at.authorize(t, b.begin()).String()
	b.begin() // another attempt replaces the cookie
	if _, _, err := b.finish(victim); err == nil {
		t.Error("the state of another attempt was accepted")
	}
	b.cookies = nil
	if _, _, err := b.finish(victim); err == nil {
		t.Error("a redirect without the cookie was accepted")
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

func TestProviderThatIsDownIsReadLater(t *testing.T) {
	b := newBrowser(t)
	issuer := b.gateway.Issuer
	b.gateway.Issuer = "http://127.0.0.1:1"
	err := b.gateway.Begin(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/console/openid", nil), "/console")
	if wanted, ok := errors.AsType[*Error](err); !ok || !strings.Contains(wanted.Message, "cannot be reached now") {
		t.Errorf("error, got %v", err)
	}
	b.gateway.Issuer = issuer
	b.at.claims["groups"] = "platform"
	if _, _, err := b.finish(b.at.authorize(t, b.begin()).String()); err != nil {
		t.Errorf("sign-in after the provider is back: %v", err)
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
