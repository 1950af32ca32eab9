package verify

import (
	"fmt"
	"slices"
	"strings"

	"github.com/eventhook/eventhook"
)

// ReplayProtection is that of a source that does not set its own.
func (s Spec) ReplayProtection() string {
	if p, ok := FindPreset(s.Provider, s.Scheme); ok && s.Verifier == nil && p.ReplayProtection != "" {
		return p.ReplayProtection
	}
	return eventhook.ReplayOff
}

// Captured says what the sender of a captured request can do with it.
type Captured string

// The kinds of captured requests.
const (
	CapturedDuplicate Captured = "duplicate" // it is a duplicate, whatever its headers say
	CapturedNewEvent  Captured = "new event" // it can be sent again under another id
	CapturedAnyBody   Captured = "any body"  // its token goes with any body
)

// Captured is what the sender of a captured request of the provider can do,
// while its source has the provider's replay protection and paths, and text
// says it to people.
func (p Preset) Captured() (kind Captured, text string) {
	switch {
	case p.provesNoBody():
		text = "carries a token: with it any body is accepted, under any id"
		if p.Verifier.Type == "jwt" {
			text += ", until the token expires"
		}
		return CapturedAnyBody, text + "."
	case p.ReplayProtection == eventhook.ReplayBody:
		return CapturedDuplicate, "is a duplicate, whatever its headers say: its signed bytes count once (`replay_protection: body`)."
	case p.signsID():
		return CapturedDuplicate, "is a duplicate, whatever its headers say: its id is signed."
	}
	under := "it carries no id"
	if len(p.IdempotencyKeyPaths) > 0 {
		under = "its id is not signed"
	}
	return CapturedNewEvent, fmt.Sprintf("can be sent again as a new event%s: %s, and %s. `replay_protection: body` makes it a duplicate, and a genuine event "+
		"with the same bytes too.", p.whileFresh(), under, p.Repeats)
}

// whileFresh says how long a captured request is accepted.
func (p Preset) whileFresh() string {
	tolerance := defaultTolerance
	if p.Verifier.ToleranceSeconds != nil {
		tolerance = *p.Verifier.ToleranceSeconds
	}
	hasClock := p.Verifier.Type == "timestamped_hmac" || p.Verifier.ToleranceSeconds != nil
	if tolerance == 0 || !hasClock {
		return " at any time"
	}
	return fmt.Sprintf(" within %d s", tolerance)
}

// provesNoBody reports whether requests carry a token or a password alone.
func (p Preset) provesNoBody() bool {
	switch p.Verifier.Type {
	case "api_key", "basic_auth", "none":
		return true
	case "jwt":
		return !p.CoversBody()
	}
	return false
}

// signsID reports whether the signature covers every path to the id.
func (p Preset) signsID() bool {
	for _, path := range p.IdempotencyKeyPaths {
		if slices.ContainsFunc(eventhook.PathParts(path), func(part string) bool { return !p.signs(part) }) {
			return false
		}
	}
	return len(p.IdempotencyKeyPaths) > 0
}

// signs reports whether the signature covers what a single path leads to.
func (p Preset) signs(path string) bool {
	c := p.Verifier.WithDefaults()
	kind, name, _ := strings.Cut(path, ".")
	switch {
	case kind == "header" && c.Type == "standard_webhooks":
		return slices.ContainsFunc(append([]string{c.Header}, c.AlsoHeaders...), func(header string) bool {
			return strings.EqualFold(name, strings.TrimSuffix(strings.ToLower(header), signatureSuffix)+"-id")
		})
	case kind == "header":
		return strings.EqualFold(name, c.TimestampHeader) || strings.Contains(strings.ToLower(c.Signed), "{header."+name+"}")
	case c.Type == "aws_sns":
		return slices.Contains(snsSigned["Notification"], name)
	case c.Type == "body_hmac": // the signature itself, or what it covers
		isEnd := func(end string) bool { return name == end || strings.HasSuffix(name, "."+end) }
		return slices.ContainsFunc(strings.Split(c.Path, "|"), isEnd) || strings.Contains(c.Signed, "{field."+name+"}")
	}
	return p.CoversBody()
}
