package verify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/eventhook/eventhook"
)

func TestValidate(t *testing.T) {
	many := slices.Repeat([]string{"s"}, maxSecrets+1)
	for _, tt := range []struct {
		claim string
		c     Config
		at    []string // locations of the faults, in any order
	}{
		{"no type is not none", Config{}, []string{"type"}},
		{"unknown type", Config{Type: "HMAC", Header: "X"}, []string{"type"}},
		{"none takes nothing", Config{Type: "none", Secrets: []string{"s"}}, []string{"secrets"}},
		{"hmac needs header and secrets", Config{Type: "hmac"}, []string{"header", "secrets"}},
		{"all faults at once", Config{Type: "hmac", Header: "a b", Algorithm: "md5", Encoding: "hexx", Prefix: "a,b", Secrets: []string{"s", ""}},
			[]string{"header", "algorithm", "encoding", "prefix", "secrets[1]"}},
		{"bounded secrets", Config{Type: "hmac", Header: "X", Secrets: many}, []string{"secrets"}},
		{"hmac has no clock", Config{Type: "hmac", Header: "X", Secrets: []string{"s"}, ToleranceSeconds: new(300)}, []string{"tolerance_seconds"}},
		{"a tolerance of 0 is none", Config{Type: "timestamped_hmac", Header: "X", Secrets: []string{"s"}, ToleranceSeconds: new(0)}, []string{"tolerance_seconds"}},
		{"bounded tolerance", Config{Type: "timestamped_hmac", Header: "X", Secrets: []string{"s"}, ToleranceSeconds: new(maxTolerance + 1)}, []string{"tolerance_seconds"}},
		{"ambiguous parts", Config{Type: "timestamped_hmac", Header: "X", Secrets: []string{"s"}, TimestampKey: "v1", Joiner: "1"}, []string{"signature_key", "joiner"}},
		{"parts are tokens", Config{Type: "timestamped_hmac", Header: "X", Secrets: []string{"s"}, TimestampKey: "t=", SignatureKey: "v,1"}, []string{"timestamp_key", "signature_key"}},
		{"basic_auth needs both", Config{Type: "basic_auth"}, []string{"username", "password"}},
		{"no colon in a username", Config{Type: "basic_auth", Username: "a:b", Password: "p\n"}, []string{"username", "password"}},
		{"api_key needs both", Config{Type: "api_key"}, []string{"header", "values"}},
		{"no value that cannot arrive", Config{Type: "api_key", Header: "X", Values: []string{"k ", "", "k\n"}}, []string{"values[0]", "values[1]", "values[2]"}},
		{"no field of another type", Config{Type: "api_key", Header: "X", Values: []string{"k"}, Algorithm: "a", Encoding: "e", Prefix: "p", TimestampKey: "t",
			SignatureKey: "v", Joiner: ".", Secrets: []string{"s"}, Username: "u", Password: "p", PublicKeys: []string{"k"}},
			[]string{"algorithm", "encoding", "prefix", "timestamp_key", "signature_key", "joiner", "secrets", "username", "password", "public_keys"}},
	} {
		faults := tt.c.Validate()
		var at []string
		for _, f := range faults {
			at = append(at, f.Location)
		}
		slices.Sort(at)
		slices.Sort(tt.at)
		if !slices.Equal(at, tt.at) {
			t.Errorf("%s: faults %v, want them at %v", tt.claim, faults, tt.at)
		}
		if v, err := New(tt.c); v != nil || eventhook.KindOf(err) != eventhook.KindInvalid {
			t.Errorf("%s: New gives %v, %v, want an invalid error", tt.claim, v, err)
		}
	}
}

// TestGivenNamesEveryField fails when a new field is not listed in given, and
// would be ignored where it is not used.
func TestGivenNamesEveryField(t *testing.T) {
	all := Config{"x", "x", "x", "x", "x", "x", "x", "x", new(1), []string{"x"}, "x", "x", []string{"x"}, []string{"x"}}
	given := append(all.given(), "type")
	typ := reflect.TypeFor[Config]()
	for f := range typ.Fields() {
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		yaml, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if !slices.Contains(given, key) || yaml != key {
			t.Errorf("field %s: json %q, yaml %q, given %v", f.Name, key, yaml, given)
		}
	}
}

func TestConfigKeepsItsSecrets(t *testing.T) {
	const secret = "tell-nobody"
	c := Config{Type: "hmac", Header: "X-Sig", Secrets: []string{secret}, Password: secret, Values: []string{secret}}
	var out bytes.Buffer
	type holder struct{ Verifier Config }
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		_, _ = fmt.Fprintf(&out, verb+verb+verb+verb+"\n", c, &c, holder{c}, []Config{c})
	}
	for _, h := range []slog.Handler{slog.NewJSONHandler(&out, nil), slog.NewTextHandler(&out, nil)} {
		slog.New(h).Info("m", "c", c, "p", &c)
	}
	_, err := New(c)
	out.WriteString(err.Error())
	hexed := fmt.Sprintf("%x", secret)
	if s := out.String(); strings.Contains(s, secret) || strings.Contains(s, hexed) || !strings.Contains(s, "X-Sig") {
		t.Errorf("printed or logged: %s", s)
	}
	data, _ := json.Marshal(c)
	var back Config
	if err := json.Unmarshal(data, &back); err != nil || !reflect.DeepEqual(back, c) {
		t.Errorf("from %s (%v) came another config", data, err)
	}
}

func TestSecretHeadersAndCount(t *testing.T) {
	for _, tt := range []struct {
		c       Config
		headers []string
		count   int
	}{
		{Config{Type: "api_key", Header: "x-token", Values: []string{"a", "b"}}, []string{"X-Token"}, 2},
		{Config{Type: "basic_auth", Username: "u", Password: "p"}, []string{"Authorization"}, 1},
		{Config{Type: "hmac", Header: "X", Secrets: []string{"a", "b", "c"}}, nil, 3},
		{Config{Type: "none"}, nil, 0},
		{Config{Type: "unknown"}, nil, 0},
	} {
		if h, n := tt.c.SecretHeaders(), tt.c.SecretsCount(); !slices.Equal(h, tt.headers) || n != tt.count {
			t.Errorf("%s: headers %v, count %d, want %v and %d", tt.c.Type, h, n, tt.headers, tt.count)
		}
	}
}

func TestPresets(t *testing.T) {
	all := Presets()
	if !slices.IsSortedFunc(all, func(a, b Preset) int { return strings.Compare(a.ID, b.ID) }) {
		t.Error("presets are not sorted by id")
	}
	for _, p := range all {
		if faults := p.Config([]string{"s"}).Validate(); len(faults) > 0 || p.Name == "" || p.DocumentationURL == "" || p.Verifier.SecretsCount() > 0 {
			t.Errorf("%s: %v, want name, documentation and no secrets", p.ID, faults)
		}
		p.EventTypePaths[0] = "changed"
		if again, ok := FindPreset(p.ID); !ok || again.EventTypePaths[0] == "changed" {
			t.Errorf("%s: found %t; a caller's change shows", p.ID, ok)
		}
	}
	if _, ok := FindPreset("nobody"); ok {
		t.Error("found a preset that is not there")
	}
}
