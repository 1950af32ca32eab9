package match

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/filter"
	"github.com/eventhook/eventhook/internal/meter"
	"github.com/eventhook/eventhook/internal/panics"
)

// Matcher has the compiled subscriptions of a tenant at one generation. It never changes,
// and it is safe for concurrent use. Subscriptions to other event types or
// scopes add nothing to the cost of matching an event.
type Matcher struct {
	generation int64
	bytes      int // of filters
	byID       map[eventhook.SubscriptionID]*eventhook.Subscription
	forAgents  []*eventhook.Subscription
	receiving  []compiledSubscription // not disabled
	index      subscriptionIndex      // of receiving
	fields     filter.Fields
}

// Generation returns the generation of the tenant's subscriptions.
func (r *Matcher) Generation() int64 { return r.generation }

// ForAgents returns the tenant's own subscriptions whose deliveries agents send, in any status.
// Callers must not change them.
func (r *Matcher) ForAgents() []*eventhook.Subscription { return r.forAgents }

// compiledSubscription is a subscription that receives events. If filter is nil, it
// receives all events of its types and scopes.
type compiledSubscription struct {
	*eventhook.Subscription
	filter *filter.Filter
}

// CompileMatcher compiles a tenant's subscriptions. A subscription whose filter cannot be
// compiled receives no events, and onFault is called for it with the reason, unless onFault
// is nil. CheckFilter prevents such filters.
func CompileMatcher(generation int64, list []eventhook.Subscription, onFault func(s *eventhook.Subscription, reason string)) *Matcher {
	r := &Matcher{generation: generation, byID: make(map[eventhook.SubscriptionID]*eventhook.Subscription, len(list)), fields: filter.Fields{IsPublished: true}}
	for i := range list {
		s := &list[i]
		r.byID[s.ID] = s
		if s.IsForAgents() && !s.IsOperator() {
			r.forAgents = append(r.forAgents, s)
		}
		if s.Status == eventhook.SubscriptionDisabled && !s.HoldsDeliveries() || len(s.EventTypes) == 0 {
			continue
		}
		f, fault := compileFilter(s.Filter, &r.fields)
		if fault != "" {
			if onFault != nil {
				onFault(s, fault)
			}
			continue
		}
		if f != nil {
			r.bytes += f.Memory()
		}
		r.index.add(len(r.receiving), s)
		r.receiving = append(r.receiving, compiledSubscription{s, f})
	}
	return r
}

// compileFilter compiles a filter. It returns nil if text has no filter, and nil with a
// fault if the filter cannot be compiled.
func compileFilter(text []byte, fields *filter.Fields) (f *filter.Filter, fault string) {
	if !filter.IsSet(text) {
		return nil, ""
	}
	defer func() {
		if recover() != nil {
			panics.Count(panics.Subscription)
			f, fault = nil, "it cannot be compiled"
		}
	}()
	f, faults := filter.Compile(text, fields)
	if len(faults) > 0 {
		return nil, faults[0].Location + ": " + faults[0].Message
	}
	return f, ""
}

// CheckFilter returns all faults of a subscription's filter, located by their paths in the
// filter. An absent filter has no faults.
func CheckFilter(text []byte) (faults eventhook.Faults) {
	if !filter.IsSet(text) {
		return nil
	}
	defer func() {
		if recover() != nil {
			panics.Count(panics.Subscription)
			faults = eventhook.Faults{{Message: "cannot be compiled"}}
		}
	}()
	_, faults = filter.Compile(text, &filter.Fields{IsPublished: true})
	return faults
}

// maxSystemEventSteps is how many steps a filter may take for a system event, about 10 ms.
const maxSystemEventSteps = 10 * meter.Slice

// FilterHolds reports whether an event passes a subscription's filter. An absent filter
// passes all events, and a filter that cannot be compiled passes no event. FilterHolds
// compiles the filter at each call; a Matcher is faster for many events.
func FilterHolds(text json.RawMessage, e *eventhook.Event) bool {
	fields := filter.Fields{IsPublished: true}
	f, fault := compileFilter(text, &fields)
	if f == nil {
		return fault == ""
	}
	m := meter.New(context.Background(), maxSystemEventSteps, nil)
	var s filter.Subject
	s.Begin(m, e, &fields)
	defer s.End()
	return (&compiledSubscription{filter: f}).passes(&s)
}

// maxFilterSteps is how many steps one subscription's filter may take for an event: a
// quarter of the limit of the event, so that the filter of one subscription leaves steps
// for the filters of all other subscriptions.
const maxFilterSteps = meter.EventLimit / 4

// Match returns the subscriptions that receive an event, in the order of the list of
// CompileMatcher. Callers must not change them. The result includes subscriptions
// that are paused, belong to agents, or have lost their secrets: their deliveries wait. A
// subscription whose filter takes more than maxFilterSteps steps does not receive the event
// and is in tooSlow. The meter counts the work. If the meter has an error afterwards, the
// result must not be used.
func (r *Matcher) Match(m *meter.Meter, e *eventhook.Event) (matched, tooSlow []*eventhook.Subscription) {
	if len(r.receiving) == 0 {
		return nil, nil
	}
	var s *filter.Subject
	isLifecycle, isVisible := e.IsLifecycle(), eventhook.IsVisibleToTenants(e.EventType)
	r.index.each(e, func(i int) {
		t := &r.receiving[i]
		if !isVisible && !t.IsOperator() || isLifecycle && !namesType(t.EventTypes, e.EventType) {
			return
		}
		if t.filter == nil {
			matched = append(matched, t.Subscription)
			return
		}
		if s == nil {
			s, _ = publishedSubjects.Get().(*filter.Subject)
			s.Begin(m, e, &r.fields)
		}
		passes := false
		err := m.Within(maxFilterSteps, func() { passes = t.passes(s) })
		switch {
		case err != nil:
			tooSlow = append(tooSlow, t.Subscription)
			s.End() // the subject cached lookups that failed at the limit
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

// namesType reports whether a pattern other than "*" matches an event type of two parts.
func namesType(patterns []string, eventType string) bool {
	first, _, _ := strings.Cut(eventType, ".")
	return slices.Contains(patterns, eventType) || slices.Contains(patterns, first+".*")
}

// publishedSubjects reuses the memory of filter subjects.
var publishedSubjects = sync.Pool{New: func() any { return &filter.Subject{} }}

// passes evaluates the filter. If it panics, the event does not pass, and the other
// subscriptions are not affected.
func (t *compiledSubscription) passes(s *filter.Subject) (ok bool) {
	defer func() {
		if recover() != nil {
			panics.Count(panics.Subscription)
			ok = false
		}
	}()
	return t.filter.Holds(s, nil)
}

// size returns the memory of the Matcher in subscriptions of typical size.
func (r *Matcher) size() int {
	const typicalFilterBytes = 1 << 10
	return len(r.byID) + r.bytes/typicalFilterBytes
}
