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

// reason has a text with values of the event, and a general text without them, which is the same for
// all events that fail the same test.
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
func (r Reasons) String() string { return r.join(func(x reason) string { return x.text }) }

// General joins the reasons and omits values of the event.
func (r Reasons) General() string { return r.join(func(x reason) string { return x.general }) }

func (r Reasons) join(text func(reason) string) string {
	const maxText = 2000
	texts := make([]string, len(r))
	for i := range r {
		texts[i] = text(r[i])
	}
	return eventhook.TruncateWithEllipsis(eventhook.SanitizeText(strings.Join(texts, "; ")), maxText)
}

// shown formats a value for a reason.
func shown(r *gjson.Result) string {
	const maxValue = 80
	switch {
	case !r.Exists():
		return "missing"
	case r.Type == gjson.String:
		return fmt.Sprintf("%q", eventhook.Truncate(r.Str, maxValue))
	}
	return eventhook.TruncateWithEllipsis(r.Raw, maxValue)
}
