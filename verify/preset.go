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

// Preset is what is known about a provider: how it signs, and where its
// requests carry their id and their type. A provider with several schemes has
// a preset for each.
type Preset struct {
	ID                  string
	Scheme              string // names the scheme among those of the provider
	Name                string
	DocumentationURL    string
	Verifier            Config   // without secrets; {option.<name>} stands for an option
	Options             []Option // what it must, or may, be told besides secrets and keys
	LearnsSecret        bool     // the handshake brings the secret
	ConfirmsSecret      bool     // that secret counts once a person has read it, to confirm it at the provider
	HandshakeSecret     bool     // the handshake needs a secret, which the verifier does not
	IdempotencyKeyPaths []string // header.<name>, body.<path>, sha256.body, or several joined by " + "
	EventTypePaths      []string
	Methods             []string               // besides POST: of the handshake if there is one, else of events
	Handshake           string                 // the name of the provider's handshake; empty: it has none
	Reply               *eventhook.SourceReply // to accepted requests, if the provider wants a certain one
	Uncovered           string                 // what the signature does not cover, for people; empty: nothing
	Note                string                 // what people get wrong, for people
	ReplayProtection    string                 // eventhook.ReplayBody where two events never sign the same bytes; empty: ReplayOff
	Repeats             string                 // why two events may sign the same bytes, for people; only where the id is not signed
}

// What these providers' handshakes may have signed, as regular expressions: the
// same secret signs their webhooks, so nothing of this form is one.
const (
	XChallenge         = `^[A-Za-z0-9._~+/-]+={0,2}$`
	BraintreeChallenge = `^[a-f0-9]{20,32}$`
)

// Option is something that a provider's verifier or handshake must be told.
type Option struct {
	Name     string
	About    string // for people
	Required bool
	// Pins is for an option without which requests of any account of the
	// provider are accepted. A new source must have it.
	Pins    bool
	Default string
	Secret  bool // never shown
}

// Presets returns all presets, sorted by ID, the default scheme of each
// provider first. The caller may change the list, but not what its elements
// point to.
func Presets() []Preset { return slices.Clone(presets) }

// presets are all rows, by provider.
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

// FindPreset returns the preset of a provider's scheme, and whether there is
// one. An empty scheme is the provider's default.
func FindPreset(provider, scheme string) (Preset, bool) {
	i, ok := slices.BinarySearchFunc(presets, provider, func(p Preset, id string) int { return strings.Compare(p.ID, id) })
	for ; ok && i < len(presets) && presets[i].ID == provider; i++ {
		if scheme == "" || scheme == presets[i].Scheme {
			return presets[i], true
		}
	}
	return Preset{}, false
}

// Providers are the ids of all providers, sorted.
func Providers() []string {
	var ids []string
	for _, p := range presets {
		ids = append(ids, p.ID)
	}
	return slices.Compact(ids)
}

// Schemes are the schemes of a provider, its default first.
func Schemes(provider string) []string {
	var names []string
	for _, p := range presets {
		if p.ID == provider {
			names = append(names, p.Scheme)
		}
	}
	return names
}

// RequiredFields are what a source must give besides the provider.
func (p Preset) RequiredFields() []string {
	var fields []string
	switch c := p.Verifier; {
	case p.LearnsSecret:
	case c.Type == "none", c.Type == "aws_sns", c.CertificateHeader != "", c.KeySetURL != "":
	case c.Type == "public_key", c.Type == "jwt" && !strings.HasPrefix(c.Algorithm, "HS"):
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

// Spec says how a source's requests are verified: as its provider does it, or
// spelled out. It prints and logs without its secrets, but marshals with them,
// to be sealed and stored.
type Spec struct {
	Provider string `json:"provider,omitempty" yaml:"provider"`
	// Scheme is one of the provider's; its default if empty.
	Scheme  string   `json:"scheme,omitempty" yaml:"scheme"`
	Secrets []string `json:"secrets,omitempty" yaml:"secrets"`
	// PublicKeys are in any form that ParseKeys reads.
	PublicKeys []string          `json:"public_keys,omitempty" yaml:"public_keys"`
	Options    map[string]string `json:"options,omitempty" yaml:"options"`
	// ToleranceSeconds goes over the preset's.
	ToleranceSeconds *int `json:"tolerance_seconds,omitempty" yaml:"tolerance_seconds"`
	// Verifier is spelled out instead of the provider's; the provider, if one
	// is named, still says where ids and types are and how it shakes hands.
	Verifier *Config `json:"verifier,omitempty" yaml:"verifier"`
}

// Resolved is a Spec with its preset filled in.
type Resolved struct {
	Config  Config
	Preset  Preset // zero if the spec names no provider
	Scheme  string // of the provider, or the type of a verifier that is spelled out
	Options map[string]string
	Secrets []string // for handshakes, the newest first
	Waiting bool     // no secret yet: the handshake will bring it
	// ReplayProtection is the source's unless it says otherwise: the preset's,
	// and ReplayOff for a verifier that is spelled out.
	ReplayProtection string
}

// Resolve fills in the provider's preset and reports every fault at once, by
// its field. learned are secrets that a handshake has brought: they count only
// where there are no others, so that whoever gives one takes them back.
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
		f.Add("provider", "is required, or a verifier; to verify nothing say verifier: {type: none}")
		return r, f
	case s.Provider == "" && s.Scheme != "":
		f.Add("scheme", "belongs to a provider")
	}
	r.options(s.Options, s.Verifier != nil, &f)
	if s.Verifier != nil {
		s.spelledOut(&r, &f)
		return r, f
	}
	if r.Preset.HandshakeSecret && len(r.Secrets) == 0 {
		f.Add("secrets", "missing: the provider's handshake needs one")
	}
	r.Config, r.Scheme = r.complete(s), r.Preset.Scheme
	r.Waiting = r.Preset.LearnsSecret && len(r.Secrets) == 0
	faults := r.Config.Validate()
	if r.Config.Type == "basic_auth" && len(r.Secrets) == 0 {
		faults = eventhook.Faults{{Location: "secrets", Message: "missing, want at least one user:password"}}
	}
	for i := range faults {
		// What the preset calls values, the source calls secrets.
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
	f.Add("provider", "%q is none that is known: \"eventhook providers\" and docs/providers.md list them; spell out its verifier instead", s.Provider)
}

// spelledOut takes the verifier of s as it is.
func (s Spec) spelledOut(r *Resolved, f *eventhook.Faults) {
	f.Merge("verifier", s.Verifier.Validate())
	for _, other := range []struct {
		key   string
		given bool
	}{{"secrets", len(s.Secrets) > 0}, {"public_keys", len(s.PublicKeys) > 0}, {"tolerance_seconds", s.ToleranceSeconds != nil}, {"scheme", s.Scheme != ""}} {
		if other.given {
			f.Add(other.key, "belong into the verifier when it is spelled out")
		}
	}
	r.Config, r.Scheme, r.Secrets = *s.Verifier, s.Verifier.Type, slices.Concat(s.Verifier.Secrets, s.Verifier.Values)
	if r.Config.Reserved == "" && slices.Contains(schemes[r.Config.Type].fields, "reserved") {
		r.Config.Reserved = r.Preset.Verifier.Reserved // the handshake signs all the same
	}
}

// options fills in defaults, and wants nothing that the preset does not know.
// With a verifier of its own a source needs only what its handshake needs,
// which says so itself.
func (r *Resolved) options(given map[string]string, spelledOut bool, f *eventhook.Faults) {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.ContainsFunc(r.Preset.Options, func(o Option) bool { return o.Name == name }) {
			f.Add("options."+name, "is not an option of this provider")
		}
		if hasControl(given[name]) {
			f.Add("options."+name, "holds a control character")
		}
	}
	for _, o := range r.Preset.Options {
		value := given[o.Name]
		if value == "" {
			value = o.Default
		}
		if value == "" && o.Required && !spelledOut {
			f.Add("options."+o.Name, "missing: %s", o.About)
		}
		r.Options[o.Name] = value
	}
}

// complete is the preset's verifier with the source's own secrets, keys and
// options.
func (r *Resolved) complete(s Spec) Config {
	c := r.Preset.Verifier
	c.PublicKeys = slices.Clone(s.PublicKeys)
	switch c.Type {
	case "api_key", "basic_auth":
		c.Values = slices.Clone(r.Secrets)
	default:
		c.Secrets = slices.Clone(r.Secrets)
		if r.Preset.HandshakeSecret {
			c.Secrets = nil // for the handshake alone
		}
	}
	if s.ToleranceSeconds != nil {
		c.ToleranceSeconds = s.ToleranceSeconds
	}
	plain, template := r.fillers()
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

// fillers put the options into texts and into templates, in which a brace is
// written twice. What an option holds is not looked into again.
func (r *Resolved) fillers() (plain, template *strings.Replacer) {
	var texts, braced []string
	for name, value := range r.Options {
		texts = append(texts, "{option."+name+"}", value)
		braced = append(braced, "{option."+name+"}", strings.ReplaceAll(value, "{", "{{"))
	}
	return strings.NewReplacer(texts...), strings.NewReplacer(braced...)
}

// New makes the Verifier; r must have no faults. A source that waits for its
// secret refuses every request but the handshake.
func (r Resolved) New(keys Keys) (Verifier, error) {
	if r.Waiting {
		return waiting{}, nil
	}
	return New(r.Config, keys)
}

// SecretsCount is how many secrets there are: all that may be told of them.
func (s Spec) SecretsCount() int {
	if s.Verifier != nil {
		return s.Verifier.SecretsCount()
	}
	return len(s.Secrets)
}

// String tells what may be known of s.
func (s Spec) String() string {
	return fmt.Sprintf("spec{provider:%q scheme:%q secrets:%d [redacted]}", s.Provider, s.Scheme, s.SecretsCount())
}

// Format writes String whatever the verb.
func (s Spec) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// LogValue logs what may be known of s.
func (s Spec) LogValue() slog.Value {
	return slog.GroupValue(slog.String("provider", s.Provider), slog.String("scheme", s.Scheme), slog.Int("secrets_count", s.SecretsCount()))
}
