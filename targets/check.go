package targets

import (
	"strings"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/payload"
)

// isText reports whether a text can be stored.
func isText(s string) bool { return eventhook.SanitizeText(s) == s }

// checkName wants a name that workers know.
func checkName(f *eventhook.Faults, member, v string) {
	const most = 100
	if v == "" || len(v) > most || !isText(v) {
		f.Add(member, "must be 1 to %d bytes of text", most)
	}
}

// checkPath wants a path into the event, or none.
func checkPath(f *eventhook.Faults, member, path string) {
	if path == "" {
		return
	}
	if wrong := eventhook.CheckPath(path); wrong != "" {
		f.Add(member, "%s", wrong)
	}
}

// checkOneOf wants one of some words, or none.
func checkOneOf(f *eventhook.Faults, member, v string, words ...string) {
	for _, word := range append(words, "") {
		if v == word {
			return
		}
	}
	f.Add(member, "%q is not one of %s", eventhook.SanitizeLabel(v), strings.Join(words, ", "))
}

func checkRange(f *eventhook.Faults, member string, v, least, most int) {
	if v < least || v > most {
		f.Add(member, "%d is not between %d and %d", v, least, most)
	}
}

func optionalPath(s string) (payload.Path, error) {
	if s == "" {
		return payload.Path{}, nil
	}
	return payload.ParsePath(s)
}
