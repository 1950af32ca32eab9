package send

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/verify"
)

const (
	publicURL = "https://hooks.example.com"
	sentTo    = "http://127.0.0.1:8080/in"
)

var noon = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

// keysOf returns private keys by the name that the sample's message gives them.
var keysOf = sync.OnceValue(func() map[string]crypto.Signer {
	r, _ := rsa.GenerateKey(rand.Reader, 2048)
	e, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	_, d, _ := ed25519.GenerateKey(rand.Reader)
	return map[string]crypto.Signer{"RSA": r, "EC": e, "ed25519": d}
})

// secretOf returns a secret in the form of a preset.
func secretOf(p verify.Preset) string {
	switch c := p.Verifier; {
	case c.Type == "basic_auth":
		return "user:" + testSecret
	case c.SecretEncoding == "hex":
		return hex.EncodeToString([]byte(testSecret))
	case c.SecretEncoding == "base64", c.Type == "standard_webhooks" && c.SecretEncoding == "":
		return base64.StdEncoding.EncodeToString([]byte(testSecret))
	}
	return testSecret
}

// keyName returns the kind of key that the command's message names.
func keyName(t *testing.T, message string) string {
	t.Helper()
	_, rest, ok := strings.Cut(message, "genpkey -algorithm ")
	if !ok {
		t.Fatalf("%q, want a command that generates a key", message)
	}
	return strings.Fields(rest)[0]
}

// source is a source of a gateway in this process.
type source struct {
	eventhook.Source
	url string
}

// newSource returns a source with the preset that accepts the sample.
func newSource(t *testing.T, p verify.Preset, s Sample) source {
	t.Helper()
	spec := verify.Spec{Provider: p.ID, Scheme: p.Scheme, Options: map[string]string{}}
	for _, o := range p.Options {
		if value := s.Options[o.Name]; value != "" || o.Required {
			spec.Options[o.Name] = value + strings.Repeat("x", max(0, 1-len(value)))
		}
	}
	if s.needsSecret() || p.HandshakeSecret {
		spec.Secrets = []string{secretOf(p)}
	}
	if s.Key != nil {
		public, err := publicText(s.Key)
		if err != nil {
			t.Fatal(err)
		}
		spec.PublicKeys = []string{public}
	}
	x := eventhook.Source{TenantSlug: "shop", Slug: p.ID}
	if faults := spec.AssignTo(&x); len(faults) > 0 {
		t.Fatal(faults)
	}
	return source{x, publicURL + ingest.Path("shop", p.ID)}
}

// receive returns the event that the source stores for a request at a time, and
// fails the test unless the source accepts it as an event.
func (x source) receive(t *testing.T, r *http.Request, at time.Time) *eventhook.Event {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	url := x.url
	if r.URL.RawQuery != "" {
		url += "?" + r.URL.RawQuery
	}
	got, err := ingest.Explain(t.Context(), x.Source, publicURL, nil, &verify.Request{Method: r.Method, URL: url, Header: r.Header, Body: body, At: at})
	if err != nil {
		t.Fatal(err)
	}
	if got.Err != nil || got.Handshake != "" || got.Refused != "" {
		t.Fatalf("verified: %v, handshake %q, refused %q; want an event for %s", got.Err, got.Handshake, got.Refused, body)
	}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") && len(body) > 0 && !json.Valid(body) {
		t.Errorf("the body is not JSON: %s", body)
	}
	return got.Event
}

// sampleOf returns a sample for a preset. If the provider signs with a private key,
// the sample without a key is refused with the documented message.
func sampleOf(t *testing.T, p verify.Preset) Sample {
	t.Helper()
	s := Sample{Provider: p.ID, Scheme: p.Scheme, Options: map[string]string{}, PublicURL: publicURL + ingest.Path("shop", p.ID)}
	for _, o := range p.Options {
		if isSigned(p.Verifier, o.Name) && o.Default == "" {
			s.Options[o.Name] = "1001"
		}
	}
	if s.needsSecret() {
		return s
	}
	_, err := s.Request(t.Context(), sentTo, "", noon)
	if err == nil || !strings.Contains(err.Error(), "signs with a private key that only the provider has") || !strings.Contains(err.Error(), "--key-file") {
		t.Fatalf("without a key: %v, want the reason and what to do", err)
	}
	s.Key = keysOf()[keyName(t, err.Error())]
	return s
}

// signedTime has the providers whose webhooks have no id, and whose signed timestamp
// belongs to the idempotency key: an id cannot be repeated later.
var signedTime = map[string]bool{"contentful": true}

func TestEveryProviderHasASampleThatItsSourceAccepts(t *testing.T) {
	for _, p := range verify.Presets() {
		t.Run(p.ID+"/"+p.Scheme, func(t *testing.T) {
			s := sampleOf(t, p)
			x := newSource(t, p, s)
			send := func(id string, at time.Time) *eventhook.Event {
				s.ID = id
				r, err := s.Request(t.Context(), sentTo, secretOf(p), at)
				if err != nil {
					t.Fatal(err)
				}
				return x.receive(t, r, at)
			}
			first, second := send("", noon), send("", noon)
			if len(p.IdempotencyKeyPaths) > 0 && (first.IdempotencyKey == "" || first.IdempotencyKey == second.IdempotencyKey) {
				t.Errorf("two webhooks have the keys %q and %q, want two keys", first.IdempotencyKey, second.IdempotencyKey)
			}
			if first.SignedHash != "" && first.SignedHash == second.SignedHash {
				t.Error("two webhooks have the same signed text")
			}
			if a, b := send("one", noon), send("one", noon.Add(time.Hour)); a.IdempotencyKey != b.IdempotencyKey && !signedTime[p.ID] {
				t.Errorf("an id sent twice has the keys %q and %q, want one key", a.IdempotencyKey, b.IdempotencyKey)
			}
			checkTypes(t, p, s, x, first.EventType)
		})
	}
}

// checkTypes checks the default type, and that --type changes it.
func checkTypes(t *testing.T, p verify.Preset, s Sample, x source, got string) {
	t.Helper()
	f, err := sampleFile(p.ID, p.Scheme)
	if err != nil {
		t.Fatal(err)
	}
	want := f.eventType
	if want == "" {
		s.EventType = "other"
		if _, err := s.Request(t.Context(), sentTo, secretOf(p), noon); err == nil || !strings.Contains(err.Error(), "no type that can be chosen") {
			t.Errorf("--type: %v, want it refused", err)
		}
		return
	}
	if p.ID == "ebay" {
		want = s.Options["topic"]
	}
	if len(p.EventTypePaths) > 0 && got != want {
		t.Errorf("the event has the type %q, want %q", got, want)
	}
	if s.EventType = "3"; f.hasTwoPartTypes() {
		if _, err := s.Request(t.Context(), sentTo, secretOf(p), noon); err == nil || !strings.Contains(err.Error(), "two parts") {
			t.Errorf("--type 3: %v, want it refused", err)
		}
		s.EventType = "a.b"
	}
	if p.ID == "ebay" || len(p.EventTypePaths) == 0 {
		return // the option topic is the type
	}
	r, err := s.Request(t.Context(), sentTo, secretOf(p), noon)
	if err != nil {
		t.Fatal(err)
	}
	if e := x.receive(t, r, noon); e.EventType != s.EventType {
		t.Errorf("--type %s: the event has the type %q", s.EventType, e.EventType)
	}
}

// Every file is the sample of a preset.
func TestEverySampleHasAPreset(t *testing.T) {
	used := map[string]bool{}
	for _, p := range verify.Presets() {
		f, err := sampleFile(p.ID, p.Scheme)
		if err != nil {
			t.Error(err)
		}
		used["samples/"+f.name+".http"] = true
	}
	names, err := fs.Glob(samples, "samples/*")
	if err != nil || len(names) == 0 {
		t.Fatal(err)
	}
	for _, name := range names {
		if !used[name] {
			t.Errorf("no preset uses %s", name)
		}
	}
}
