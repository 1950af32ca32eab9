package eventhook

import (
	"fmt"
	"slices"
	"strings"
)

// BodyHashPath is the path of the SHA-256 of a body, in hexadecimal. It serves as
// the idempotency key of webhooks without an id; webhooks with equal bodies are then
// duplicates.
const BodyHashPath = "sha256.body"

// pathKinds are the first parts of a path, besides BodyHashPath.
var pathKinds = []string{"header", "body", "cloudevent"}

// PathParts splits a path at " + " into single paths. A body member whose name
// contains " + " is reachable only if no path follows the separator.
func PathParts(path string) []string {
	const plus = " + "
	var parts []string
	for from := 0; ; {
		i := strings.Index(path[from:], plus)
		if i < 0 {
			return append(parts, path)
		}
		i += from
		next := path[i+len(plus):]
		if next == BodyHashPath || slices.ContainsFunc(pathKinds, func(kind string) bool { return strings.HasPrefix(next, kind+".") }) {
			parts, path, from = append(parts, path[:i]), next, 0
			continue
		}
		from = i + len(plus)
	}
}

// CheckPath says why a path into a webhook is invalid, "" if it is valid:
// header.<name>, body.<member or index>[.…], cloudevent.<attribute>,
// cloudevent.data[.…], sha256.body, or several of these joined by " + ".
func CheckPath(path string) string {
	if !isText(path) || len(path) > MaxKeyBytes {
		return fmt.Sprintf("must be UTF-8 of at most %d bytes", MaxKeyBytes)
	}
	for _, part := range PathParts(path) {
		if wrong := checkPathPart(part); wrong != "" {
			return wrong
		}
	}
	return ""
}

func checkPathPart(path string) string {
	kind, rest, ok := strings.Cut(path, ".")
	switch {
	case path == BodyHashPath:
		return ""
	case !ok || rest == "" || !slices.Contains(pathKinds, kind):
		return fmt.Sprintf("%q must be header.<name>, body.<path>, cloudevent.<path> or sha256.body", path)
	case kind == "header" && !isToken(rest):
		return fmt.Sprintf("%q contains an invalid header name: use letters, digits and !#$%%&'*+-.^_`|~", path)
	case kind != "header" && (strings.HasPrefix(rest, ".") || strings.HasSuffix(rest, ".") || strings.Contains(rest, "..")):
		return fmt.Sprintf("%q has an empty part", path)
	}
	return ""
}

// isToken reports whether s is a token (RFC 9110, section 5.6.2), as header names
// are.
func isToken(s string) bool {
	for _, c := range []byte(s) {
		isPlain := '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !isPlain && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

func checkPath(f *Faults, location, path string) {
	if wrong := CheckPath(path); wrong != "" {
		f.Add(location, "%s", wrong)
	}
}
