package verify

import (
	"fmt"
	"slices"
	"strings"

	"github.com/eventhook/eventhook"
)

// ReplayProtection returns the default of a source with this verifier: the
// preset's, and ReplayOff for a configured verifier.
func (s Spec) ReplayProtection() string {
	if p, ok := FindPreset(s.Provider, s.Scheme); ok && s.Verifier == nil && p.ReplayProtection != "" {
		return p.ReplayProtection
	}
	return eventhook.ReplayOff
}

// Captured classifies the effect of a replay of a captured request.
type Captured string

// The effects of a replay.
const (
	CapturedDuplicate Captured = "duplicate" // the replay is a duplicate, even with other unsigned headers
	CapturedNewEvent  Captured = "new event" // the replay can be a new event, under another id
	CapturedAnyBody   Captured = "any body"  // the request's token can be sent with any body
)

// Captured returns the effect of a replay of a captured request on a source
// that uses the provider's replay protection and paths. text describes it in a
// sentence for users.
func (p Preset) Captured() (kind Captured, text string) {
	switch {
	case p.isTokenOnly():
		text = "accepted as a new event: the token or password of the request can be sent with any body under any id"
		if p.Verifier.Type == "jwt" {
			text += ", until the token expires"
		}
		return CapturedAnyBody, text + "."
	case p.ReplayProtection == eventhook.ReplayBody:
		return CapturedDuplicate, "treated as a duplicate, even with other headers, because the same signed bytes are accepted once (`replay_protection: body`)."
	case p.signsID():
		return CapturedDuplicate, "treated as a duplicate, even with other headers, because the signature covers the id."
	}
	reason := "the request has no id"
	if len(p.IdempotencyKeyPaths) > 0 {
		reason = "its id is not signed"
	}
	return CapturedNewEvent, fmt.Sprintf("accepted as a new event%s, because %s. `replay_protection: body` makes the replay a duplicate, "+
		"but also genuine events with equal bytes: %s.", p.replayWindow(), reason, p.Repeats)
}

// replayWindow says, in words for Captured, how long a captured request is accepted.
func (p Preset) replayWindow() string {
	tolerance := DefaultTolerance
	if p.Verifier.ToleranceSeconds != nil {
		tolerance = *p.Verifier.ToleranceSeconds
	}
	hasClock := p.Verifier.Type == "timestamped_hmac" || p.Verifier.ToleranceSeconds != nil
	if tolerance == 0 || !hasClock {
		return " at any time"
	}
	return fmt.Sprintf(" within %d s", tolerance)
}

// isTokenOnly reports whether requests prove only that the sender knows a token or a password,
// so that they are accepted with any body.
func (p Preset) isTokenOnly() bool {
	switch p.Verifier.Type {
	case "api_key", "basic_auth", "none":
		return true
	case "jwt":
		return !p.CoversBody()
	}
	return false
}

// signsID reports whether the signature covers the values at all idempotency key paths.
func (p Preset) signsID() bool {
	for _, path := range p.IdempotencyKeyPaths {
		if slices.ContainsFunc(eventhook.PathParts(path), func(part string) bool { return !p.signs(part) }) {
			return false
		}
	}
	return len(p.IdempotencyKeyPaths) > 0
}

// signs reports whether the signature covers the value at a path that is not joined.
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
	case c.Type == "body_hmac": // the path of the signature, or of a signed field
		isEnd := func(end string) bool { return name == end || strings.HasSuffix(name, "."+end) }
		return slices.ContainsFunc(strings.Split(c.Path, "|"), isEnd) || strings.Contains(c.Signed, "{field."+name+"}")
	}
	return p.CoversBody()
}
