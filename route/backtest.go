package route

import (
	"bytes"
	"cmp"
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/cpushare"
)

// ReadEvents reads events that a source has received, newest first, from before an id
// on; zero is the newest. It looks at limit of them at most, or fewer when they
// are large, and returns where to go on, zero at the end. One without headers
// has lost its payload.
type ReadEvents func(ctx context.Context, before eventhook.EventID, limit int) (events []*eventhook.Event, next eventhook.EventID, err error)

// BacktestOptions says what to hold a route against.
type BacktestOptions struct {
	Tenant     eventhook.TenantID
	Shares     *cpushare.Limiter
	ReadEvents ReadEvents
	Last       int // events at most
	Samples    int // of each outcome at most
}

// Backtest is what a route would have made of past events.
type Backtest struct {
	Matched, Unmatched Outcome
	Failed             Outcome // matched, or nobody can tell, and some action would fail
	WithoutBody        int     // not tested: past their retention
	IsComplete         bool    // else time ran out
	Newest, Oldest     time.Time
}

// Outcome are the events of which one thing would have come.
type Outcome struct {
	Events  int
	Samples []Sample       // the newest
	Reasons map[string]int // for how many events, in words that leave out what each holds
}

// Sample is one event and what the route would do with it. Inputs are left out
// when all together have become too large.
type Sample struct {
	EventID   eventhook.EventID
	EventType string
	Reason    string
	Actions   []ExplainedTarget
}

// Reason is why a number of events did not match, or failed.
type Reason struct {
	Reason string
	Events int
}

// Frequent are the most frequent reasons, the first the most.
func (o *Outcome) Frequent(most int) []Reason {
	list := []Reason{}
	for reason, events := range o.Reasons {
		list = append(list, Reason{reason, events})
	}
	slices.SortFunc(list, func(a, b Reason) int {
		return cmp.Or(cmp.Compare(b.Events, a.Events), cmp.Compare(a.Reason, b.Reason))
	})
	return list[:min(len(list), most)]
}

// Bounds of a backtest.
const (
	mostBacktesting = 10 * time.Second
	backtestPage    = 200     // events read at once
	mostSampled     = 4 << 20 // bytes of inputs in samples
)

// backtesting are those under way. They think without a pause, so all together
// have half of the processors.
var backtesting = newBacktests(max(1, runtime.GOMAXPROCS(0)/2))

// backtests has each tenant make one at a time, and all together so many.
type backtests struct {
	tenants
	places chan struct{}
}

func newBacktests(atOnce int) *backtests {
	return &backtests{newTenants(), make(chan struct{}, atOnce)}
}

// RunBacktest tells what one route, which need not be stored nor be enabled,
// would have made of past events. It does nothing with them. After 10 s it ends
// with what it has come to. Scripts are run as Explain runs them, and a backtest
// has to wait for its turn as they have: the errors are Explain's and those of
// ReadEvents.
func RunBacktest(ctx context.Context, r eventhook.Route, target func(eventhook.Target) (Effector, error), b BacktestOptions) (*Backtest, error) {
	r.IsEnabled = true
	t := &backtest{BacktestOptions: b, program: Compile(eventhook.RetryPolicy{}, []eventhook.Route{r}, target)}
	if err := backtesting.run(ctx, t); err != nil {
		return nil, err
	}
	return &t.found, nil
}

func (bs *backtests) run(ctx context.Context, b *backtest) error {
	return bs.inTurn(ctx, b.Tenant, func(waiting context.Context) error {
		select {
		case bs.places <- struct{}{}:
		case <-waiting.Done():
			return waiting.Err()
		}
		defer func() { <-bs.places }()
		return b.run(ctx)
	})
}

// backtest is one under way.
type backtest struct {
	BacktestOptions
	program *Program
	found   Backtest
	sampled int // bytes of inputs
}

// run ends without an error when its time is over.
func (b *backtest) run(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, mostBacktesting)
	defer cancel()
	err := b.walk(bounded)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return nil
	}
	b.found.IsComplete = err == nil
	return err
}

func (b *backtest) walk(ctx context.Context) error {
	var before eventhook.EventID
	for left := b.Last; left > 0; {
		events, next, err := b.ReadEvents(ctx, before, min(left, backtestPage))
		if err != nil {
			return err
		}
		for _, e := range events {
			if err := b.test(ctx, e); err != nil {
				return err
			}
		}
		if left -= len(events); next.IsZero() {
			return nil
		}
		before = next
	}
	return nil
}

// test takes one event to the count, unless ctx ends before it is judged.
func (b *backtest) test(ctx context.Context, e *eventhook.Event) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if e.Headers == nil {
		b.found.WithoutBody++
		return nil
	}
	list, err := b.program.Explain(ctx, b.Shares, e, e.ID.Time())
	if err != nil {
		return err
	}
	x, outcome, why := list[0], &b.found.Matched, ""
	failing := slices.IndexFunc(x.Actions, func(a ExplainedTarget) bool { return a.Err != nil })
	switch {
	case !x.Matched:
		outcome, why = &b.found.Unmatched, x.General
	case failing >= 0:
		outcome, why = &b.found.Failed, x.Actions[failing].Err.Error()
	}
	b.found.Oldest = e.ID.Time()
	if b.found.Newest.IsZero() {
		b.found.Newest = b.found.Oldest
	}
	outcome.add(why)
	if len(outcome.Samples) < b.Samples {
		outcome.Samples = append(outcome.Samples, b.sample(e, x))
	}
	return nil
}

// mostReasons bounds how many are told apart: scripts can make up a new one for
// each event.
const mostReasons = 1000

func (o *Outcome) add(reason string) {
	const mostBytes = 500
	o.Events++
	if reason = eventhook.TruncateWithEllipsis(reason, mostBytes); reason == "" {
		return
	}
	if o.Reasons == nil {
		o.Reasons = map[string]int{}
	}
	if _, known := o.Reasons[reason]; known || len(o.Reasons) < mostReasons {
		o.Reasons[reason]++
	}
}

// sample keeps nothing of the event's body but copies of what it shows.
func (b *backtest) sample(e *eventhook.Event, x Explanation) Sample {
	s := Sample{EventID: e.ID, EventType: e.EventType, Reason: x.Reason}
	for _, a := range x.Actions {
		if len(a.Input) > mostSampled-b.sampled {
			a.Input, a.IsLeftOut = nil, true
		}
		b.sampled += len(a.Input)
		a.Input = bytes.Clone(a.Input)
		s.Actions = append(s.Actions, a)
	}
	return s
}
