package docs

import (
	"slices"
	"strings"

	"github.com/eventhook/eventhook/verify"
)

// Example is a source of the provider in a file of tenants.
func Example(p verify.Preset, isDefault bool) string {
	var b strings.Builder
	slug := p.ID
	if !isDefault {
		slug = p.Scheme
	}
	b.WriteString("- slug: " + slug + "\n  provider: " + p.ID + "\n")
	if !isDefault {
		b.WriteString("  scheme: " + p.Scheme + "\n")
	}
	name := strings.ToUpper(strings.ReplaceAll(p.ID, "-", "_"))
	required := p.RequiredFields()
	switch {
	case !slices.Contains(required, "secrets"):
	case p.Verifier.Type == "basic_auth":
		b.WriteString(`  secrets: ["eventhook:${` + name + `_PASSWORD}"]` + "\n")
	default:
		b.WriteString(`  secrets: ["${` + name + `_SECRET}"]` + "\n")
	}
	if slices.Contains(required, "public_keys") {
		b.WriteString(`  public_keys: ["${` + name + `_PUBLIC_KEY}"]` + "\n")
	}
	var options []string
	for _, o := range p.Options {
		if o.Secret || o.Required || o.Pins {
			options = append(options, o.Name+`: "${`+name+"_"+strings.ToUpper(o.Name)+`}"`)
		}
	}
	if len(options) > 0 {
		b.WriteString("  options: {" + strings.Join(options, ", ") + "}\n")
	}
	return b.String()
}
