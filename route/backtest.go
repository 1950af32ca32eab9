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

// ReadEvents reads past events of a source, newest first. It begins with the newest event, or with
// the first event that is older than before if before is not zero. It examines at most limit
// events, fewer if the events are large. next is the id to continue from, zero at the end. If the
// payload of an event was deleted by retention, the event has nil headers.
type ReadEvents func(ctx context.Context, before eventhook.EventID, limit int) (events []*eventhook.Event, next eventhook.EventID, err error)

// BacktestOptions selects the past events of a backtest and limits its result.
type BacktestOptions struct {
	Tenant     eventhook.TenantID
	CPULimiter *cpushare.Limiter
	ReadEvents ReadEvents
	Last       int // maximum number of events to test
	Samples    int // maximum number of samples of each outcome
}

// Backtest is the result of testing a route with past events.
type Backtest struct {
	Matched, Unmatched Outcome
	Failed             Outcome // the event matched but an action would fail, or the filters could not be evaluated
	WithoutBody        int     // not tested: the payload is past its retention
	IsComplete         bool    // false if the time limit ended the backtest
	Newest, Oldest     time.Time
}

// Outcome counts the events with one result.
type Outcome struct {
	Events  int
	Samples []Sample       // the newest events
	Reasons map[string]int // how many events have each reason; see Explanation.General
}

// Sample is one event with the actions that the route would take. An input is omitted
// if it would exceed maxSampleBytes for all samples together.
type Sample struct {
	EventID   eventhook.EventID
	EventType string
	Reason    string
	Actions   []ExplainedTarget
}

// Reason is a reason why events did not match or failed, and the number of these events.
type Reason struct {
	Reason string
	Events int
}

// TopReasons returns at most limit reasons, the most frequent first.
func (o *Outcome) TopReasons(limit int) []Reason {
	list := []Reason{}
	for reason, events := range o.Reasons {
		list = append(list, Reason{reason, events})
	}
	slices.SortFunc(list, func(a, b Reason) int {
		return cmp.Or(cmp.Compare(b.Events, a.Events), cmp.Compare(a.Reason, b.Reason))
	})
	return list[:min(len(list), limit)]
}

// Limits of a backtest.
const (
	maxBacktestTime = 10 * time.Second
	backtestPage    = 200     // events read at once
	maxSampleBytes  = 4 << 20 // bytes of inputs in all samples
)

// backtestLimit limits the backtests and searches of this instance. A backtest evaluates without a pause, so all
// of them together get half of the processors.
var backtestLimit = newBacktestLimiter(max(1, runtime.GOMAXPROCS(0)/2))

// backtestLimiter allows one backtest per tenant and cap(slots) backtests in total.
type backtestLimiter struct {
	oneAtATime
	slots chan struct{}
}

func newBacktestLimiter(atOnce int) *backtestLimiter {
	return &backtestLimiter{newOneAtATime(), make(chan struct{}, atOnce)}
}

// RunBacktest reports which past events one route would have matched, and with which results. The
// route need not be stored
// or enabled, and no effect is stored. After 10 s RunBacktest returns the result so far. Scripts
// run as for Explain, and a backtest waits for a slot of its tenant in the same way. The errors are
// those of Explain and of ReadEvents.
func RunBacktest(ctx context.Context, r eventhook.Route, target func(eventhook.Target) (Effector, error), b BacktestOptions) (*Backtest, error) {
	r.IsEnabled = true
	t := &backtestRun{BacktestOptions: b, program: Compile(eventhook.RetryPolicy{}, []eventhook.Route{r}, target)}
	if err := backtestLimit.run(ctx, b.Tenant, t.run); err != nil {
		return nil, err
	}
	return &t.result, nil
}

// run calls do when a slot of the tenant and of the instance is free.
func (bs *backtestLimiter) run(ctx context.Context, tenant eventhook.TenantID, do func(context.Context) error) error {
	return bs.runFor(ctx, tenant, func(waiting context.Context) error {
		select {
		case bs.slots <- struct{}{}:
		case <-waiting.Done():
			return waiting.Err()
		}
		defer func() { <-bs.slots }()
		return do(ctx)
	})
}

// backtestRun is the state of one running backtestRun.
type backtestRun struct {
	BacktestOptions
	program     *Program
	result      Backtest
	sampleBytes int // bytes of inputs in the samples
}

// run returns nil when its time limit ends the backtest.
func (b *backtestRun) run(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, maxBacktestTime)
	defer cancel()
	err := b.readAll(bounded)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return nil
	}
	b.result.IsComplete = err == nil
	return err
}

func (b *backtestRun) readAll(ctx context.Context) error {
	var before eventhook.EventID
	for left := b.Last; left > 0; {
		events, next, err := b.ReadEvents(ctx, before, min(left, backtestPage))
		if err != nil {
			return err
		}
		for _, e := range events {
			if err := b.add(ctx, e); err != nil {
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

// add tests one event and counts the result. It counts nothing if ctx ends first.
func (b *backtestRun) add(ctx context.Context, e *eventhook.Event) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if e.Headers == nil {
		b.result.WithoutBody++
		return nil
	}
	list, err := b.program.Explain(ctx, b.CPULimiter, e, e.ID.Time())
	if err != nil {
		return err
	}
	x, outcome, why := list[0], &b.result.Matched, ""
	failing := slices.IndexFunc(x.Actions, func(a ExplainedTarget) bool { return a.Err != nil })
	switch {
	case !x.Matched:
		outcome, why = &b.result.Unmatched, x.General
	case failing >= 0:
		outcome, why = &b.result.Failed, x.Actions[failing].Err.Error()
	}
	b.result.Oldest = e.ID.Time()
	if b.result.Newest.IsZero() {
		b.result.Newest = b.result.Oldest
	}
	outcome.add(why)
	if len(outcome.Samples) < b.Samples {
		outcome.Samples = append(outcome.Samples, b.sample(e, x))
	}
	return nil
}

// maxReasons limits how many reasons are counted separately: a script can return a new reason for
// each event.
const maxReasons = 1000

func (o *Outcome) add(reason string) {
	const maxReasonBytes = 500
	o.Events++
	if reason = eventhook.TruncateWithEllipsis(reason, maxReasonBytes); reason == "" {
		return
	}
	if o.Reasons == nil {
		o.Reasons = map[string]int{}
	}
	if _, known := o.Reasons[reason]; known || len(o.Reasons) < maxReasons {
		o.Reasons[reason]++
	}
}

// sample copies the inputs, so that it does not keep the event's body in memory.
func (b *backtestRun) sample(e *eventhook.Event, x Explanation) Sample {
	s := Sample{EventID: e.ID, EventType: e.EventType, Reason: x.Reason}
	for _, a := range x.Actions {
		if len(a.Input) > maxSampleBytes-b.sampleBytes {
			a.Input, a.IsLeftOut = nil, true
		}
		b.sampleBytes += len(a.Input)
		a.Input = bytes.Clone(a.Input)
		s.Actions = append(s.Actions, a)
	}
	return s
}
