package pg

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
)

// call is one that nobody makes here.
type call struct{}

func (call) Do(context.Context) error { return nil }
func (call) Timeout() time.Duration   { return time.Second }
func (call) Input() json.RawMessage   { return nil }

func calls() effects.PlannedAction {
	return effects.PlannedAction{Action: eventhook.Action{TargetType: "http"}, Effect: effects.Effect{Call: call{}}}
}

// hold settles an event with calls for the first time, until two leases later.
func (f *fixture) hold(s *effects.Settlement) {
	f.Helper()
	s.HoldUntil = f.clock.now().Add(2 * lease)
	f.settle(f.db, s)
	for i := range s.Actions {
		s.Actions[i].IsSettled = s.Actions[i].Status != eventhook.ActionPending
	}
}

func TestCallsAreMadeAfterTheRest(t *testing.T) {
	f := setUp(t)
	e := f.accepted(1)[0]
	s := f.plan(e, f.makes(eventhook.Task, "k"), calls(), resolves("p", "1"), f.publishes("a", "k", "1"), calls())
	f.hold(s)
	got := f.stored(e)
	same(t, "event while it is held", got.Status, eventhook.EventProcessing)
	same(t, "processed", got.ProcessedAt, (*time.Time)(nil))
	same(t, "due", one[time.Time](f, `SELECT due_at FROM eventhook.event WHERE id = $1`, [16]byte(e.ID)).UTC(), noon.Add(2*lease))
	same(t, "executions", f.count("execution", "true"), 1)
	for i, a := range f.actions(e) {
		want := eventhook.Action{Status: eventhook.ActionSuccess, Attempts: 1}
		if i == 1 || i == 4 {
			want = eventhook.Action{Status: eventhook.ActionPending}
		}
		same(t, "an action while it is held", eventhook.Action{Status: a.Status, Attempts: a.Attempts}, want)
		same(t, "has ended", a.CompletedAt != nil, want.Status != eventhook.ActionPending)
	}
	f.clock.advance(2*lease - time.Second)
	same(t, "claimed meanwhile", len(f.claimEvents(f.other, 1)), 0)

	s.Actions[1].IsCalled, s.Actions[4].IsCalled = true, true
	s.Actions[4].Failure = "answered 503"
	f.settle(f.db, s)
	got = f.stored(e)
	same(t, "event", got.Status, eventhook.EventFailed)
	same(t, "error", got.LastError, "answered 503")
	same(t, "processed then", got.ProcessedAt.UTC(), f.clock.now())
	same(t, "executions then", f.count("execution", "true"), 1)
	same(t, "promises", f.count("promise", "true"), 1)
	same(t, "published", f.count("event", "origin = 'route'"), 1)
	for i, a := range f.actions(e) {
		want := eventhook.Action{Status: eventhook.ActionSuccess, Attempts: 1}
		if i == 4 {
			want.Status, want.ErrorMessage = eventhook.ActionFailed, "answered 503"
		}
		same(t, "an action", eventhook.Action{Status: a.Status, Attempts: a.Attempts, ErrorMessage: a.ErrorMessage}, want)
	}
	f.clock.advance(10 * time.Second)
	e = f.claimEvents(f.other, 1)[0]
	done, err := f.db.DoneActions(t.Context(), []eventhook.EventID{e.ID})
	f.must(err)
	same(t, "done", len(done[e.ID]), 4)
	s.Event, s.Actions = e, s.Actions[4:]
	s.Actions[0].IsCalled, s.Actions[0].IsSettled, s.Actions[0].Failure = false, false, ""
	f.hold(s)
	held := f.stored(e)
	same(t, "the held retry's last error", held.LastError, "answered 503")
	same(t, "its action", f.actions(e)[4].Status, eventhook.ActionPending)
	same(t, "its attempts", f.actions(e)[4].Attempts, 1)
	s.Actions[0].IsCalled = true
	f.settle(f.db, s)
	same(t, "event in the end", f.stored(e).Status, eventhook.EventDelivered)
	same(t, "attempts in the end", f.actions(e)[4].Attempts, 2)
}

func TestWhatFailedBeforeTheCallsCounts(t *testing.T) {
	f := setUp(t)
	e := f.accepted(1)[0]
	s := f.plan(e, fails("no such path"), calls())
	f.hold(s)
	same(t, "event while it is held", f.stored(e).Status, eventhook.EventProcessing)
	s.Actions[1].IsCalled = true
	f.settle(f.db, s)
	same(t, "event", f.stored(e).Status, eventhook.EventFailed)
	same(t, "error", f.stored(e).LastError, "no such path")
	same(t, "its attempts", f.actions(e)[0].Attempts, 1)
}

func TestASettleThatHoldsCanBeRepeated(t *testing.T) {
	f := setUp(t)
	e := f.accepted(1)[0]
	s := f.plan(e, f.makes(eventhook.Task, "k"), f.makes(eventhook.Task, ""), calls(), f.publishes("a", "k", "1"), f.publishes("a", "", "1"))
	for range 2 { // as after a commit whose answer was lost
		s.HoldUntil = f.clock.now().Add(lease)
		f.settle(f.db, s)
	}
	same(t, "event", f.stored(e).Status, eventhook.EventProcessing)
	same(t, "executions", f.count("execution", "true"), 2)
	same(t, "published", f.count("event", "origin = 'route'"), 2)
	for i, a := range f.actions(e) {
		same(t, "an action's success", a.Status == eventhook.ActionSuccess, i != 2)
	}
}

func TestACallThatStillWaitsIsNotWrittenAgain(t *testing.T) {
	f := setUp(t)
	e := f.accepted(1)[0]
	s := f.plan(e, calls())
	version := func() string {
		return one[string](f, `SELECT ctid::text FROM eventhook.event_action WHERE event_id = $1`, [16]byte(e.ID))
	}
	f.hold(s)
	first := version()
	f.hold(s)
	same(t, "its row", version(), first)
	s.Actions[0].IsCalled, s.Actions[0].Failure = true, "answered 503"
	f.settle(f.db, s)
	same(t, "its state when it was called", f.actions(e)[0].Status, eventhook.ActionFailed)
}

func TestACrashBeforeTheCallsHasThemMadeByAnother(t *testing.T) {
	f := setUp(t)
	e := f.accepted(1)[0]
	s := f.plan(e, f.makes(eventhook.Task, ""), calls())
	f.hold(s)
	f.clock.advance(2 * lease)
	again := f.claimEvents(f.other, 1)[0]
	done, err := f.other.DoneActions(t.Context(), []eventhook.EventID{e.ID})
	f.must(err)
	same(t, "done", len(done[e.ID]), 1)

	s.Actions[1].IsCalled = true // the late one's
	lost, err := f.db.SettleEvents(t.Context(), []*effects.Settlement{s})
	f.must(err)
	same(t, "lost", len(lost), 1)
	same(t, "the action, of which a lost lease writes nothing", f.actions(e)[1].Status, eventhook.ActionPending)

	repeat := f.plan(again, f.makes(eventhook.Task, ""), calls())
	repeat.Actions, repeat.HoldUntil = repeat.Actions[1:], f.clock.now()
	f.settle(f.other, repeat)
	same(t, "given back", len(f.claimEvents(f.db, 1)), 1)
	same(t, "executions", f.count("execution", "true"), 1)
}

func TestAnEventThatIsRefusedMakesNoCalls(t *testing.T) {
	f := setUp(t)
	events := f.accepted(2)
	broken := f.makes(eventhook.Task, "", func(x *eventhook.Execution) { x.Input = []byte(`{"a":`) })
	refused, other := f.plan(events[0], broken, calls()), f.plan(events[1], calls())
	other.HoldUntil = f.clock.now().Add(lease)
	f.settle(f.db, refused, other)
	same(t, "event", f.stored(events[0]).Status, eventhook.EventDead)
	same(t, "its call", f.actions(events[0])[1].Status, eventhook.ActionFailed)
	same(t, "the other event", f.stored(events[1]).Status, eventhook.EventProcessing)
}

func TestAHoldWithoutAnEndIsTheLease(t *testing.T) {
	f := setUp(t)
	e := f.accepted(1)[0]
	f.settle(f.db, f.plan(e, calls()))
	f.clock.advance(lease)
	same(t, "claimed when it ended", len(f.claimEvents(f.other, 1)), 1)
}
