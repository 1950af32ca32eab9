package route_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/route"
)

// mixedRoutes returns n routes, each with a filter over different fields. Ten of them accept events
// of type "payment.card.made": by exact type, by prefix, or because they accept all types. The
// remaining routes accept other types; some of these types are prefixes of this one.
func mixedRoutes(n int) []eventhook.Route {
	taking := []string{"payment.card.made", "payment.*", "payment.card.*", "*", "payment.card.made refund.*"}
	routes := make([]eventhook.Route, n)
	for i := range routes {
		types := fmt.Sprintf("other%d.made other%d.lost", i, i)
		switch step := n / 10; {
		case i%step == 0:
			types = taking[i/step%len(taking)]
		case i%3 == 1:
			types = fmt.Sprintf("other%d.*", i)
		case i%3 == 2:
			types = fmt.Sprintf("payment.card%d.* payment.other%d", i, i)
		}
		routes[i] = newRoute(fmt.Sprint(i), types, "a")
		routes[i].Filter = fmt.Appendf(nil, `{"header.x-env":"test","body.data.object.field%d":{"$exists":true}}`, i)
	}
	return routes
}

// BenchmarkMatch evaluates a source's routes, none of which matches in the end. 1000 routes may
// take at most 1.5 times as long as the ten that accept the event's type. These ten read one header
// only, so that the cost of the others stays visible.
func BenchmarkMatch(b *testing.B) {
	e := paymentEvent()
	e.EventType = "payment.card.made"
	few, many := compile(mixedRoutes(10)...), compile(mixedRoutes(1000)...)
	for name, p := range map[string]*route.Program{"10routes": few, "1000routes": many} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.Settle(nil, e, nil, noon)
			}
		})
	}
	b.Run("both", func(b *testing.B) { // alternately, so that both have the same conditions
		var ofFew, ofMany time.Duration
		for b.Loop() {
			began := time.Now()
			few.Settle(nil, e, nil, noon)
			between := time.Now()
			many.Settle(nil, e, nil, noon)
			ofFew, ofMany = ofFew+between.Sub(began), ofMany+time.Since(between)
		}
		b.ReportMetric(ofMany.Seconds()/ofFew.Seconds(), "ratio(at-most-1.5)")
	})
}

// Field values are cached for the routes of one event, and never reused for the next event.
func TestNoValuesOfThePreviousEventAreUsed(t *testing.T) {
	r := newRoute("r", "", "a")
	r.Filter = []byte(`{"body.a":1,"header.x-env":"live","event.idempotency_key":"k"}`)
	p := compile(r)
	whole, bare := carrying(`{"a":1}`, "X-Env: live"), carrying(`{}`)
	whole.IdempotencyKey = "k"
	for range 20 {
		if got := p.Settle(nil, whole, nil, noon).Matched; got != 1 {
			t.Fatalf("got %d matched, want 1", got)
		}
		if got := p.Settle(nil, bare, nil, noon).Matched; got != 0 {
			t.Fatalf("after it: got %d matched, want none", got)
		}
	}
}

// Routes that do not match allocate no memory for paths into body, headers and fields: 1000 of them
// allocate no more than one.
func TestPathsThatDoNotMatchAllocateNothing(t *testing.T) {
	e := paymentEvent()
	for _, c := range []struct{ claim, types, filter string }{
		{"of other types", "other%d.* other%[1]d", `{"body.a%d":1}`},
		{"over the body", "", `{"body.data.object.field%d":{"$gte":1}}`},
		{"over headers", "", `{"header.x-other-%d":"live"}`},
		{"over the event", "", `{"event.type":"other%d"}`},
	} {
		allocations := func(n int) float64 {
			routes := make([]eventhook.Route, n)
			for i := range routes {
				types := c.types
				if types != "" {
					types = fmt.Sprintf(types, i)
				}
				routes[i] = newRoute("r", types, "a")
				routes[i].Filter = fmt.Appendf(nil, c.filter, i)
			}
			p := compile(routes...)
			return testing.AllocsPerRun(200, func() { p.Settle(nil, e, nil, noon) })
		}
		if one, many := allocations(1), allocations(1000); many > one+1 {
			t.Errorf("%s: got %.0f allocations with 1000 routes, want those with one, %.0f", c.claim, many, one)
		}
	}
}
