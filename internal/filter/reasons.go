package filter

import (
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/eventhook/eventhook"
)

// Reasons collect why an event does not match, for people. A nil one collects
// nothing, and costs nothing.
type Reasons []reason

// reason is told with what the event holds, and in general: as it reads for
// all events that fail in the same way.
type reason struct{ text, general string }

// Add adds what is the same for all events.
func (r *Reasons) Add(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	*r = append(*r, reason{text, text})
}

// addFound adds that something was found where something else is wanted.
func (r *Reasons) addFound(path string, value *gjson.Result, wanted string) {
	found, general := shown(value), "…"
	if !value.Exists() {
		general = found
	}
	*r = append(*r, reason{fmt.Sprintf("%s is %s, wanted %s", path, found, wanted), fmt.Sprintf("%s is %s, wanted %s", path, general, wanted)})
}

// String tells them with what the event holds.
func (r Reasons) String() string { return r.join(func(one reason) string { return one.text }) }

// General tells them without that.
func (r Reasons) General() string { return r.join(func(one reason) string { return one.general }) }

func (r Reasons) join(text func(reason) string) string {
	const most = 2000
	texts := make([]string, len(r))
	for i, one := range r {
		texts[i] = text(one)
	}
	return eventhook.TruncateWithEllipsis(eventhook.SanitizeText(strings.Join(texts, "; ")), most)
}

// shown is a value as a reason shows it.
func shown(r *gjson.Result) string {
	const most = 80
	switch {
	case !r.Exists():
		return "missing"
	case r.Type == gjson.String:
		return fmt.Sprintf("%q", eventhook.Truncate(r.Str, most))
	}
	return eventhook.TruncateWithEllipsis(r.Raw, most)
}
