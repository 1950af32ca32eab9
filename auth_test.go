package eventhook_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

const authHush = "hush-7f3a9c"

// keyPair returns a self-signed certificate and its key in PEM.
func keyPair(t *testing.T) (certificate, key string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "gateway"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}))
}

// completeAuths has an Auth of each type with all its members.
func completeAuths(t *testing.T) map[string]eventhook.Auth {
	t.Helper()
	certificate, key := keyPair(t)
	return map[string]eventhook.Auth{
		"basic":  {Type: "basic", Username: "u", Password: authHush},
		"oauth2": {Type: "oauth2", TokenURL: "https://login.example/token", ClientID: "c", ClientSecret: authHush, Scopes: []string{"a:b", "c"}},
		"mtls":   {Type: "mtls", Certificate: certificate, PrivateKey: key, CA: certificate},
		"aws":    {Type: "aws_sigv4", AccessKeyID: "AKID", SecretAccessKey: authHush, Region: "eu-west-1", Service: "lambda"},
	}
}

func TestAuthHidesItsSecrets(t *testing.T) {
	for name, a := range completeAuths(t) {
		if faults := a.Validate(); len(faults) > 0 {
			t.Errorf("%s: got %v, want no faults", name, faults)
		}
		shown, err := json.Marshal(a.Redacted())
		if err != nil || strings.Count(string(shown), eventhook.Redacted) != 1 {
			t.Errorf("%s: shown as %s, %v; want one redacted secret", name, shown, err)
		}
		for _, text := range []string{string(shown), fmt.Sprintf("%v %+v %#v %s", a, a, &a, []eventhook.Auth{a}), slog.AnyValue(a).Resolve().String()} {
			if strings.Contains(text, authHush) || strings.Contains(text, "PRIVATE KEY") {
				t.Errorf("%s: %q shows the secret", name, text)
			}
		}
		opened, err := eventhook.OpenAuth(a.Seal())
		if err != nil || !opened.Seal().Equal(a.Seal()) {
			t.Errorf("%s: opened as another Auth: %v", name, err)
		}
		if kept := a.Redacted().KeepSecrets(a); !kept.Seal().Equal(a.Seal()) {
			t.Errorf("%s: its secret is not kept", name)
		}
	}
	if a, err := eventhook.OpenAuth(eventhook.Secret{}); a != nil || err != nil {
		t.Errorf("an empty Secret: got %v, %v", a, err)
	}
}

func TestAuthKeepsSecretsOfTheSameRecipientOnly(t *testing.T) {
	have := completeAuths(t)["oauth2"]
	for _, c := range []struct {
		claim, tokenURL string
		isKept          bool
	}{
		{"another path", "https://Login.example:443/other", true},
		{"another host", "https://evil.example/token", false},
		{"another port", "https://login.example:8443/token", false},
		{"another scheme", "http://login.example/token", false},
		{"no URL", "", false},
	} {
		want := have.Redacted()
		want.TokenURL = c.tokenURL
		if got := want.KeepSecrets(have).ClientSecret == authHush; got != c.isKept {
			t.Errorf("%s: kept is %t, want %t", c.claim, got, c.isKept)
		}
	}
	other := eventhook.Auth{Type: "basic", Username: "u", Password: eventhook.Redacted}
	if kept := other.KeepSecrets(have); kept.Password != eventhook.Redacted {
		t.Error("a secret of another type is kept")
	}
}

func TestAuthFaults(t *testing.T) {
	certificate, key := keyPair(t)
	otherCertificate, otherKey := keyPair(t)
	changed := func(name string, change func(*eventhook.Auth)) eventhook.Auth {
		a := completeAuths(t)[name]
		change(&a)
		return a
	}
	for _, c := range []struct {
		claim string
		auth  eventhook.Auth
		want  []string
	}{
		{"no type", eventhook.Auth{Username: authHush}, []string{"type"}},
		{"an unknown type", eventhook.Auth{Type: "digest"}, []string{"type"}},
		{"basic without members", eventhook.Auth{Type: "basic"}, []string{"username", "password"}},
		{"oauth2 without members", eventhook.Auth{Type: "oauth2"}, []string{"token_url", "client_id", "client_secret"}},
		{"mtls without members", eventhook.Auth{Type: "mtls"}, []string{"certificate", "private_key"}},
		{"aws without members", eventhook.Auth{Type: "aws_sigv4"}, []string{"access_key_id", "secret_access_key", "region", "service"}},
		{"two types", changed("basic", func(a *eventhook.Auth) { a.TokenURL, a.Scopes = "https://a.example", []string{"a"} }), []string{"token_url", "scopes"}},
		{"a user with a colon", changed("basic", func(a *eventhook.Auth) { a.Username = "a:" + authHush }), []string{"username"}},
		{"a password of two lines", changed("basic", func(a *eventhook.Auth) { a.Password = authHush + "\n" }), []string{"password"}},
		{"a long password", changed("basic", func(a *eventhook.Auth) { a.Password = strings.Repeat(authHush, 1000) }), []string{"password"}},
		{"the placeholder", changed("basic", func(a *eventhook.Auth) { a.Password = eventhook.Redacted }), []string{"password"}},
		{"a token URL with a password", changed("oauth2", func(a *eventhook.Auth) { a.TokenURL = "https://u:" + authHush + "@a.example" }), []string{"token_url"}},
		{"no URL", changed("oauth2", func(a *eventhook.Auth) { a.TokenURL = "ftp://a.example" }), []string{"token_url"}},
		{"a client id that is not ASCII", changed("oauth2", func(a *eventhook.Auth) { a.ClientID = "é" }), []string{"client_id"}},
		{"a scope with a space", changed("oauth2", func(a *eventhook.Auth) { a.Scopes = []string{"a", "b c", `"`} }), []string{"scopes[1]", "scopes[2]"}},
		{"too many scopes", changed("oauth2", func(a *eventhook.Auth) { a.Scopes = slices.Repeat([]string{"a"}, 51) }), []string{"scopes"}},
		{"another key", eventhook.Auth{Type: "mtls", Certificate: certificate, PrivateKey: otherKey}, []string{"private_key"}},
		{"another certificate", eventhook.Auth{Type: "mtls", Certificate: otherCertificate, PrivateKey: key}, []string{"private_key"}},
		{"switched", eventhook.Auth{Type: "mtls", Certificate: key, PrivateKey: certificate}, []string{"certificate"}},
		{"no PEM", eventhook.Auth{Type: "mtls", Certificate: authHush, PrivateKey: authHush, CA: authHush}, []string{"ca", "certificate"}},
		{"a chain of eleven", eventhook.Auth{Type: "mtls", Certificate: strings.Repeat(certificate, 11), PrivateKey: key}, []string{"certificate"}},
		{"a region with a slash", changed("aws", func(a *eventhook.Auth) { a.Region = "eu/west" }), []string{"region"}},
		{"a secret key with a space", changed("aws", func(a *eventhook.Auth) { a.SecretAccessKey = authHush + " " }), []string{"secret_access_key"}},
	} {
		var got []string
		for _, f := range c.auth.Validate() {
			got = append(got, f.Location)
			if strings.Contains(f.Message, authHush) {
				t.Errorf("%s: %q shows a secret", c.claim, f.Message)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: faults of %v, want %v", c.claim, got, c.want)
		}
	}
}

func TestAuthOfASubscription(t *testing.T) {
	all := completeAuths(t)
	for _, c := range []struct {
		claim, auth, url, header string
		labels                   []string
		want                     []string
	}{
		{"a certificate over https", "mtls", "https://a.example", "", nil, nil},
		{"a certificate without TLS", "mtls", "http://a.example", "", nil, []string{"auth.type"}},
		{"a certificate for agents", "mtls", "https://a.example", "", []string{"env:prod"}, []string{"auth.type"}},
		{"a token for agents", "oauth2", "https://a.example", "", []string{"env:prod"}, nil},
		{"with auth_header", "basic", "https://a.example", "Bearer x", nil, []string{"auth"}},
	} {
		s := eventhook.Subscription{Name: "n", EventTypes: []string{"*"}}
		s.URL, s.Auth, s.AuthHeader, s.TargetLabels = eventhook.NewSecret(c.url), all[c.auth].Seal(), eventhook.NewSecret(c.header), c.labels
		var got []string
		for _, f := range s.Validate() {
			got = append(got, f.Location)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: faults of %v, want %v", c.claim, got, c.want)
		}
	}
}
