// Package docs writes docs/providers.md: what package verify knows of schemes
// and providers, for people. It reads the presets and nothing else, so the page
// cannot say what the code does not do.
package docs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/eventhook/eventhook/verify"
)

// Providers is the whole page, in Markdown.
func Providers() string {
	var b strings.Builder
	b.WriteString(introduction)
	b.WriteString(spellOut)
	b.WriteString(table("type", "verifies", "fields"))
	for _, t := range verify.Types() {
		b.WriteString(row(code(t), types[t], codes(verify.Fields(t))))
	}
	b.WriteString("\n")
	b.WriteString(table("field", "says"))
	for _, f := range fields {
		b.WriteString(row(code(f.key), f.about))
	}
	b.WriteString(templates)
	b.WriteString(table("placeholder", "stands for"))
	for _, p := range placeholders {
		b.WriteString(row(code(p.key), p.about))
	}
	b.WriteString(paths)
	b.WriteString(trying)
	b.WriteString(overview())
	for _, id := range verify.Providers() {
		b.WriteString("\n" + Provider(id))
	}
	return b.String()
}

// overview is the table of all providers.
func overview() string {
	var b strings.Builder
	b.WriteString("\n## All providers\n\n")
	b.WriteString(table("provider", "name", "scheme", "verifier", "needs", "body is covered", "a captured request", "handshake"))
	for _, p := range verify.Presets() {
		covered, handshake := "yes", "–"
		if !p.CoversBody() {
			covered = "**no**"
		}
		if p.Handshake != "" {
			handshake = code(p.Handshake)
		}
		captured, _ := p.Captured()
		b.WriteString(row("["+code(p.ID)+"](#"+p.ID+")", p.Name, code(p.Scheme), code(p.Verifier.Type), orDash(codes(p.RequiredFields())), covered,
			capturedKinds[captured], handshake))
	}
	return b.String()
}

// Provider is the part of the page about one provider, "" if there is none.
func Provider(id string) string {
	var b strings.Builder
	for i, scheme := range verify.Schemes(id) {
		p, _ := verify.FindPreset(id, scheme)
		if i == 0 {
			fmt.Fprintf(&b, "### %s\n", id)
		}
		b.WriteString("\n")
		b.WriteString(preset(p, i == 0))
	}
	return b.String()
}

// preset is the part of a section about one scheme.
func preset(p verify.Preset, isDefault bool) string {
	var b strings.Builder
	name := "**" + p.Name + "**"
	if len(verify.Schemes(p.ID)) > 1 {
		name += ", scheme " + code(p.Scheme)
		if isDefault {
			name += " (the default)"
		}
	}
	fmt.Fprintf(&b, "%s · [documentation](%s)\n\n", name, p.DocumentationURL)
	line := func(label, text string) {
		if text != "" {
			fmt.Fprintf(&b, "- %s: %s\n", label, text)
		}
	}
	line("Verified", Scheme(p.Verifier))
	line("Time", clock(p.Verifier))
	line("Give", give(p))
	for _, o := range p.Options {
		line("Option "+code(o.Name), option(o))
	}
	line("Idempotency key", orNone(codes(p.IdempotencyKeyPaths), "none; give `idempotency_key_paths` if requests carry something that tells them apart"))
	line("Event type", orNone(codes(p.EventTypePaths), "none of its own"))
	line("Handshake", handshakeOf(p))
	if p.Reply != nil {
		line("Answer", reply(p))
	}
	line("Not covered", p.Uncovered)
	_, captured := p.Captured()
	line("A captured request", captured)
	line("Note", p.Note)
	b.WriteString("\n```yaml\n" + Example(p, isDefault) + "```\n")
	return b.String()
}

func handshakeOf(p verify.Preset) string {
	if p.Handshake == "" {
		return ""
	}
	return handshakes[p.Handshake]
}

func reply(p verify.Preset) string {
	if p.Reply.Body == "" {
		return fmt.Sprintf("%d without a body.", p.Reply.Status)
	}
	return fmt.Sprintf("%d and %s.", p.Reply.Status, code(p.Reply.Body))
}

// give is what a source must, or may, give besides options.
func give(p verify.Preset) string {
	required := p.RequiredFields()
	var texts []string
	switch {
	case p.LearnsSecret:
		texts = append(texts, "nothing: the handshake brings the secret")
	case p.Verifier.Type == "standard_webhooks":
		texts = append(texts, "`secrets`, or `public_keys`; several are all live, for a rotation")
	case p.Verifier.HeaderPerSecret:
		texts = append(texts, "`secrets`: one for each header, in their order")
	case slices.Contains(required, "secrets"):
		texts = append(texts, "`secrets`; several are all live, for a rotation")
	}
	if slices.Contains(required, "public_keys") {
		texts = append(texts, "`public_keys`")
	}
	if len(texts) == 0 {
		texts = append(texts, "nothing: the keys are the provider's published ones")
	}
	return strings.Join(texts, " and ") + "."
}

func option(o verify.Option) string {
	text := o.About
	if o.Required {
		text += " (required)"
	}
	if o.Pins {
		text += " (required of new sources: without it those of any account are accepted)"
	}
	if o.Default != "" {
		text += "; " + code(o.Default) + " by default"
	}
	return text + "."
}

func table(columns ...string) string {
	return row(columns...) + "|" + strings.Repeat(" --- |", len(columns)) + "\n"
}

func row(cells ...string) string {
	for i := range cells {
		cells[i] = strings.ReplaceAll(cells[i], "|", `\|`)
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

// code is a text as it is typed.
func code(s string) string { return "`" + strings.ReplaceAll(s, "\n", `\n`) + "`" }

func codes(list []string) string {
	var all []string
	for _, s := range list {
		all = append(all, code(s))
	}
	return strings.Join(all, ", ")
}

func orDash(s string) string { return orNone(s, "–") }

func orNone(s, none string) string {
	if s == "" {
		return none
	}
	return s
}
