package filter

import (
	"github.com/tidwall/gjson"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/meter"
	"github.com/eventhook/eventhook/internal/payload"
)

// Subject is one event as the filters look at it that share their Fields. What
// several of them want is looked up once, and only when one wants it. It can be
// used for one event after the other, and keeps its room. Not safe for
// concurrent use.
type Subject struct {
	Event  *eventhook.Event
	View   *payload.View
	Meter  *meter.Meter // counts the work of all that looks at the event
	fields *Fields
	found  []gjson.Result // by the number of the field
	looked []bool
	seen   []int        // the fields that were looked for
	last   gjson.Result // of those without a number
}

// Begin prepares s for filters over these fields to look at an event; End it before
// the next. What they do is counted by the meter.
func (s *Subject) Begin(m *meter.Meter, e *eventhook.Event, fields *Fields) {
	s.Event, s.fields, s.Meter = e, fields, m
	s.View = payload.New(m, payload.HeaderBlock(e.Headers), e.ContentType, e.Body)
	if n := len(fields.list); cap(s.found) < n {
		s.found, s.looked, s.seen = make([]gjson.Result, n), make([]bool, n), make([]int, 0, n)
	} else {
		s.found, s.looked = s.found[:n], s.looked[:n]
	}
}

// End forgets the event. Nothing of it stays.
func (s *Subject) End() {
	for _, n := range s.seen {
		s.found[n], s.looked[n] = gjson.Result{}, false
	}
	*s = Subject{found: s.found, looked: s.looked, seen: s.seen[:0]}
}

// at is what the event has in a place, until the next look.
func (s *Subject) at(p place) *gjson.Result {
	n := p.number
	if n < 0 {
		s.last = p.look(s)
		return &s.last
	}
	switch {
	case s.looked[n]:
	case p.isJSON && len(s.fields.indexed) > 1 && s.View.IsLarge():
		s.findAll()
	default:
		s.found[n], s.looked[n], s.seen = p.look(s), true, append(s.seen, n)
	}
	return &s.found[n]
}

// findAll looks up all paths into JSON in one pass.
func (s *Subject) findAll() {
	s.View.Find(&s.fields.index, s.found)
	for _, n := range s.fields.indexed {
		s.looked[n], s.seen = true, append(s.seen, n)
	}
}
