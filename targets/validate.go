package targets

import (
	"strings"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/payload"
)

// isText reports whether a text can be stored: it is valid UTF-8 without NUL.
func isText(s string) bool { return eventhook.SanitizeText(s) == s }

// checkName checks a name by which workers claim executions.
func checkName(f *eventhook.Faults, member, v string) {
	const maxName = 100
	if v == "" || len(v) > maxName || !isText(v) {
		f.Add(member, "must be 1 to %d bytes of text", maxName)
	}
}

// checkPath checks an optional path into the event.
func checkPath(f *eventhook.Faults, member, path string) {
	if path == "" {
		return
	}
	if wrong := eventhook.CheckPath(path); wrong != "" {
		f.Add(member, "%s", wrong)
	}
}

// checkOneOf checks an optional value that must be one of words.
func checkOneOf(f *eventhook.Faults, member, v string, words ...string) {
	for _, word := range append(words, "") {
		if v == word {
			return
		}
	}
	f.Add(member, "%q is not one of %s", eventhook.SanitizeLabel(v), strings.Join(words, ", "))
}

func checkRange(f *eventhook.Faults, member string, v, min, max int) {
	if v < min || v > max {
		f.Add(member, "%d is not between %d and %d", v, min, max)
	}
}

func optionalPath(s string) (payload.Path, error) {
	if s == "" {
		return payload.Path{}, nil
	}
	return payload.ParsePath(s)
}
