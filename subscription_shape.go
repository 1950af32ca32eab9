package eventhook

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// checkShape checks the fields that decide which events match by their scope, and what a
// delivery looks like. Package outbound/send compiles the transform.
func (s SubscriptionSettings) checkShape(f *Faults) {
	checkLength(f, "scope_filter", s.ScopeFilter, maxScopePatterns)
	for i, p := range s.ScopeFilter {
		if wrong := CheckScopePattern(p); wrong != "" {
			f.Add(fmt.Sprintf("scope_filter[%d]", i), "%s", wrong)
		}
	}
	if s.Format != "" && !slices.Contains(Formats, s.Format) {
		f.Add("format", "%q is not one of %s", SanitizeLabel(s.Format), strings.Join(Formats, ", "))
	}
	if t := s.Transform; t != nil {
		if s.Format != "" && s.Format != FormatEventhook {
			f.Add("transform", "cannot be combined with the format %s: the result of the transform is the body", SanitizeLabel(s.Format))
		}
		if t.Type != TransformJMESPath && t.Type != TransformJavaScript {
			f.Add("transform.type", "%q is neither %s nor %s", SanitizeLabel(t.Type), TransformJMESPath, TransformJavaScript)
		}
		if t.Expression == "" || len(t.Expression) > maxTransform {
			f.Add("transform.expression", "has %d bytes, want 1 to %d", len(t.Expression), maxTransform)
		}
		if t.Retry {
			f.Add("transform.retry", "is not supported: a delivery whose transform fails is dead")
		}
	}
	s.checkHeaderPrefix(f)
}

// headerEndings end the names of the gateway's own headers of deliveries.
var headerEndings = []string{"-Signature", "-Event-Id", "-Event-Type", "-Delivery-Id", "-Attempt", "-Trace-Id"}

func (s SubscriptionSettings) checkHeaderPrefix(f *Faults) {
	p := s.HeaderPrefix
	if p != "" && (len(p) > maxHeaderPrefix || strings.ContainsFunc(p, isNoNameCharacter) || strings.Trim(p, "-") != p) {
		f.Add("header_prefix", "%q must be letters, digits and hyphens, at most %d bytes, without a hyphen at its ends, such as X-Acme", SanitizeLabel(p), maxHeaderPrefix)
	}
	if strings.EqualFold(p+"-", standardHeaderPrefix) {
		f.Add("header_prefix", "%q begins the headers of Standard Webhooks, which the gateway sets, too", p)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		if p != "" && slices.ContainsFunc(headerEndings, func(end string) bool { return strings.EqualFold(name, p+end) }) {
			f.Add("headers."+SanitizeLabel(name), "is set by the gateway: it begins with the header_prefix")
		}
	}
}

// isNoNameCharacter reports whether c is neither an ASCII letter, nor a digit, nor a hyphen.
func isNoNameCharacter(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-'
}

// CheckScopePattern says what is wrong with a pattern of a scope_filter, "" if nothing: an
// exact scope, prefix/*, or *.
func CheckScopePattern(pattern string) string {
	prefix := strings.TrimSuffix(pattern, "/*")
	switch {
	case pattern == "*":
		return ""
	case len(pattern) > MaxScopePattern:
		return fmt.Sprintf("has %d bytes, at most %d are allowed", len(pattern), MaxScopePattern)
	case prefix == "" || strings.Contains(prefix, "*") || !isText(prefix):
		return fmt.Sprintf("%q must be a scope, prefix/*, or *", SanitizeLabel(pattern))
	}
	return ""
}

// The members of an event as receivers get it that can order deliveries. The members that
// differ for each event are no order: event_id, timestamp, request_id and trace_id.
var (
	orderingObjects = []string{"data", "scope", "actor", "metadata"} // and paths into them
	orderingTexts   = []string{"event_type", "category", "source", "tenant_id", "correlation_id"}
)

// checkOrderedBy says what is wrong with a path of the envelope, "" if nothing.
func checkOrderedBy(path string) string {
	if path == "" {
		return ""
	}
	if len(path) > maxOrderedBy {
		return fmt.Sprintf("has %d bytes, at most %d are allowed", len(path), maxOrderedBy)
	}
	first, rest, hasRest := strings.Cut(path, ".")
	switch {
	case !isText(path) || strings.ContainsAny(path, " \t*") || hasRest && slices.Contains(strings.Split(rest, "."), ""):
		return "must be a path of the event as receivers get it, such as data.customer_id"
	case slices.Contains(orderingObjects, first):
		return ""
	case !slices.Contains(orderingTexts, first):
		return fmt.Sprintf("%q is not a member of the event as receivers get it: write data.<path>, or a path that begins with %s",
			SanitizeLabel(first), strings.Join(slices.Concat(orderingObjects[1:], orderingTexts), ", "))
	case hasRest:
		return fmt.Sprintf("%q is a text, which has no members", first)
	}
	return ""
}
