package route

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/cpushare"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/internal/payload"
)

// echo is a target whose effect has its input. It fails if the event has no id.
type echo struct{}

func (echo) Effect(_ *eventhook.Event, v *payload.View, _ time.Time) (effects.Effect, error) {
	id, err := payload.ParsePath("body.id")
	if err != nil {
		return effects.Effect{}, err
	}
	if _, ok := v.Text(id); !ok {
		return effects.Effect{}, errors.New("nothing at body.id")
	}
	return effects.Effect{Execution: &eventhook.Execution{Input: v.Render()}}, nil
}

func toEcho(eventhook.Target) (Effector, error) { return echo{}, nil }

var midnight = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// received returns past events with bodies, newest first and one second apart. An event of type
// "gone" has lost its payload.
func received(bodies ...string) []*eventhook.Event {
	events := make([]*eventhook.Event, len(bodies))
	for i, body := range bodies {
		events[i] = &eventhook.Event{ID: eventhook.NewID[eventhook.Event](midnight.Add(-time.Duration(i) * time.Second)), EventType: "push"}
		if body != "gone" {
			events[i].Payload = eventhook.Payload{Headers: []byte{}, Body: []byte(body)}
		}
	}
	return events
}

// past returns a ReadEvents that reads from a list.
func past(events []*eventhook.Event) ReadEvents {
	return func(ctx context.Context, before eventhook.EventID, limit int) (page []*eventhook.Event, next eventhook.EventID, err error) {
		for _, e := range events {
			if before.IsZero() || string(e.ID[:]) < string(before[:]) {
				if page = append(page, e); len(page) == limit {
					return page, e.ID, ctx.Err()
				}
			}
		}
		return page, next, ctx.Err()
	}
}

func proposed(filter string) eventhook.Route {
	return eventhook.Route{Name: "proposed", FilterEventTypes: []string{"push"}, Filter: []byte(filter), Targets: []eventhook.Target{{Type: "task"}}}
}

// summary is an Outcome with its samples as strings.
type summary struct {
	Events  int
	Samples []string
	Reasons []Reason
}

func summarize(o Outcome) summary {
	t := summary{Events: o.Events, Reasons: o.TopReasons(5)}
	for _, s := range o.Samples {
		text := s.Reason
		for _, a := range s.Actions {
			text += fmt.Sprintf(" | %s %s %v", a.Type, a.Input, a.Err)
		}
		t.Samples = append(t.Samples, text)
	}
	return t
}

func TestBacktest(t *testing.T) {
	events := received(`{"id":1,"amount":10}`, `{"id":2,"amount":2000}`, "gone", `{"amount":3000}`, `{"id":4,"amount":20}`, `{"id":5}`, `{"id":6,"amount":4000}`)
	got, err := RunBacktest(t.Context(), proposed(`{"body.amount":{"$gte":1000}}`), toEcho, BacktestOptions{CPULimiter: newLimiter(), ReadEvents: past(events), Last: 100, Samples: 2})
	if err != nil {
		t.Fatal(err)
	}
	const matches = `event type "push" matches "push", and its filters hold`
	for _, c := range []struct {
		outcome string
		got     Outcome
		want    summary
	}{
		{"matched", got.Matched, summary{2, []string{matches + ` | task {"id":2,"amount":2000} <nil>`, matches + ` | task {"id":6,"amount":4000} <nil>`}, []Reason{}}},
		{"failed", got.Failed, summary{1, []string{matches + ` | task  target 1: nothing at body.id`}, []Reason{{"target 1: nothing at body.id", 1}}}},
		{"unmatched", got.Unmatched, summary{3, []string{"body.amount is 10, wanted $gte 1000", "body.amount is 20, wanted $gte 1000"},
			[]Reason{{"body.amount is …, wanted $gte 1000", 2}, {"body.amount is missing, wanted $gte 1000", 1}}}},
	} {
		if diff := cmp.Diff(c.want, summarize(c.got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.outcome, diff)
		}
	}
	if got.WithoutBody != 1 || !got.IsComplete || !got.Newest.Equal(midnight) || !got.Oldest.Equal(midnight.Add(-6*time.Second)) {
		t.Errorf("got %d without a body, complete %t, from %s to %s; want 1, true, and all events", got.WithoutBody, got.IsComplete, got.Oldest, got.Newest)
	}
}

func TestABacktestReadsTheNewestEvents(t *testing.T) {
	events := received(strings.Split(strings.Repeat(`{"id":1} `, 2*backtestPage+10), " ")[:2*backtestPage+10]...)
	for _, c := range []struct{ last, want int }{{1, 1}, {backtestPage, backtestPage}, {backtestPage + 1, backtestPage + 1}, {10_000, len(events)}} {
		got, err := RunBacktest(t.Context(), proposed(""), toEcho, BacktestOptions{CPULimiter: newLimiter(), ReadEvents: past(events), Last: c.last})
		if err != nil {
			t.Fatal(err)
		}
		if got.Matched.Events != c.want || !got.IsComplete || got.Matched.Samples != nil {
			t.Errorf("the last %d: got %d matched, complete %t, %d samples; want %d, true, none", c.last, got.Matched.Events, got.IsComplete, len(got.Matched.Samples), c.want)
		}
	}
}

func TestReasonsOmitValuesOfEvents(t *testing.T) {
	for _, c := range []struct{ filter, body, want string }{
		{`{"body.a":1}`, `{"a":"secret"}`, "body.a is …, wanted 1"},
		{`{"$or":[{"body.a":1},{"body.b":{"$exists":true}}]}`, `{"a":2}`, "none of $or: body.a is …, wanted 1; body.b is missing, wanted $exists true"},
		{`{"$not":{"body.a":1}}`, `{"a":1}`, `$not: {"body.a":1} holds`},
	} {
		got, err := RunBacktest(t.Context(), proposed(c.filter), toEcho, BacktestOptions{CPULimiter: newLimiter(), ReadEvents: past(received(c.body)), Last: 1})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]Reason{{c.want, 1}}, got.Unmatched.TopReasons(5)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.filter, diff)
		}
	}
}

func TestSamplesAreBounded(t *testing.T) {
	large := `{"id":1,"s":"` + strings.Repeat("x", maxSampleBytes/2) + `"}`
	got, err := RunBacktest(t.Context(), proposed(""), toEcho, BacktestOptions{CPULimiter: newLimiter(), ReadEvents: past(received(large, large, `{"id":3}`)), Last: 3, Samples: 20})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{false, true, false} {
		if a := got.Matched.Samples[i].Actions[0]; a.IsLeftOut != want || (a.Input == nil) != want {
			t.Errorf("sample %d: got the input left out: %t, of %d bytes; want %t", i+1, a.IsLeftOut, len(a.Input), want)
		}
	}
}

// endless is a ReadEvents without an end. Each event takes a second.
func endless(ctx context.Context, _ eventhook.EventID, _ int) ([]*eventhook.Event, eventhook.EventID, error) {
	select {
	case <-time.After(time.Second):
		e := received(`{"id":1}`)
		return e, e[0].ID, nil
	case <-ctx.Done():
		return nil, eventhook.EventID{}, ctx.Err()
	}
}

func newBacktest(tenant eventhook.TenantID, p ReadEvents) *backtestRun {
	r := proposed("")
	r.IsEnabled = true
	return &backtestRun{BacktestOptions: BacktestOptions{CPULimiter: newLimiter(), Tenant: tenant, ReadEvents: p, Last: 10_000}, program: Compile(eventhook.RetryPolicy{}, []eventhook.Route{r}, toEcho)}
}

func TestABacktestEndsAtItsTimeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, began := newBacktest(mine, endless), time.Now()
		if err := newBacktestLimiter(1).run(t.Context(), b.Tenant, b.run); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != maxBacktestTime || b.result.IsComplete || b.result.Matched.Events == 0 {
			t.Errorf("took %s, complete %t, %d matched; want %s, false, some", took, b.result.IsComplete, b.result.Matched.Events, maxBacktestTime)
		}
	})
}

func TestABacktestEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		err := newBacktestLimiter(1).run(ctx, mine, newBacktest(mine, endless).run)
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != 3*time.Second {
			t.Errorf("got %v after %s, want context.DeadlineExceeded after 3s", err, took)
		}
	})
}

func TestBacktestsWaitForEachOther(t *testing.T) {
	for _, c := range []struct {
		claim  string
		second eventhook.TenantID
		slots  int
		want   error
	}{
		{"of the same tenant", mine, 2, errTestsBusy},
		{"of another tenant, without a free slot", theirs, 1, errTestsBusy},
		{"of another tenant, with a free slot", theirs, 2, nil},
	} {
		t.Run(c.claim, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := newBacktestLimiter(c.slots)
				var first sync.WaitGroup
				first.Go(func() {
					if err := all.run(t.Context(), mine, newBacktest(mine, endless).run); err != nil {
						t.Errorf("the first: got %v, want none", err)
					}
				})
				synctest.Wait()
				if err := all.run(t.Context(), c.second, newBacktest(c.second, past(received(`{}`))).run); !errors.Is(err, c.want) {
					t.Errorf("got %v, want %v", err, c.want)
				}
				first.Wait()
				if err := all.run(t.Context(), c.second, newBacktest(c.second, past(received(`{}`))).run); err != nil {
					t.Errorf("after the first: got %v, want none", err)
				}
			})
		})
	}
}

func TestABacktestReturnsTheErrorOfReadEvents(t *testing.T) {
	broken := errors.New("the database is gone")
	_, err := RunBacktest(t.Context(), proposed(""), toEcho, BacktestOptions{CPULimiter: newLimiter(), Last: 1, ReadEvents: func(context.Context, eventhook.EventID, int) ([]*eventhook.Event, eventhook.EventID, error) {
		return nil, eventhook.EventID{}, broken
	}})
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}

// A script that never ends takes its time limit for each event and counts as failed.
func TestABacktestWithScriptsThatHang(t *testing.T) {
	r := proposed("")
	r.FilterFunction = "function filter() { while (true) {} }"
	got, err := RunBacktest(t.Context(), r, toEcho, BacktestOptions{CPULimiter: newLimiter(), ReadEvents: past(received(`{"id":1}`, `{"id":2}`)), Last: 2, Samples: 1})
	if err != nil {
		t.Fatal(err)
	}
	const why = "filter_function: the script was stopped: it ran longer than 1s"
	if diff := cmp.Diff([]Reason{{why, 2}}, got.Failed.TopReasons(5)); diff != "" || got.Failed.Events != 2 || got.Failed.Samples[0].Reason != UndecidedPrefix+why {
		t.Errorf("got %+v, want two events that failed with %s", got.Failed, why)
	}
}

func newLimiter() *cpushare.Limiter { return cpushare.New(cpushare.DefaultConfig(), nil, time.Now) }
