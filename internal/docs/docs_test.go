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

func TestThePageIsCurrent(t *testing.T) {
	have, err := os.ReadFile("../../docs/providers.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(Providers(), "\n"), strings.Split(string(have), "\n")); diff != "" {
		t.Errorf("docs/providers.md is not what the presets say; run \"make docs\" (-want +got):\n%s", diff)
	}
}

func TestEverySchemeIsExplained(t *testing.T) {
	described := map[string]bool{}
	for _, f := range fields {
		if described[f.key] || f.about == "" {
			t.Errorf("the field %s is described twice, or by nothing", f.key)
		}
		described[f.key] = true
	}
	used := map[string]bool{}
	for _, typ := range verify.Types() {
		if types[typ] == "" || sentences[typ] == nil {
			t.Errorf("the type %s has no description or no sentence", typ)
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
			t.Errorf("the field %s is described, but no type takes it", key)
		}
	}
	if len(types) != len(verify.Types()) || len(sentences) != len(verify.Types()) {
		t.Errorf("%d types are described and %d have a sentence, want the %d there are", len(types), len(sentences), len(verify.Types()))
	}
}

var placeholder = regexp.MustCompile(`\{[a-z0-9_]+(\.<[a-z]+>)?\}`)

// TestPlaceholdersAreThoseOfTheCode asks the code, whose complaint about a
// wrong one lists them all.
func TestPlaceholdersAreThoseOfTheCode(t *testing.T) {
	message := func(signed string) string {
		c := verify.Config{Type: "timestamped_hmac", Header: "X-S", TimestampHeader: "X-T", Secrets: []string{"s"}, Signed: signed}
		for _, f := range c.Validate() {
			if f.Location == "signed" {
				return f.Message
			}
		}
		return ""
	}
	want := placeholder.FindAllString(strings.TrimPrefix(message("{wrong}"), "holds {wrong}"), -1)
	var got []string
	for _, p := range placeholders {
		example := strings.NewReplacer("<name>", "x-a", "<path>", "a.b").Replace(p.key)
		if wrong := message("{body}{timestamp}" + strings.TrimPrefix(example, "{body}")); wrong != "" {
			t.Errorf("%s is described, but %s", p.key, wrong)
		}
		if p.key != "{{" {
			got = append(got, p.key)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" || len(want) < 5 {
		t.Errorf("placeholders (-code +page):\n%s", diff)
	}
}

func TestEveryHandshakeIsExplained(t *testing.T) {
	left := map[string]bool{}
	for name := range handshakes {
		left[name] = true
	}
	for _, p := range verify.Presets() {
		if p.Handshake != "" && handshakes[p.Handshake] == "" {
			t.Errorf("the handshake %s of %s is not explained", p.Handshake, p.ID)
		}
		delete(left, p.Handshake)
	}
	for name := range left {
		t.Errorf("the handshake %s is explained, but no provider has it", name)
	}
}

// TestExamplesAreValid applies each example, with secrets and keys of the form
// that its provider wants.
func TestExamplesAreValid(t *testing.T) {
	keys := testKeys(t)
	for _, p := range verify.Presets() {
		first := verify.Schemes(p.ID)[0] == p.Scheme
		env := func(name string) (string, bool) {
			if strings.HasSuffix(name, "_PUBLIC_KEY") {
				return keys[keyKind(p.Verifier)], true
			}
			return "00112233445566778899aabbccddeeff", true // text, hexadecimal and base64
		}
		text := "tenants:\n- slug: acme\n  sources:\n  " + strings.ReplaceAll(Example(p, first), "\n", "\n  ")
		tenants, faults := configs.ParseTenants([]byte(text), env)
		if len(faults) > 0 || len(tenants) != 1 || tenants[0].Sources[0].Provider != p.ID {
			t.Errorf("%s, %s: got %v from\n%s", p.ID, p.Scheme, faults, text)
		}
	}
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

// TestSentences reads some sentences whole, one for each way of writing.
func TestSentences(t *testing.T) {
	for _, c := range []struct {
		id, scheme, want, time string
	}{
		{"github", "", "the header `X-Hub-Signature-256` is `sha256=` and the hexadecimal HMAC-SHA256 of the body.", ""},
		{"stripe", "", "the header `Stripe-Signature` holds, with commas between, a timestamp as `t=…` and as `v1=…` the hexadecimal HMAC-SHA256 of `{timestamp}.{body}`.",
			"signed at most 300 s before receipt (`tolerance_seconds`)."},
		{"slack", "", "the header `X-Slack-Signature` is `v0=` and the hexadecimal HMAC-SHA256 of `v0:{timestamp}:{body}`; the timestamp is the header `X-Slack-Request-Timestamp`, in Unix seconds.",
			"signed at most 300 s before or after receipt (`tolerance_seconds`)."},
		{"discord", "", "the header `X-Signature-Ed25519` is the hexadecimal signature (Ed25519) of `{timestamp}{body}`; the timestamp is the header `X-Signature-Timestamp`, in Unix seconds.",
			"not judged, unless `tolerance_seconds` says so."},
		{"cloudevents", "", "the header `Authorization` is `Bearer ` and the secret, or the URL's parameter `access_token` is.", ""},
		{"hubspot", "hubspot-v1", "the header `X-HubSpot-Signature` is the hexadecimal SHA-256 of the secret and the body; the header `X-HubSpot-Signature-Version` must be `v1`.", ""},
		{"braintree", "", "the body's `bt_signature` is `{option.public_key_id}|` and the hexadecimal HMAC-SHA1 of `{field.bt_payload}`; the key is the SHA-1 of the secret.", ""},
		{"netlify", "", "the header `X-Webhook-Signature` is a JSON Web Token (HS256), in which `iss` is `netlify`, `sha256` is the body's SHA-256.",
			"as long as the token says; one that does not say when it expires is good for ever."},
	} {
		p, ok := verify.FindPreset(c.id, c.scheme)
		if !ok {
			t.Fatalf("no preset %s %s", c.id, c.scheme)
		}
		if got := Scheme(p.Verifier); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.id, got, c.want)
		}
		if got := clock(p.Verifier); got != c.time {
			t.Errorf("%s, time:\n got %s\nwant %s", c.id, got, c.time)
		}
	}
}
