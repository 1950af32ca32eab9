package filter

import (
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/eventhook/eventhook"
)

// Reasons collects why an event does not match, as texts for users. A nil *Reasons disables the
// collection.
type Reasons []reason

// reason is a text with values of the event, and a general text that is the same for all events
// that fail in the same way.
type reason struct{ text, general string }

// Add adds a reason without values of the event.
func (r *Reasons) Add(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	*r = append(*r, reason{text, text})
}

// addFound adds the reason that a path has an unwanted value.
func (r *Reasons) addFound(path string, value *gjson.Result, wanted string) {
	found, general := shown(value), "…"
	if !value.Exists() {
		general = found
	}
	*r = append(*r, reason{fmt.Sprintf("%s is %s, wanted %s", path, found, wanted), fmt.Sprintf("%s is %s, wanted %s", path, general, wanted)})
}

// String joins the reasons, with values of the event.
func (r Reasons) String() string { return r.join(func(one reason) string { return one.text }) }

// General joins the reasons and omits values of the event.
func (r Reasons) General() string { return r.join(func(one reason) string { return one.general }) }

func (r Reasons) join(text func(reason) string) string {
	const most = 2000
	texts := make([]string, len(r))
	for i, one := range r {
		texts[i] = text(one)
	}
	return eventhook.TruncateWithEllipsis(eventhook.SanitizeText(strings.Join(texts, "; ")), most)
}

// shown formats a value for a reason.
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
