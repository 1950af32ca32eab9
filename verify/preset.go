package verify

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/eventhook/eventhook"
)

// Preset describes a scheme of a provider: how it signs requests, where requests
// contain their id and type, and its handshake. A provider with several schemes
// has a preset for each.
type Preset struct {
	ID                  string
	Scheme              string // the name of the scheme, unique within the provider
	Name                string
	DocumentationURL    string
	Verifier            Config   // without secrets; {option.<name>} is replaced by an option
	Options             []Option // settings besides secrets and keys
	LearnsSecret        bool     // the handshake delivers the secret
	ConfirmsSecret      bool     // the delivered secret becomes active when an operator reads it to confirm it at the provider
	HandshakeSecret     bool     // the handshake needs a secret; the verifier does not
	IdempotencyKeyPaths []string // header.<name>, body.<path>, sha256.body, or several joined by " + "
	EventTypePaths      []string
	Methods             []string               // methods besides POST; for handshake requests if the preset has a handshake, otherwise for events
	Handshake           string                 // the name of the provider's handshake; empty: none
	Reply               *eventhook.SourceReply // to accepted requests, if the provider requires a certain response
	Uncovered           string                 // what the signature does not cover, in sentences for users; empty: nothing
	Note                string                 // hints for the setup, in sentences for users
	ReplayProtection    string                 // eventhook.ReplayBody if two events never have equal signed bytes; empty: ReplayOff
	Repeats             string                 // why two events can have equal signed bytes, as a clause for users; set only if the id is not signed
}

// Regular expressions of the challenges that these providers' handshakes sign. The
// secret of the handshake also signs webhooks, so a body that matches is not
// accepted as a webhook.
const (
	XChallenge         = `^[A-Za-z0-9._~+/-]+={0,2}$`
	BraintreeChallenge = `^[a-f0-9]{20,32}$`
)

// Option is a setting of a provider's verifier or handshake.
type Option struct {
	Name     string
	About    string // a noun phrase for users
	Required bool
	// Pins marks an option that limits the source to one account. Without it, the
	// source accepts requests of every account at the provider. New sources must
	// set it.
	Pins    bool
	Default string
	Secret  bool // write-only
}

// Presets returns all presets, sorted by ID, with the default scheme of each
// provider first. The caller owns the slice, but must not modify values that its
// elements point to.
func Presets() []Preset { return slices.Clone(presets) }

// presets are all presets, sorted by provider.
var presets = func() []Preset {
	all := slices.Concat(codePresets, moneyPresets, messagePresets, workPresets, webPresets, cloudPresets)
	for i := range all {
		if all[i].Scheme == "" {
			all[i].Scheme = all[i].ID
		}
	}
	slices.SortStableFunc(all, func(a, b Preset) int { return strings.Compare(a.ID, b.ID) })
	return all
}()

// FindPreset returns the preset of a provider's scheme, and whether it exists. An
// empty scheme is the provider's default.
func FindPreset(provider, scheme string) (Preset, bool) {
	i, ok := slices.BinarySearchFunc(presets, provider, func(p Preset, id string) int { return strings.Compare(p.ID, id) })
	for ; ok && i < len(presets) && presets[i].ID == provider; i++ {
		if scheme == "" || scheme == presets[i].Scheme {
			return presets[i], true
		}
	}
	return Preset{}, false
}

// Providers returns the ids of all providers, sorted.
func Providers() []string {
	var ids []string
	for _, p := range presets {
		ids = append(ids, p.ID)
	}
	return slices.Compact(ids)
}

// Schemes returns the schemes of a provider, the default first.
func Schemes(provider string) []string {
	var names []string
	for _, p := range presets {
		if p.ID == provider {
			names = append(names, p.Scheme)
		}
	}
	return names
}

// RequiredFields returns the keys that a source must set besides the provider.
func (p Preset) RequiredFields() []string {
	var fields []string
	switch c := p.Verifier; {
	case p.LearnsSecret:
	case c.Type == "none", c.Type == "aws_sns", c.CertificateHeader != "", c.KeySetURL != "":
	case c.SignsWithPrivateKey():
		fields = append(fields, "public_keys")
		if p.HandshakeSecret {
			fields = append(fields, "secrets")
		}
	default:
		fields = append(fields, "secrets")
	}
	for _, o := range p.Options {
		if o.Required || o.Pins {
			fields = append(fields, "options."+o.Name)
		}
	}
	return fields
}

// Spec configures how a source verifies requests: with a provider's preset, or with
// its own verifier. It prints and logs without its secrets. It marshals with
// its secrets, to be sealed and stored.
type Spec struct {
	Provider string `json:"provider,omitempty" yaml:"provider"`
	// Scheme is a scheme of the provider; empty: the default.
	Scheme  string   `json:"scheme,omitempty" yaml:"scheme"`
	Secrets []string `json:"secrets,omitempty" yaml:"secrets"`
	// PublicKeys can have any form that ParseKeys reads.
	PublicKeys []string          `json:"public_keys,omitempty" yaml:"public_keys"`
	Options    map[string]string `json:"options,omitempty" yaml:"options"`
	// ToleranceSeconds overrides the preset's.
	ToleranceSeconds *int `json:"tolerance_seconds,omitempty" yaml:"tolerance_seconds"`
	// Verifier replaces the preset's verifier. If Provider is set, its preset
	// still defines the paths of ids and types, and the handshake.
	Verifier *Config `json:"verifier,omitempty" yaml:"verifier"`
}

// Resolved is a Spec merged with its preset.
type Resolved struct {
	Config  Config
	Preset  Preset // zero if the spec names no provider
	Scheme  string // of the provider, or the type of the Spec's own verifier
	Options map[string]string
	Secrets []string // for handshakes, the newest first
	Waiting bool     // there is no secret yet: the handshake will deliver it
	// ReplayProtection is the default of the source: the preset's, and ReplayOff
	// for a verifier of its own.
	ReplayProtection string
}

// Resolve merges s with the provider's preset and reports all faults, each at the
// key of its field. learned are secrets that a handshake delivered. They are used
// only if s has no secrets, so that a configured secret replaces them.
func (s Spec) Resolve(learned ...string) (Resolved, eventhook.Faults) {
	var f eventhook.Faults
	r := Resolved{Options: map[string]string{}, Secrets: slices.Clone(s.Secrets), ReplayProtection: s.ReplayProtection()}
	if s.Provider != "" {
		var ok bool
		if r.Preset, ok = FindPreset(s.Provider, s.Scheme); !ok {
			s.unknown(&f)
			if s.Verifier == nil {
				return r, f
			}
		}
	}
	if r.Preset.LearnsSecret && len(s.Secrets) == 0 && s.Verifier == nil {
		r.Secrets = slices.Clone(learned)
	}
	switch {
	case s.Provider == "" && s.Verifier == nil:
		f.Add("provider", "is required, or a verifier; to accept unverified requests set verifier: {type: none}")
		return r, f
	case s.Provider == "" && s.Scheme != "":
		f.Add("scheme", "requires a provider")
	}
	r.mergeOptions(s.Options, s.Verifier != nil, &f)
	if s.Verifier != nil {
		s.useVerifier(&r, &f)
		return r, f
	}
	if r.Preset.HandshakeSecret && len(r.Secrets) == 0 {
		f.Add("secrets", "missing: the provider's handshake requires a secret")
	}
	r.Config, r.Scheme = r.complete(s), r.Preset.Scheme
	r.Waiting = r.Preset.LearnsSecret && len(r.Secrets) == 0
	faults := r.Config.Validate()
	if r.Config.Type == "basic_auth" && len(r.Secrets) == 0 {
		faults = eventhook.Faults{{Location: "secrets", Message: "missing, want at least one user:password"}}
	}
	for i := range faults {
		// The Values of a preset's Config come from the source's secrets.
		if rest, ok := strings.CutPrefix(faults[i].Location, "values"); ok {
			faults[i].Location = "secrets" + rest
		}
	}
	if r.Waiting {
		faults = slices.DeleteFunc(faults, func(one eventhook.Fault) bool { return one.Location == "secrets" })
	}
	f.Merge("", faults)
	return r, f
}

func (s Spec) unknown(f *eventhook.Faults) {
	if names := Schemes(s.Provider); len(names) > 0 {
		f.Add("scheme", "%q is not one of %s", s.Scheme, strings.Join(names, ", "))
		return
	}
	f.Add("provider", "%q is unknown: \"eventhook providers\" and docs/providers.md list the providers; for another sender, configure a verifier", s.Provider)
}

// useVerifier sets r to the verifier of s.
func (s Spec) useVerifier(r *Resolved, f *eventhook.Faults) {
	f.Merge("verifier", s.Verifier.Validate())
	for _, other := range []struct {
		key   string
		given bool
	}{{"secrets", len(s.Secrets) > 0}, {"public_keys", len(s.PublicKeys) > 0}, {"tolerance_seconds", s.ToleranceSeconds != nil}, {"scheme", s.Scheme != ""}} {
		if other.given {
			f.Add(other.key, "must be set in verifier, because the source configures one")
		}
	}
	r.Config, r.Scheme, r.Secrets = *s.Verifier, s.Verifier.Type, slices.Concat(s.Verifier.Secrets, s.Verifier.Values)
	if r.Config.Reserved == "" && slices.Contains(schemes[r.Config.Type].fields, "reserved") {
		r.Config.Reserved = r.Preset.Verifier.Reserved // the provider's handshake signs with the same secret
	}
}

// mergeOptions fills in defaults and reports unknown and missing options. If the source
// has its own verifier, no option is required: the handshake reports the mergeOptions
// that it needs.
func (r *Resolved) mergeOptions(given map[string]string, hasOwnVerifier bool, f *eventhook.Faults) {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.ContainsFunc(r.Preset.Options, func(o Option) bool { return o.Name == name }) {
			f.Add("options."+name, "is not an option of this provider")
		}
		if hasControl(given[name]) {
			f.Add("options."+name, "contains a control character")
		}
	}
	for _, o := range r.Preset.Options {
		value := given[o.Name]
		if value == "" {
			value = o.Default
		}
		if value == "" && o.Required && !hasOwnVerifier {
			f.Add("options."+o.Name, "missing: %s", o.About)
		}
		r.Options[o.Name] = value
	}
}

// complete returns the preset's verifier with the secrets, keys and options of the
// source.
func (r *Resolved) complete(s Spec) Config {
	c := r.Preset.Verifier
	c.PublicKeys = slices.Clone(s.PublicKeys)
	switch c.Type {
	case "api_key", "basic_auth":
		c.Values = slices.Clone(r.Secrets)
	default:
		c.Secrets = slices.Clone(r.Secrets)
		if r.Preset.HandshakeSecret {
			c.Secrets = nil // only for the handshake
		}
	}
	if s.ToleranceSeconds != nil {
		c.ToleranceSeconds = s.ToleranceSeconds
	}
	plain, template := r.optionReplacers()
	c.Prefix, c.Signed, c.Audience = plain.Replace(c.Prefix), template.Replace(c.Signed), plain.Replace(c.Audience)
	if c.Claims != nil {
		claims := map[string]string{}
		for name, value := range c.Claims {
			if value = plain.Replace(value); value != "" {
				claims[name] = value
			}
		}
		c.Claims = claims
	}
	return c
}

// optionReplacers returns two replacers for {option.<name>}: for plain texts, and
// for templates, where it doubles each brace in the value. Placeholders in the value
// of an option are not replaced.
func (r *Resolved) optionReplacers() (plain, template *strings.Replacer) {
	var texts, braced []string
	for name, value := range r.Options {
		texts = append(texts, "{option."+name+"}", value)
		braced = append(braced, "{option."+name+"}", strings.ReplaceAll(value, "{", "{{"))
	}
	return strings.NewReplacer(texts...), strings.NewReplacer(braced...)
}

// New returns the Verifier. Resolve must have reported no faults. Before the
// handshake has delivered the secret, the Verifier refuses every request.
func (r Resolved) New(keys Keys) (Verifier, error) {
	if r.Waiting {
		return awaitingSecret{}, nil
	}
	return New(r.Config, keys)
}

// SecretsCount returns the number of secrets.
func (s Spec) SecretsCount() int {
	if s.Verifier != nil {
		return s.Verifier.SecretsCount()
	}
	return len(s.Secrets)
}

// String returns s without secrets.
func (s Spec) String() string {
	return fmt.Sprintf("spec{provider:%q scheme:%q secrets:%d [redacted]}", s.Provider, s.Scheme, s.SecretsCount())
}

// Format writes String for every verb.
func (s Spec) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// LogValue implements slog.LogValuer without secrets.
func (s Spec) LogValue() slog.Value {
	return slog.GroupValue(slog.String("provider", s.Provider), slog.String("scheme", s.Scheme), slog.Int("secrets_count", s.SecretsCount()))
}
