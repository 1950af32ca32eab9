package verify

import (
	"encoding/json"
	"fmt"
	"net/http"
	neturl "net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/eventhook/eventhook"
)

func TestPresets(t *testing.T) {
	all := Presets()
	if !slices.IsSortedFunc(all, func(a, b Preset) int { return strings.Compare(a.ID, b.ID) }) {
		t.Error("presets are not sorted by id")
	}
	slug := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	seen := map[string]bool{}
	for i, p := range all {
		name := p.ID + "/" + p.Scheme
		if seen[name] {
			t.Errorf("%s is repeated", name)
		}
		seen[name] = true
		if u, err := neturl.Parse(p.DocumentationURL); err != nil || u.Scheme != "https" || p.Name == "" || !slug.MatchString(p.ID) || !slug.MatchString(p.Scheme) {
			t.Errorf("%s: name %q, documentation %q; want slugs, a name and an https URL", name, p.Name, p.DocumentationURL)
		}
		if p.Verifier.SecretsCount() > 0 || len(p.Verifier.PublicKeys) > 0 {
			t.Errorf("%s contains secrets or keys", name)
		}
		if (p.Uncovered == "") != p.CoversBody() && p.Verifier.CertificateHeader == "" && p.ID != "braintree" {
			t.Errorf("%s: CoversBody %t, but Uncovered is %q", name, p.CoversBody(), p.Uncovered)
		}
		for _, path := range slices.Concat(p.IdempotencyKeyPaths, p.EventTypePaths) {
			if wrong := eventhook.CheckPath(path); wrong != "" {
				t.Errorf("%s: path %q: %s", name, path, wrong)
			}
		}
		for _, m := range p.Methods {
			if m == http.MethodPost || m != strings.ToUpper(m) {
				t.Errorf("%s: method %q, want an upper-case method besides POST", name, m)
			}
		}
		if found, ok := FindPreset(p.ID, p.Scheme); !ok || found.Name != p.Name {
			t.Errorf("%s: FindPreset returned %q, %t; want %q", name, found.Name, ok, p.Name)
		}
		if i == 0 || all[i-1].ID != p.ID {
			if found, ok := FindPreset(p.ID, ""); !ok || found.Scheme != p.Scheme || Schemes(p.ID)[0] != p.Scheme {
				t.Errorf("%s: the default is %q, want the first", name, found.Scheme)
			}
		}
	}
	all[0].ID = "changed"
	if Presets()[0].ID == "changed" {
		t.Error("the slice of an earlier call is shared, want a copy")
	}
	for _, tt := range [][2]string{{"unknown", ""}, {"", ""}, {"github", "nothing"}, {"zzz", ""}, {"githu", ""}} {
		if p, ok := FindPreset(tt[0], tt[1]); ok {
			t.Errorf("FindPreset%q: got %s, want none", tt, p.ID)
		}
	}
	if got := Providers(); len(got) == 0 || !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
		t.Errorf("providers %v, want each once and sorted", got)
	}
	if got := Schemes("unknown"); got != nil {
		t.Errorf("schemes of an unknown provider: %v, want none", got)
	}
}

// A preset is valid with all of its RequiredFields,
// and invalid without one of them.
func TestRequiredFieldsAreRequired(t *testing.T) {
	for _, p := range Presets() {
		name := p.ID + "/" + p.Scheme
		full := presetSpec(p, "secret")
		if !slices.Contains(p.RequiredFields(), "public_keys") {
			full.PublicKeys = nil
		}
		if !slices.Contains(p.RequiredFields(), "secrets") {
			full.Secrets = nil
		}
		if _, faults := full.Resolve(); len(faults) > 0 {
			t.Errorf("%s with %v: %v, want no faults", name, p.RequiredFields(), faults)
		}
		for _, field := range p.RequiredFields() {
			s := presetSpec(p, "secret")
			switch option, ok := strings.CutPrefix(field, "options."); {
			case ok:
				delete(s.Options, option)
			case field == "secrets":
				s.Secrets = nil
			case field == "public_keys":
				s.PublicKeys = nil
			}
			_, faults := s.Resolve()
			if sealed, err := s.Sealed(); err == nil && len(faults) == 0 {
				faults = ValidateChange(eventhook.Secret{}, sealed) // reports missing options that restrict the account
			}
			if len(faults) != 1 || faults[0].Location != field {
				t.Errorf("%s without %s: faults %v, want it at %s", name, field, faults, field)
			}
		}
	}
}

func TestResolve(t *testing.T) {
	ed := []string{publicText(pairs().ed)}
	one := []string{"s"}
	own := &Config{Type: "hmac", Header: "X", Secrets: one}
	for _, tt := range []struct {
		claim string
		s     Spec
		at    []string
	}{
		{"an empty spec", Spec{}, []string{"provider"}},
		{"none is said", Spec{Verifier: &Config{Type: "none"}}, nil},
		{"a provider", Spec{Provider: "github", Secrets: one}, nil},
		{"a provider and its scheme", Spec{Provider: "hubspot", Scheme: "hubspot-v1", Secrets: one}, nil},
		{"an unknown provider", Spec{Provider: "githup", Secrets: one}, []string{"provider"}},
		{"an unknown scheme", Spec{Provider: "github", Scheme: "v3", Secrets: one}, []string{"scheme"}},
		{"a scheme without a provider", Spec{Scheme: "v3", Verifier: own}, []string{"scheme", "scheme"}},
		{"a provider's scheme beside a verifier", Spec{Provider: "github", Scheme: "github", Verifier: own}, []string{"scheme"}},
		{"no secret", Spec{Provider: "github"}, []string{"secrets"}},
		{"an empty secret", Spec{Provider: "github", Secrets: []string{""}}, []string{"secrets[0]"}},
		{"a token that a header cannot contain", Spec{Provider: "telegram", Secrets: []string{"a", " b"}}, []string{"secrets[1]"}},
		{"a password without a user", Spec{Provider: "postmark", Secrets: one}, []string{"secrets[0]"}},
		{"a secret that cannot be decoded", Spec{Provider: "adyen", Secrets: []string{"xyz"}}, []string{"secrets[0]"}},
		{"an invalid key", Spec{Provider: "discord", PublicKeys: one}, []string{"public_keys[0]"}},
		{"a key for a provider with secrets", Spec{Provider: "github", Secrets: one, PublicKeys: ed}, []string{"public_keys"}},
		{"a secret learned later", Spec{Provider: "asana"}, nil},
		{"a secret that only the handshake uses", Spec{Provider: "ebay", Secrets: one, PublicKeys: []string{publicText(pairs().ecdsa)}}, nil},
		{"a tolerance", Spec{Provider: "stripe", Secrets: one, ToleranceSeconds: new(9)}, nil},
		{"a tolerance of a scheme without a timestamp", Spec{Provider: "github", Secrets: one, ToleranceSeconds: new(9)}, []string{"tolerance_seconds"}},
		{"a missing option", Spec{Provider: "paypal"}, []string{"options.webhook_id"}},
		{"an unknown option", Spec{Provider: "github", Secrets: one, Options: map[string]string{"x": "y"}}, []string{"options.x"}},
		{"an invalid value of an option", Spec{Provider: "paypal", Options: map[string]string{"webhook_id": "a\n"}}, []string{"options.webhook_id"}},
		{"an option that makes the prefix invalid", Spec{Provider: "braintree", Secrets: one, Options: map[string]string{"public_key_id": "a&b"}}, []string{"prefix"}},
		{"an option for a handshake, not needed beside a verifier", Spec{Provider: "strava", Verifier: own}, nil},
		{"a verifier with faults", Spec{Verifier: &Config{Type: "hmac", Secrets: one}}, []string{"verifier.header"}},
		{"secrets beside a verifier", Spec{Verifier: own, Secrets: one, PublicKeys: ed, ToleranceSeconds: new(1)}, []string{"secrets", "public_keys", "tolerance_seconds"}},
		{"an unknown provider beside a verifier", Spec{Provider: "githup", Verifier: own}, []string{"provider"}},
	} {
		resolved, faults := tt.s.Resolve()
		var at []string
		for _, f := range faults {
			at = append(at, f.Location)
		}
		slices.Sort(at)
		slices.Sort(tt.at)
		if !slices.Equal(slices.Compact(at), slices.Compact(tt.at)) {
			t.Errorf("%s: faults %v, want them at %v", tt.claim, faults, tt.at)
			continue
		}
		if len(faults) > 0 {
			continue
		}
		if v, err := resolved.New(nil); v == nil || err != nil {
			t.Errorf("%s: New returned %v, %v; want a verifier", tt.claim, v, err)
		}
	}
}

// Resolve does not modify the preset.
func TestResolveMergesPreset(t *testing.T) {
	before := fmt.Sprintf("%#v", presetTexts())
	for _, tt := range []struct {
		claim string
		s     Spec
		of    func(Config) string
		want  string
	}{
		{"an option in the template", Spec{Provider: "paypal", Options: map[string]string{"webhook_id": "W"}}, func(c Config) string { return c.Signed }, "{header.PAYPAL-TRANSMISSION-ID}|{header.PAYPAL-TRANSMISSION-TIME}|W|{crc32}"},
		{"an option that looks like a placeholder", Spec{Provider: "paypal", Options: map[string]string{"webhook_id": "{body}"}}, func(c Config) string { return c.Signed }, "{header.PAYPAL-TRANSMISSION-ID}|{header.PAYPAL-TRANSMISSION-TIME}|{{body}|{crc32}"},
		{"an option in the prefix", Spec{Provider: "braintree", Secrets: []string{"s"}, Options: map[string]string{"public_key_id": "K"}}, func(c Config) string { return c.Prefix }, "K|"},
		{"a default", Spec{Provider: "google-pubsub", Options: map[string]string{"email": "e"}}, func(c Config) string { return c.Audience + " " + c.Claims["email"] }, "{url} e"},
		{"an option instead of its default", Spec{Provider: "google-pubsub", Options: map[string]string{"email": "e", "audience": "a"}}, func(c Config) string { return c.Audience }, "a"},
		{"no option and no claim", Spec{Provider: "aws-sns"}, func(c Config) string { return fmt.Sprint(len(c.Claims)) }, "0"},
		{"an option and its claim", Spec{Provider: "aws-sns", Options: map[string]string{"topic_arn": "t"}}, func(c Config) string { return c.Claims["TopicArn"] }, "t"},
		{"a tolerance that overrides the preset's", Spec{Provider: "paddle", Secrets: []string{"s"}, ToleranceSeconds: new(9)}, func(c Config) string { return fmt.Sprint(*c.ToleranceSeconds) }, "9"},
		{"the preset's tolerance", Spec{Provider: "paddle", Secrets: []string{"s"}}, func(c Config) string { return fmt.Sprint(*c.ToleranceSeconds) }, "5"},
		{"secrets as values", Spec{Provider: "telegram", Secrets: []string{"a", "b"}}, func(c Config) string { return fmt.Sprint(c.Values, c.Secrets) }, "[a b] []"},
		{"secrets as secrets", Spec{Provider: "github", Secrets: []string{"a", "b"}}, func(c Config) string { return fmt.Sprint(c.Values, c.Secrets) }, "[] [a b]"},
	} {
		resolved, faults := tt.s.Resolve()
		if got := tt.of(resolved.Config); got != tt.want || len(faults) > 0 {
			t.Errorf("%s: got %q, %v; want %q", tt.claim, got, faults, tt.want)
		}
		resolved.Config.Secrets, resolved.Config.Values = append(resolved.Config.Secrets, "x"), append(resolved.Config.Values, "x")
		if resolved.Config.Claims != nil {
			resolved.Config.Claims["x"] = "x"
		}
	}
	if after := fmt.Sprintf("%#v", presetTexts()); after != before {
		t.Error("Resolve changed the presets")
	}
}

// A secret of an earlier handshake is not used after the source changes to another provider.
func TestLearnedSecretsAreUsedOnlyByLearningPresets(t *testing.T) {
	for _, tt := range []struct {
		claim string
		s     Spec
		want  []string
	}{
		{"awaited", Spec{Provider: "asana"}, []string{"learned"}},
		{"beside a configured secret", Spec{Provider: "asana", Secrets: []string{"own"}}, []string{"own"}},
		{"of a provider that sends no secret", Spec{Provider: "github", Secrets: []string{"own"}}, []string{"own"}},
		{"of one without", Spec{Provider: "github"}, nil},
		{"beside a verifier", Spec{Provider: "asana", Verifier: &Config{Type: "none"}}, nil},
	} {
		resolved, _ := tt.s.Resolve("learned")
		if !slices.Equal(resolved.Secrets, tt.want) || slices.Contains(resolved.Config.Secrets, "learned") != slices.Contains(tt.want, "learned") {
			t.Errorf("%s: secrets %v, verified with %v; want %v", tt.claim, resolved.Secrets, resolved.Config.Secrets, tt.want)
		}
	}
}

// presetTexts returns the presets with all fields. It bypasses Config.Format, which omits most of
// them.
func presetTexts() (texts []string) {
	type bare Config
	for _, p := range Presets() {
		texts = append(texts, fmt.Sprintf("%s %#v", p.ID, bare(p.Verifier)))
	}
	return texts
}

// The error of an invalid vector is not an *Error: it is not a refusal.
func TestInvalidVectors(t *testing.T) {
	raw := func(s string) []byte { return []byte(s) }
	for _, tt := range []struct {
		claim string
		v     Vector
	}{
		{"no provider", Vector{Secret: "s"}},
		{"an unknown provider", Vector{Provider: "githup", Secret: "s"}},
		{"no secret", Vector{Provider: "github"}},
		{"a tolerance that is not a number", Vector{Provider: "stripe", Secret: "s", Config: map[string]json.RawMessage{"tolerance": raw(`"x"`)}}},
		{"an option that is not a string", Vector{Provider: "paypal", Config: map[string]json.RawMessage{"webhook_id": raw(`7`)}}},
		{"an unknown option", Vector{Provider: "github", Secret: "s", Config: map[string]json.RawMessage{"webhook": raw(`"7"`)}}},
	} {
		err := tt.v.Verify(t.Context(), nil)
		if err == nil || strings.Contains(err.Error(), ErrSignature.Error()) {
			t.Errorf("%s: got %v, want an error that is not a refusal", tt.claim, err)
		}
	}
}
