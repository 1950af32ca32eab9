package match

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/filter"
	"github.com/eventhook/eventhook/internal/meter"
)

// Matcher is a tenant's subscriptions at one generation, compiled once and
// shared: matching is pure and safe for concurrent use. Those that do not take
// an event cost it nothing.
type Matcher struct {
	generation int64
	bytes      int // of filters
	byID       map[eventhook.SubscriptionID]*eventhook.Subscription
	takers     []taker
	types      filter.Types
	fields     filter.Fields
}

// Generation is the number of the tenant's state of which the subscriptions are.
func (r *Matcher) Generation() int64 { return r.generation }

// taker is a subscription to which deliveries are made. Without a filter it
// takes all events of its types.
type taker struct {
	*eventhook.Subscription
	filter *filter.Filter
}

// CompileMatcher compiles a tenant's subscriptions. One with a filter that cannot
// be compiled, which CheckFilter prevents, takes nothing; broken, unless it is
// nil, hears why.
func CompileMatcher(generation int64, list []eventhook.Subscription, broken func(s *eventhook.Subscription, why string)) *Matcher {
	r := &Matcher{generation: generation, byID: make(map[eventhook.SubscriptionID]*eventhook.Subscription, len(list)), fields: filter.Fields{IsPublished: true}}
	var types [][]string
	for i := range list {
		s := &list[i]
		r.byID[s.ID] = s
		if s.Status == eventhook.SubscriptionDisabled || len(s.EventTypes) == 0 {
			continue
		}
		f, why := compileFilter(s.Filter, &r.fields)
		if why != "" {
			if broken != nil {
				broken(s, why)
			}
			continue
		}
		if f != nil {
			r.bytes += f.Memory()
		}
		r.takers, types = append(r.takers, taker{s, f}), append(types, s.EventTypes)
	}
	r.types = filter.NewTypeIndex(types)
	return r
}

// compileFilter says why there is no filter if one is given.
func compileFilter(text []byte, fields *filter.Fields) (f *filter.Filter, why string) {
	if !filter.IsSet(text) {
		return nil, ""
	}
	defer func() {
		if recover() != nil {
			f, why = nil, "it cannot be compiled"
		}
	}()
	f, faults := filter.Compile(text, fields)
	if len(faults) > 0 {
		return nil, faults[0].Location + ": " + faults[0].Message
	}
	return f, ""
}

// CheckFilter says what is wrong with a subscription's filter, all of it at
// once, located by the path in it. None is fine.
func CheckFilter(text []byte) (faults eventhook.Faults) {
	if !filter.IsSet(text) {
		return nil
	}
	defer func() {
		if recover() != nil {
			faults = eventhook.Faults{{Message: "cannot be compiled"}}
		}
	}()
	_, faults = filter.Compile(text, &filter.Fields{IsPublished: true})
	return faults
}

// mostOfAnnouncement is how many steps a filter may take for an event of the
// gateway's own, about 10 ms.
const mostOfAnnouncement = 10 * meter.Slice

// FilterHolds reports whether an event passes a subscription's filter; none lets
// all pass, and one that cannot be compiled nothing. It compiles the filter for
// that: of many, ask a Matcher.
func FilterHolds(text json.RawMessage, e *eventhook.Event) bool {
	fields := filter.Fields{IsPublished: true}
	f, why := compileFilter(text, &fields)
	if f == nil {
		return why == ""
	}
	m := meter.New(context.Background(), mostOfAnnouncement, nil)
	var s filter.Subject
	s.Begin(m, e, &fields)
	defer s.End()
	return (&taker{filter: f}).passes(&s)
}

// mostOfFilter is how many steps one subscription's filter may take for an event:
// a quarter of what the event may take, so that one subscriber's filter does not
// keep the event from the others.
const mostOfFilter = meter.EventLimit / 4

// Match returns the subscriptions that get an event, each once, in the order in
// which they were given. They must not be changed. Among them are paused ones,
// those whose secrets are lost, and those of agents: their deliveries wait. A
// subscription whose filter takes more than mostOfFilter steps does not get the
// event, and is among tooSlow. The meter counts the work; once it has stopped,
// the result must not be used.
func (r *Matcher) Match(m *meter.Meter, e *eventhook.Event) (matched, tooSlow []*eventhook.Subscription) {
	if len(r.takers) == 0 || !eventhook.IsVisibleToTenants(e.EventType) {
		return nil, nil
	}
	var s *filter.Subject
	r.types.Each(e.EventType, func(i int) {
		t := &r.takers[i]
		if t.filter == nil {
			matched = append(matched, t.Subscription)
			return
		}
		if s == nil {
			s, _ = publishedSubjects.Get().(*filter.Subject)
			s.Begin(m, e, &r.fields)
		}
		passes := false
		err := m.Within(mostOfFilter, func() { passes = t.passes(s) })
		switch {
		case err != nil:
			tooSlow = append(tooSlow, t.Subscription)
			s.End() // it has kept what was not found for want of steps
			s.Begin(m, e, &r.fields)
		case passes:
			matched = append(matched, t.Subscription)
		}
	})
	if s != nil {
		s.End()
		publishedSubjects.Put(s)
	}
	return matched, tooSlow
}

// publishedSubjects keep room for fields from one event to the next.
var publishedSubjects = sync.Pool{New: func() any { return &filter.Subject{} }}

// passes asks the filter. One that panics over what somebody sent lets nothing
// pass: neither the event nor the other subscribers are to blame.
func (t *taker) passes(s *filter.Subject) (ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	return t.filter.Holds(s, nil)
}

// size is the memory that it takes, in subscriptions of usual size.
func (r *Matcher) size() int {
	const usualFilter = 1 << 10
	return len(r.byID) + r.bytes/usualFilter
}
