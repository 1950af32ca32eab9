// Package docs generates docs/providers.md from package verify: the schemes,
// the fields of a verifier, and a section for each provider. The text of the
// page is in templates; sentences about signatures are built from the presets,
// so that the page describes exactly the checks that the code does.
package docs

import (
	"embed"
	"slices"
	"strings"
	"text/template"

	"github.com/eventhook/eventhook/verify"
)

//go:embed *.md.tmpl
var templateFiles embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"cell":            cell,
	"code":            code,
	"codes":           codes,
	"fields":          verify.Fields,
	"handshake":       func(name string) string { return handshakes[name] },
	"maxAge":          maxAge,
	"providers":       verify.Providers,
	"withPrivateKeys": withPrivateKeys,
	"replayKind":      replayKind,
	"schemes":         schemesOf,
	"signature":       Signature,
}).ParseFS(templateFiles, "*.md.tmpl"))

// Providers returns the page in Markdown.
func Providers() string {
	return render("providers.md.tmpl", map[string]any{
		"Types": types, "Fields": fields, "Placeholders": placeholders, "Presets": verify.Presets(),
	})
}

// Provider returns the section about one provider, "" for an unknown id.
func Provider(id string) string {
	schemes := schemesOf(id)
	if len(schemes) == 0 {
		return ""
	}
	return render("provider.md.tmpl", schemes)
}

// Example returns a source with the scheme, as it stands in a file of tenants.
func Example(s Scheme) string { return render("example", s) }

func render(name string, data any) string {
	var b strings.Builder
	if err := templates.ExecuteTemplate(&b, name, data); err != nil {
		panic(err) // the templates and their data are constant
	}
	return b.String()
}

// Scheme is a preset together with its place among the schemes of its provider.
type Scheme struct {
	verify.Preset
	IsDefault   bool // the provider's first scheme
	HasSiblings bool // the provider has other schemes
}

func schemesOf(provider string) (schemes []Scheme) {
	names := verify.Schemes(provider)
	for i, name := range names {
		preset, _ := verify.FindPreset(provider, name)
		schemes = append(schemes, Scheme{preset, i == 0, len(names) > 1})
	}
	return schemes
}

// withPrivateKeys returns the ids of the providers that sign with a private key.
func withPrivateKeys() (ids []string) {
	for _, p := range verify.Presets() {
		if p.Verifier.SignsWithPrivateKey() {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// Requires reports whether a source must have the setting.
func (s Scheme) Requires(setting string) bool { return slices.Contains(s.RequiredFields(), setting) }

// Variable returns the environment variable of a setting in the example.
func (s Scheme) Variable(setting string) string {
	return strings.ToUpper(strings.ReplaceAll(s.ID+"_"+setting, "-", "_"))
}

// ExampleOptions returns the options that the example sets.
func (s Scheme) ExampleOptions() (options []verify.Option) {
	for _, o := range s.Options {
		if o.Secret || o.Required || o.Pins {
			options = append(options, o)
		}
	}
	return options
}

// Settings describes the secrets and keys that a source needs.
func (s Scheme) Settings() string {
	const several = "Several secrets are valid at the same time, for a rotation."
	keys := s.Requires("public_keys")
	switch {
	case s.LearnsSecret:
		return "no secret, because the provider sends it in the handshake."
	case s.Verifier.Type == "standard_webhooks":
		return "`secrets`, `public_keys`, or both. " + several
	case s.Verifier.HeaderPerSecret:
		return "`secrets`, one for each signature header in this order."
	case s.Requires("secrets") && keys:
		return "`secrets` and `public_keys`. " + several
	case s.Requires("secrets"):
		return "`secrets`. " + several
	case keys:
		return "`public_keys`."
	}
	return "no secret or key, because the provider publishes its keys."
}

// ReplayText describes the effect of a replay of a captured request.
func (s Scheme) ReplayText() string {
	_, text := s.Captured()
	return text
}

func replayKind(p verify.Preset) string {
	kind, _ := p.Captured()
	return replayKinds[kind]
}

// cell escapes a text for a cell of a table.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

// code formats a text as code.
func code(s string) string { return "`" + strings.ReplaceAll(s, "\n", `\n`) + "`" }

func codes(list []string) string { return strings.Join(each(list, code), ", ") }

func each(list []string, do func(string) string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = do(s)
	}
	return out
}
