package docs

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook/configs"
	"github.com/eventhook/eventhook/verify"
)

func TestProvidersPageIsUpToDate(t *testing.T) {
	have, err := os.ReadFile("../../docs/providers.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(Providers(), "\n"), strings.Split(string(have), "\n")); diff != "" {
		t.Errorf("docs/providers.md is out of date; run \"make docs\" (-want +got):\n%s", diff)
	}
}

func TestEveryTypeAndFieldIsDescribed(t *testing.T) {
	described := map[string]bool{}
	for _, f := range fields {
		if described[f.Key] || f.About == "" {
			t.Errorf("the field %s is described twice, or has an empty description", f.Key)
		}
		described[f.Key] = true
	}
	used := map[string]bool{}
	var describedTypes []string
	for _, t := range types {
		describedTypes = append(describedTypes, t.Key)
	}
	if diff := cmp.Diff(verify.Types(), describedTypes); diff != "" {
		t.Errorf("types (-verify +described):\n%s", diff)
	}
	for _, typ := range verify.Types() {
		if descriptions[typ] == nil {
			t.Errorf("the type %s has no description of its signatures", typ)
		}
		for _, key := range verify.Fields(typ) {
			used[key] = true
			if !described[key] {
				t.Errorf("the field %s of %s is not described", key, typ)
			}
		}
	}
	for key := range described {
		if !used[key] {
			t.Errorf("the field %s is described, but no type uses it", key)
		}
	}
	if len(descriptions) != len(verify.Types()) {
		t.Errorf("%d types have a description of their signatures, want %d", len(descriptions), len(verify.Types()))
	}
}

var placeholder = regexp.MustCompile(`\{[a-z0-9_]+(\.<[a-z]+>)?\}`)

// TestPlaceholdersAreComplete compares the page with the error about an unknown
// placeholder, which lists all placeholders.
func TestPlaceholdersAreComplete(t *testing.T) {
	message := func(signed string) string {
		c := verify.Config{Type: "timestamped_hmac", Header: "X-S", TimestampHeader: "X-T", Secrets: []string{"s"}, Signed: signed}
		for _, f := range c.Validate() {
			if f.Location == "signed" {
				return f.Message
			}
		}
		return ""
	}
	want := placeholder.FindAllString(strings.TrimPrefix(message("{wrong}"), "contains {wrong}"), -1)
	var got []string
	for _, p := range placeholders {
		example := strings.NewReplacer("<name>", "x-a", "<path>", "a.b").Replace(p.Key)
		if wrong := message("{body}{timestamp}" + strings.TrimPrefix(example, "{body}")); wrong != "" {
			t.Errorf("%s is described, but %s", p.Key, wrong)
		}
		if p.Key != "{{" {
			got = append(got, p.Key)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" || len(want) < 5 {
		t.Errorf("placeholders (-code +page):\n%s", diff)
	}
}

func TestEveryHandshakeIsDescribed(t *testing.T) {
	left := map[string]bool{}
	for name := range handshakes {
		left[name] = true
	}
	for _, p := range verify.Presets() {
		if p.Handshake != "" && handshakes[p.Handshake] == "" {
			t.Errorf("the handshake %s of %s is not described", p.Handshake, p.ID)
		}
		delete(left, p.Handshake)
	}
	for name := range left {
		t.Errorf("the handshake %s is described, but no provider has it", name)
	}
}

// TestExamplesAreValid parses each example, with secrets and keys in the form
// that its provider requires.
func TestExamplesAreValid(t *testing.T) {
	keys := testKeys(t)
	for _, p := range allSchemes() {
		env := func(name string) (string, bool) {
			if strings.HasSuffix(name, "_PUBLIC_KEY") {
				return keys[keyKind(p.Verifier)], true
			}
			return "00112233445566778899aabbccddeeff", true // text, hexadecimal and base64
		}
		text := "tenants:\n- slug: acme\n  sources:\n  " + strings.ReplaceAll(Example(p), "\n", "\n  ")
		tenants, faults := configs.ParseTenants([]byte(text), env)
		if len(faults) > 0 || len(tenants) != 1 || tenants[0].Sources[0].Provider != p.ID {
			t.Errorf("%s, %s: got %v from\n%s", p.ID, p.Scheme, faults, text)
		}
	}
}

func allSchemes() (all []Scheme) {
	for _, id := range verify.Providers() {
		all = append(all, schemesOf(id)...)
	}
	return all
}

func keyKind(c verify.Config) string {
	switch a := c.WithDefaults().Algorithm; {
	case strings.HasPrefix(a, "ecdsa"), strings.HasPrefix(a, "ES"):
		return "ecdsa"
	case strings.HasPrefix(a, "rsa"), strings.HasPrefix(a, "RS"):
		return "rsa"
	}
	return "ed25519"
}

func testKeys(t *testing.T) map[string]string {
	t.Helper()
	const bits = 2048
	r, err := rsa.GenerateKey(rand.Reader, bits)
	must(t, err)
	e, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	d, _, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	texts := map[string]string{}
	for kind, key := range map[string]any{"rsa": r.Public(), "ecdsa": e.Public(), "ed25519": d} {
		der, err := x509.MarshalPKIXPublicKey(key)
		must(t, err)
		texts[kind] = base64.StdEncoding.EncodeToString(der)
	}
	return texts
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestSignatureAndAge(t *testing.T) {
	for _, c := range []struct {
		id, scheme, want, age string
	}{
		{"github", "", "The header `X-Hub-Signature-256` must contain `sha256=` followed by the hexadecimal HMAC-SHA256 of the body.", ""},
		{"stripe", "", "The header `Stripe-Signature` must contain a list separated by `,` with the timestamp as `t=…` and, as `v1=…`, the hexadecimal HMAC-SHA256 of `{timestamp}.{body}`.", "The timestamp must be at most 300 s before receipt (`tolerance_seconds`); timestamps in the future are accepted."},
		{"slack", "", "The header `X-Slack-Signature` must contain `v0=` followed by the hexadecimal HMAC-SHA256 of `v0:{timestamp}:{body}`. The timestamp is in the header `X-Slack-Request-Timestamp`, in Unix seconds.", "The timestamp must be at most 300 s before or after receipt (`tolerance_seconds`)."},
		{"discord", "", "The header `X-Signature-Ed25519` must contain the hexadecimal signature (Ed25519) of `{timestamp}{body}`. The timestamp is in the header `X-Signature-Timestamp`, in Unix seconds.", "The timestamp's age is not checked by default; set `tolerance_seconds` to check it."},
		{"cloudevents", "", "The header `Authorization` must contain `Bearer ` followed by the secret, or the URL parameter `access_token` must contain the secret.", ""},
		{"hubspot", "hubspot-v1", "The header `X-HubSpot-Signature` must contain the hexadecimal SHA-256 of the secret followed by the body. The header `X-HubSpot-Signature-Version` must be `v1`.", ""},
		{"braintree", "", "The body's `bt_signature` must contain `{option.public_key_id}|` followed by the hexadecimal HMAC-SHA1 of `{field.bt_payload}`. The key of the HMAC is the SHA-1 of the secret.", ""},
		{"netlify", "", "The header `X-Webhook-Signature` must contain a JSON Web Token (HS256). In the token, `iss` must be `netlify`, `sha256` must be the body's SHA-256.", "The token must not have expired more than a minute before receipt. A token without an expiry (`exp`) does not expire. If it contains its issue time (`iat`), this must be at most 300 s before receipt (`tolerance_seconds`)."},
		{"google-pubsub", "", "The header `Authorization` must contain `Bearer ` followed by a JSON Web Token (RS256) that is signed with a key of <https://www.googleapis.com/oauth2/v3/certs>. " +
			"In the token, `iss` must be `https://accounts.google.com` or `accounts.google.com`, `aud` must contain `{option.audience}`, `email` must be `{option.email}`, `email_verified` must be `true`.",
			"The token must not have expired more than a minute before receipt."},
	} {
		p, ok := verify.FindPreset(c.id, c.scheme)
		if !ok {
			t.Fatalf("no preset %s %s", c.id, c.scheme)
		}
		if got := Signature(p.Verifier); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.id, got, c.want)
		}
		if got := maxAge(p.Verifier); got != c.age {
			t.Errorf("%s, age:\n got %s\nwant %s", c.id, got, c.age)
		}
	}
}
