package route_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
)

func TestMatchingRoutesKeepTheirOrder(t *testing.T) {
	var routes []eventhook.Route
	for i, types := range []string{"a.b.c", "x", "a.*", "", "a.b.*", "a.b", "*", "a.b.c a.* *", "a.b.c.*", "a.b.c a.b.c"} {
		routes = append(routes, newRoute(fmt.Sprint(i), types, "a"))
	}
	p := compile(routes...)
	for _, c := range []struct{ eventType, want string }{
		{"a.b.c", "0 2 3 4 6 7 9"}, {"x", "1 3 6 7"}, {"a.b", "2 3 5 6 7"}, {"a", "3 6 7"}, {"", "3 6 7"}, {"a.b.c.", "2 3 4 6 7 8"}, {".", "3 6 7"},
		{strings.Repeat("a.", 127), "2 3 6 7"},
	} {
		var names []string
		for _, a := range p.Settle(nil, newEvent(c.eventType), nil, noon).Actions {
			names = append(names, a.RouteName)
		}
		if diff := cmp.Diff(strings.Fields(c.want), names); diff != "" {
			t.Errorf("%q: routes (-want +got):\n%s", c.eventType, diff)
		}
	}
}

// manyRoutes returns routes of which few accept events of type "wanted".
func manyRoutes(all, few int, filter string) []eventhook.Route {
	routes := make([]eventhook.Route, all)
	for i := range routes {
		types := fmt.Sprintf("other.t%d", i)
		if i%(all/few) == 0 {
			types = "wanted"
		}
		routes[i] = newRoute(fmt.Sprint(i), types, "a")
		routes[i].Filter = []byte(filter)
	}
	return routes
}

const unmatched = `{"header.x-env":"live","body.data.object.amount":{"$gte":1000},"body.data.object.currency":["usd","eur"]}`

func paymentEvent() *eventhook.Event {
	e := carrying(`{"id":"evt_1","data":{"object":{"id":"pi_1","amount":10,"currency":"usd","note":"`+strings.Repeat("x", 800)+`"}}}`, "Host: a", "X-Env: live")
	e.EventType = "wanted"
	return e
}

// A route that does not match must not allocate memory: an event with 1000 such routes allocates as
// much as with one.
func TestRoutesThatDoNotMatchAllocateNothing(t *testing.T) {
	e := paymentEvent()
	allocations := func(types string, n int) float64 {
		var routes []eventhook.Route
		for range n {
			r := newRoute("r", types, "a")
			r.Filter = []byte(unmatched)
			routes = append(routes, r)
		}
		p := compile(routes...)
		return testing.AllocsPerRun(200, func() { p.Settle(nil, e, nil, noon) })
	}
	if got := allocations("other", 1000); got > 1 {
		t.Errorf("1000 routes of other types: got %.0f allocations, want the settlement alone", got)
	}
	if one, many := allocations("wanted", 1), allocations("wanted", 1000); many > one+1 {
		t.Errorf("1000 routes whose filters do not match: got %.0f allocations, want those of one, %.0f", many, one)
	}
}

func BenchmarkSettle(b *testing.B) {
	e := paymentEvent()
	for _, c := range []struct {
		name   string
		routes []eventhook.Route
	}{
		{"10 routes, 10 of the type", manyRoutes(10, 10, unmatched)},
		{"1000 routes, 10 of the type", manyRoutes(1000, 10, unmatched)},
		{"1000 routes, all of the type", manyRoutes(1000, 1000, unmatched)},
		{"1000 routes, none of the type", manyRoutes(1000, 1, unmatched)[1:]},
	} {
		b.Run(c.name, func(b *testing.B) {
			p := compile(c.routes...)
			b.ReportAllocs()
			for b.Loop() {
				p.Settle(nil, e, nil, noon)
			}
		})
	}
	for name, set := range map[string]func(*eventhook.Route){
		"CEL": func(r *eventhook.Route) {
			r.FilterExpression = "body.data.object.amount >= 1000 && headers['x-env'] == 'live'"
		},
		"JavaScript": func(r *eventhook.Route) {
			r.FilterFunction = "function filter(e) { return e.body.data.object.amount >= 1000 }"
		},
		"JMESPath": func(r *eventhook.Route) {
			r.Transform = &eventhook.Transform{Type: "jmespath", Expression: "{id: data.object.id}"}
		},
	} {
		b.Run(name, func(b *testing.B) {
			r := newRoute("r", "", "a")
			set(&r)
			p := compile(r)
			b.ReportAllocs()
			for b.Loop() {
				p.Settle(nil, e, nil, noon)
			}
		})
	}
}
