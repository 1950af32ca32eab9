package filter

import (
	"github.com/tidwall/gjson"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/meter"
	"github.com/eventhook/eventhook/internal/payload"
)

// Subject gives a group of filters with common Fields access to one event. Each field is read at most
// once, on first use. A Subject can be reused for further events, without new allocations. It is not
// safe for concurrent use.
type Subject struct {
	Event  *eventhook.Event
	View   *payload.View
	Meter  *meter.Meter // counts the work of all evaluations of the event
	fields *Fields
	values []gjson.Result // values by field number
	isRead []bool         // whether the value was read, by field number
	read   []int          // numbers of the fields that were read
	last   gjson.Result   // value of a field without a number
}

// Begin prepares s for an event. The meter counts the work of the filters. End must be called before
// the next Begin.
func (s *Subject) Begin(m *meter.Meter, e *eventhook.Event, fields *Fields) {
	s.Event, s.fields, s.Meter = e, fields, m
	s.View = payload.New(m, payload.HeaderBlock(e.Headers), e.ContentType, e.Body)
	if n := len(fields.readers); cap(s.values) < n {
		s.values, s.isRead, s.read = make([]gjson.Result, n), make([]bool, n), make([]int, 0, n)
	} else {
		s.values, s.isRead = s.values[:n], s.isRead[:n]
	}
}

// End removes all values of the event.
func (s *Subject) End() {
	for _, n := range s.read {
		s.values[n], s.isRead[n] = gjson.Result{}, false
	}
	*s = Subject{values: s.values, isRead: s.isRead, read: s.read[:0]}
}

// at returns the value of a field. The result is valid until the next call.
func (s *Subject) at(p place) *gjson.Result {
	n := p.number
	if n < 0 {
		s.last = p.read(s)
		return &s.last
	}
	switch {
	case s.isRead[n]:
	case p.isJSON && len(s.fields.indexed) > 1 && s.View.IsLarge():
		s.findAll()
	default:
		s.values[n], s.isRead[n], s.read = p.read(s), true, append(s.read, n)
	}
	return &s.values[n]
}

// findAll reads all fields in JSON in one pass.
func (s *Subject) findAll() {
	s.View.Find(&s.fields.index, s.values)
	for _, n := range s.fields.indexed {
		s.isRead[n], s.read = true, append(s.read, n)
	}
}
