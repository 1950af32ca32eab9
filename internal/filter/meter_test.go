package filter_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/filter"
	"github.com/eventhook/eventhook/internal/meter"
)

// holds evaluates a filter with a meter.
func holds(t testing.TB, m *meter.Meter, text, body string) bool {
	t.Helper()
	var fields filter.Fields
	f, faults := filter.Compile([]byte(text), &fields)
	if len(faults) > 0 {
		t.Fatalf("Compile: got %v, want no faults", faults)
	}
	var s filter.Subject
	s.Begin(m, carrying(body), &fields)
	defer s.End()
	return f.Holds(&s, nil)
}

// costly returns filters and bodies that would take seconds without a limit.
func costly() map[string][2]string {
	letters := strings.Repeat("a", 60_000)
	var or, lists []string
	for i := range 20 {
		or = append(or, fmt.Sprintf(`{"body.t":{"$regex":"\\pL{0,470}!%d"}}`, i))
	}
	for range 400 {
		lists = append(lists, `[[],1]`)
	}
	nested := strings.Repeat("[", 15) + `"x"` + strings.Repeat("]", 15)
	deep := strings.Repeat("[", 90) + "1" + strings.Repeat("]", 90)
	many := "[" + strings.Repeat("1,", 2_000_000) + "1]"
	return map[string][2]string{
		"attack 1, regular expressions": {`{"$or":[` + strings.Join(or, ",") + `]}`, `{"t":"` + letters + `"}`},
		"lists in a list of lists":      {`{"body.t":{"$in":[` + strings.Join(lists, ",") + `]}}`, `{"t":[["` + strings.Repeat("x", 4<<20) + `"],1]}`},
		"many nested elements":          {`{"body.t":{"$contains":` + nested + `}}`, `{"t":` + many + `}`},
		"deeply nested values":          {`{"body.t":` + `{"$eq":` + deep + `}}`, `{"t":` + strings.Repeat("[", 90) + `"` + strings.Repeat("x", 1<<20) + `"` + strings.Repeat("]", 90) + `}`},
	}
}

func TestFiltersStopAtTheLimit(t *testing.T) {
	for claim, c := range costly() {
		t.Run(claim, func(t *testing.T) {
			m := meter.New(t.Context(), 5_000_000, nil)
			if holds(t, m, c[0], c[1]) {
				t.Error("got a match, want none")
			}
			if !errors.Is(m.Err(), meter.ErrLimit) || m.Steps() > 5_000_000+len(c[1]) { // the view of the body has a limit of its own
				t.Errorf("got %v after %d steps, want ErrLimit", m.Err(), m.Steps())
			}
		})
	}
}

func TestFiltersEndWithTheContext(t *testing.T) {
	for claim, c := range costly() {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		m := meter.New(ctx, meter.EventLimit, nil)
		if holds(t, m, c[0], c[1]) || !errors.Is(m.Err(), context.Canceled) {
			t.Errorf("%s: got %v after %d steps, want the context's error", claim, m.Err(), m.Steps())
		}
	}
}

// Attack 4: 240 absent paths took 10 CPU seconds for a body of 26 MiB. All paths are looked up in one
// pass.
func TestAbsentPathsAreLookedUpTogether(t *testing.T) {
	for _, name := range []string{"absent%d", "list.%d.absent", `é%d`, "a.b*%d"} {
		var paths []string
		for i := range 400 {
			paths = append(paths, fmt.Sprintf(`{"body.`+name+`":1}`, i))
		}
		body := `{"list":["` + strings.Repeat("x", 4<<20) + `"],"a":{"b":1}}`
		m := meter.New(t.Context(), len(body), nil)
		if holds(t, m, `{"$or":[`+strings.Join(paths, ",")+`]}`, body) || m.Err() != nil {
			t.Errorf("%s: got %v after %d steps, want no match within %d", name, m.Err(), m.Steps(), len(body))
		}
	}
}

// A stopped filter does not hold, even if its condition is denied.
func TestAStoppedFilterDoesNotHold(t *testing.T) {
	m := meter.New(t.Context(), 10, nil)
	if holds(t, m, `{"$not":{"body.a":{"$regex":"(a|b)*c"}}}`, `{"a":"`+strings.Repeat("a", 1000)+`"}`) {
		t.Error("got a match, want none")
	}
}

func TestTypicalFiltersTakeFewSteps(t *testing.T) {
	body := `{"type":"charge.failed","data":{"object":{"amount":1999,"currency":"usd","email":"a@example.com"}}}`
	for _, c := range []struct {
		filter string
		limit  int
	}{
		{`{"body.data.object.amount":{"$gte":1000}}`, 100},
		{`{"body.type":["charge.failed","charge.refunded"]}`, 100},
		{`{"body.data.object.email":{"$regex":"@example\\.com$"},"body.data.object.currency":"usd"}`, 200},
	} {
		m := meter.New(t.Context(), c.limit, nil)
		if !holds(t, m, c.filter, body) {
			t.Errorf("%s: got %d steps, %v; want at most %d", c.filter, m.Steps(), m.Err(), c.limit)
		}
	}
}

// FuzzSteps checks the steps of filters.
func FuzzSteps(f *testing.F) {
	for _, c := range costly() {
		f.Add([]byte(c[0]), c[1])
	}
	f.Add([]byte(`{"body.a":{"$regex":"(a|b)*c"}}`), `{"a":"abab"}`)
	f.Fuzz(func(t *testing.T, text []byte, body string) {
		if _, faults := filter.Compile(text, &filter.Fields{}); len(faults) > 0 {
			return
		}
		m := meter.New(t.Context(), meter.EventLimit, nil)
		holds(t, m, string(text), body)
		if m.Steps() > meter.EventLimit+len(body) {
			t.Errorf("%q on %d bytes: got %d steps, want at most %d", text, len(body), m.Steps(), meter.EventLimit)
		}
		t.Logf("%d steps for each byte", m.Steps()/(len(body)+1))
	})
}

// BenchmarkSteps measures the duration of a step of each costly filter.
func BenchmarkSteps(b *testing.B) {
	for claim, c := range costly() {
		b.Run(claim, func(b *testing.B) {
			var fields filter.Fields
			f, _ := filter.Compile([]byte(c[0]), &fields)
			e := carrying(c[1])
			steps := 0
			for b.Loop() {
				m := meter.New(b.Context(), meter.EventLimit, nil)
				var s filter.Subject
				s.Begin(m, e, &fields)
				f.Holds(&s, nil)
				s.End()
				steps += m.Steps()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(steps), "ns/step")
		})
	}
}
