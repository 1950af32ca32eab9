package ingest_test

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/verify"
)

// sharedHandshake is a case from the collection of providers' handshakes.
type sharedHandshake struct {
	Provider, Name string
	Request        struct {
		Method    string
		PathQuery string `json:"path_query"`
		Headers   map[string]string
		Body      string
	}
	Expect    wantedAnswer
	Secret    *string
	PublicKey string `json:"public_key"`
	Config    struct {
		VerifyToken string   `json:"verify_token"`
		PublicKeyID string   `json:"public_key_id"`
		Endpoint    string   `json:"endpoint"`
		ServiceIDs  []string `json:"service_ids"`
		Outbound    string   `json:"outbound"`
	}
	Now *int64
}

// ebayKey is an arbitrary key: a source of eBay requires one, the challenge does not use it.
const ebayKey = "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEaxfR8uEsQkf4vOblY6RA8ncDfYEt6zOg9KE5RdiYwpZP40Li/hp/m47n60p8D54WK84zV2sxXs7LtkBoN79R9Q=="

func (s sharedHandshake) spec() verify.Spec {
	spec := verify.Spec{Provider: s.Provider, Options: map[string]string{}}
	for name, value := range map[string]string{"verify_token": s.Config.VerifyToken, "public_key_id": s.Config.PublicKeyID,
		"endpoint": s.Config.Endpoint, "service_ids": strings.Join(s.Config.ServiceIDs, ",")} {
		if value != "" {
			spec.Options[name] = value
		}
	}
	preset, _ := verify.FindPreset(s.Provider, "")
	switch {
	case s.Secret != nil:
		spec.Secrets = []string{*s.Secret}
	case s.PublicKey == "" && !preset.LearnsSecret:
		spec.Verifier = &verify.Config{Type: "none"}
	}
	if s.PublicKey != "" {
		spec.PublicKeys = []string{s.PublicKey}
	}
	if s.Provider == "ebay" {
		spec.PublicKeys = []string{ebayKey}
	}
	return spec
}

// handshakeCase converts s to the form of testdata.
func (s sharedHandshake) handshakeCase(t *testing.T) handshakeCase {
	c := handshakeCase{Name: s.Provider + ": " + s.Name, Spec: s.spec(), Method: s.Request.Method, Headers: s.Request.Headers,
		Body: s.Request.Body, Want: s.Expect}
	path, query, _ := strings.Cut(s.Request.PathQuery, "?")
	c.Query = query
	if path == ingest.FastlyPath {
		c.Path = path
	}
	if s.Now != nil {
		c.Now = *s.Now
	}
	if s.Provider == "github" {
		c.Stored = 1
	}
	preset, _ := verify.FindPreset(s.Provider, "")
	if preset.LearnsSecret {
		c.Learns = s.Request.Headers["X-Hook-Secret"]
		if c.Learns == "" {
			c.Learns = memberOf(t, s.Request.Body, "verification_token")
		}
	}
	if s.Config.Outbound != "" {
		c.Confirms = memberOf(t, s.Request.Body, "SubscribeURL")
	}
	return c
}

func memberOf(t *testing.T, body, name string) string {
	t.Helper()
	var members map[string]any
	if err := json.Unmarshal([]byte(body), &members); err != nil {
		t.Fatal(err)
	}
	text, _ := members[name].(string)
	return text
}

// TestSharedHandshakes runs the handshakes collected from providers, which cannot be part of this
// repository.
func TestSharedHandshakes(t *testing.T) {
	const file = "../../shared/handshakes.json"
	if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
		t.Skipf("%s is absent: the providers' own handshakes were not run", file)
	}
	all := loadCases[sharedHandshake](t, file)
	for _, s := range all {
		t.Run(s.Provider+": "+s.Name, func(t *testing.T) { s.handshakeCase(t).check(t) })
	}
	t.Logf("%d handshakes", len(all))
}

// A preset and its handshake must allow the same methods.
func TestPresetsNameTheirHandshakes(t *testing.T) {
	methods, used := ingest.HandshakeMethods(), map[string]bool{"": true}
	for _, p := range verify.Presets() {
		used[p.Handshake] = true
		if p.Handshake == "" {
			continue
		}
		takes, ok := methods[p.Handshake]
		if !ok {
			t.Errorf("%s: there is no handshake %q", p.ID, p.Handshake)
		}
		if diff := cmp.Diff(slices.Sorted(slices.Values(p.Methods)), slices.Sorted(slices.Values(takes))); diff != "" {
			t.Errorf("%s: methods of its handshake (-preset +handshake):\n%s", p.ID, diff)
		}
	}
	for name := range maps.Keys(methods) {
		if !used[name] {
			t.Errorf("no preset has the handshake %q", name)
		}
	}
}
