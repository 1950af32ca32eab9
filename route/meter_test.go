package route_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/meter"
)

// costlyExpressions would take seconds each without a limit.
func costlyExpressions() map[string][2]string {
	const loops = "body.list.all(a, body.list.all(b, CALL || true))"
	list := "[" + strings.Repeat("1,", 150) + "1]"
	text := `{"list":` + list + `,"s":"` + strings.Repeat("a", 900_000) + `","t":"` + strings.Repeat("b", 100_000) + `"}`
	call := func(what string) string { return strings.Replace(loops, "CALL", what, 1) }
	same := `[` + strings.Repeat(`1,`, 3000) + `1]`
	return map[string][2]string{
		"attack 4, a large repetition":                          {`body.s.matches('(\\pL{2}){0,200}!')`, text},
		"a regular expression in the event":                     {`body.s.matches(body.t)`, `{"s":"` + strings.Repeat("a", 900_000) + `","t":"(\\pL{2}){0,200}!"}`},
		"a regular expression in the event, compiled in a loop": {call(`'x'.matches(body.t)`), `{"list":` + list + `,"t":"\\pL{0,400}"}`},
		"the size of a string":                                  {call("size(body.s) < 0"), text},
		"conversions":                                           {call("bytes(body.s) == b''"), text},
		"concatenated strings":                                  {call("(body.s + body.t) == ''"), text},
		"equal values":                                          {call("body.x == body.y"), `{"list":` + list + `,"x":` + same + `,"y":` + same + `}`},
		"a value in a list":                                     {call("body.x in [body.y, body.y]"), `{"list":` + list + `,"x":` + same + `,"y":` + same + `}`},
		"time zones":                                            {call("timestamp('2026-01-01T00:00:00Z').getHours('Europe/Berlin') < 0"), `{"list":` + list + `}`},
		"a deeply nested large string":                          {`body == 1`, strings.Repeat("[", 900) + `"` + strings.Repeat("x", 900_000) + `"` + strings.Repeat("]", 900)},
	}
}

// Each expression is evaluated 12 times, so that the limit of steps is reached although CEL's cost limit
// stops each evaluation.
func TestExpressionsStopAtTheLimit(t *testing.T) {
	for claim, c := range costlyExpressions() {
		t.Run(claim, func(t *testing.T) {
			var routes []eventhook.Route
			for range 12 {
				r := enabled(newRoute("r", "", "a"))
				r.FilterExpression = c[0]
				routes = append(routes, r)
			}
			const limit = 8_000_000
			m := meter.New(t.Context(), limit, nil)
			compile(routes...).Settle(m, carrying(c[1]), nil, noon)
			if !errors.Is(m.Err(), meter.ErrLimit) || m.Steps() > limit+1_000_000+len(c[1]) { // slack for one evaluation and for the view of the body, which has a limit of its own
				t.Errorf("got %v after %d steps, want ErrLimit within %d and one evaluation", m.Err(), m.Steps(), limit)
			}
		})
	}
}

// Calls that CEL's own cost model treats as constant have their real cost.
func TestCostsCoverWhatIsRead(t *testing.T) {
	for _, claim := range []string{"the size of a string", "conversions", "concatenated strings", "time zones"} {
		c := costlyExpressions()[claim]
		r := enabled(newRoute("r", "", "a"))
		r.FilterExpression = c[0]
		if got, reason := verdict(t, r, carrying(c[1])); !got || !strings.Contains(reason, "it costs more than 100 000 steps") {
			t.Errorf("%s: got %t: %s; want the cost limit exceeded", claim, got, reason)
		}
	}
}

func TestExpressionsEndWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for claim, c := range costlyExpressions() {
		r := enabled(newRoute("r", "", "a"))
		r.FilterExpression = c[0]
		m := meter.New(ctx, meter.EventLimit, nil)
		s := compile(r).Settle(m, carrying(c[1]), nil, noon)
		if !errors.Is(m.Err(), context.Canceled) || len(s.Actions) > 0 && (s.Actions[0].Failure == "" || s.Actions[0].Permanent) {
			t.Errorf("%s: got %+v and %v, want no effect and the context's error", claim, s.Actions, m.Err())
		}
	}
}

func TestBodiesOfManyValuesAreNotDecoded(t *testing.T) {
	r := enabled(newRoute("r", "", "a"))
	r.FilterExpression = "size(body) > 0"
	got, reason := verdict(t, r, carrying("["+strings.Repeat("{},", 300_000)+"1]"))
	if got || !strings.Contains(reason, "more than 250000 elements and members") {
		t.Errorf("got %t: %s; want the limit of values exceeded", got, reason)
	}
}

// BenchmarkSteps measures the duration of a step of each costly expression.
func BenchmarkSteps(b *testing.B) {
	for claim, c := range costlyExpressions() {
		b.Run(claim, func(b *testing.B) {
			r := enabled(newRoute("r", "", "a"))
			r.FilterExpression = c[0]
			p, e := compile(r), carrying(c[1])
			steps := 0
			for b.Loop() {
				m := meter.New(b.Context(), meter.EventLimit, nil)
				p.Settle(m, e, nil, noon)
				steps += m.Steps()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(steps), "ns/step")
		})
	}
}
