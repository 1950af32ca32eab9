package route

import (
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/eventhook/eventhook"
)

// condition is a part of a filter. It holds or does not; with a why, one that
// does not hold says so there.
type condition interface {
	holds(s *subject, why *reasons) bool
}

// reasons collect why a filter does not match. A nil one collects nothing, and
// costs nothing.
type reasons []string

func (r *reasons) add(format string, args ...any) { *r = append(*r, fmt.Sprintf(format, args...)) }

func (r reasons) String() string {
	const most = 2000
	return shortened(eventhook.Text(strings.Join(r, "; ")), most)
}

type allOf []condition

func (all allOf) holds(s *subject, why *reasons) bool {
	for _, c := range all {
		if !c.holds(s, why) {
			return false
		}
	}
	return true
}

type anyOf []condition

func (list anyOf) holds(s *subject, why *reasons) bool {
	var each *reasons
	if why != nil {
		each = &reasons{}
	}
	for _, c := range list {
		if c.holds(s, each) {
			return true
		}
	}
	if why != nil {
		why.add("none of $or: %s", strings.Join(*each, "; "))
	}
	return false
}

// notAll holds where what it denies does not, and so where a field is missing.
type notAll struct {
	denied condition
	text   string
}

func (n notAll) holds(s *subject, why *reasons) bool {
	if !n.denied.holds(s, nil) {
		return true
	}
	if why != nil {
		why.add("$not: %s holds", n.text)
	}
	return false
}

// fieldTest holds an event's field against tests.
type fieldTest struct {
	field int
	path  string
	tests []test
}

func (f fieldTest) holds(s *subject, why *reasons) bool {
	value := s.field(f.field)
	for i := range f.tests {
		if f.tests[i].passes(value) {
			continue
		}
		if why != nil {
			why.add("%s is %s, wanted %s", f.path, shown(value), f.tests[i].wanted)
		}
		return false
	}
	return true
}

// shown is a value as a reason shows it.
func shown(r *gjson.Result) string {
	const most = 80
	switch {
	case !r.Exists():
		return "missing"
	case r.Type == gjson.String:
		return fmt.Sprintf("%q", eventhook.Cut(r.Str, most))
	}
	return shortened(r.Raw, most)
}

func shortened(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return eventhook.Cut(s, most) + "…"
}
