package route_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/internal/payload"
	"github.com/eventhook/eventhook/route"
)

// places are what calls go to: a target whose kind is there is called, and does
// what it says. Each call must be covered by its event's lease.
type places struct {
	*rig
	at map[string]func(ctx context.Context) error

	mu          sync.Mutex
	made        map[string]int // calls by place
	under, most map[string]int // under way, now and at most; "" is all
}

func (b *rig) places(at map[string]func(context.Context) error) *places {
	p := &places{rig: b, at: at, made: map[string]int{}, under: map[string]int{}, most: map[string]int{}}
	b.compile = func(t eventhook.Target) (route.Effector, error) {
		kind := kindOf(t)
		if at[kind] == nil {
			return compileTarget(t)
		}
		return place{p, kind}, nil
	}
	return p
}

type place struct {
	*places
	name string
}

func (p place) Effect(e *eventhook.Event, _ *payload.View, _ time.Time) (effects.Effect, error) {
	return effects.Effect{Call: &callOf{p, e.ID}}, nil
}

type callOf struct {
	place
	event eventhook.EventID
}

const callTime = 10 * time.Second

func (c *callOf) Timeout() time.Duration { return callTime }
func (c *callOf) Input() json.RawMessage { return json.RawMessage(`"` + c.name + `"`) }

func (c *callOf) Do(ctx context.Context) error {
	c.set(func(q *queue) {
		r := q.rows[c.event]
		if r.Status != eventhook.EventProcessing || r.due.Before(time.Now().Add(callTime)) {
			c.t.Errorf("%s is called with the event %s and leased for %s, want it leased for the call", c.name, r.Status, time.Until(r.due))
		}
	})
	c.count(1)
	defer c.count(-1)
	return c.at[c.name](ctx)
}

func (c *callOf) count(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made[c.name] += max(n, 0)
	for _, name := range []string{"", c.name} {
		c.under[name] += n
		c.most[name] = max(c.most[name], c.under[name])
	}
}

func (p *places) wantMade(want map[string]int) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if diff := cmp.Diff(want, p.made); diff != "" {
		p.t.Errorf("calls made (-want +got):\n%s", diff)
	}
}

// look reads what calls have done, while they are made.
func (p *places) look(name string) (made, under, most int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.made[name], p.under[name], p.most[name]
}

// first is the row of the event that was added first.
func (b *rig) first() (r row) {
	b.set(func(q *queue) { r = *q.rows[q.order[0]] })
	return r
}

// told is how many events were told to be settled, and how many calls to have
// succeeded.
func (b *rig) told() (settled, succeeded int) {
	b.set(func(*queue) { settled, succeeded = b.settled, b.called[route.CallSucceeded] })
	return settled, succeeded
}

// settleCount is how many settles have begun.
func (b *rig) settleCount() (n int) {
	b.set(func(q *queue) { n = len(q.settles) })
	return n
}

// answers succeeds after some time.
func answers(after time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-time.After(after):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// hangs never answers.
func hangs(ctx context.Context) error { <-ctx.Done(); return errors.New("no answer in time") }

// doneOf are the targets that the first event's row says are done, as they were
// written.
func (b *rig) doneOf(n int) (targets []int) {
	b.set(func(q *queue) {
		for _, a := range q.rows[q.order[n]].done {
			targets = append(targets, a.TargetIndex)
		}
	})
	return targets
}

func TestOwnEffectsDoNotWaitForCalls(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *rig) {
		p := b.places(map[string]func(context.Context) error{"slow": answers(8 * time.Second)})
		b.run()
		b.handOver(3)
		synctest.Wait()
		b.wantStatuses(states{eventhook.EventProcessing: 3})
		for i := range 3 {
			if got := b.doneOf(i); !slices.Equal(got, []int{0, 2}) {
				t.Errorf("done at once: got %v, want what needs no call", got)
			}
		}
		if settled, _ := b.told(); settled != 0 {
			t.Errorf("told to be settled before the calls: got %d, want 0", settled)
		}
		b.pass(8 * time.Second)
		b.wantStatuses(states{eventhook.EventDelivered: 3})
		p.wantMade(map[string]int{"slow": 3})
		settled, succeeded := b.told()
		if got := b.doneOf(0); !slices.Equal(got, []int{0, 2, 1}) || settled != 3 || succeeded != 3 {
			t.Errorf("got %v done, %d settled, %d calls that succeeded; want each once", got, settled, succeeded)
		}
	}, newRoute("r", "", "ok", "slow", "ok"))
}

func TestARetryMakesOnlyTheCallsThatFailed(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *rig) {
		tries := 0
		p := b.places(map[string]func(context.Context) error{
			"good": answers(time.Second),
			"flaky": func(context.Context) error {
				if tries++; tries < 3 {
					return errors.New("answered 500 Internal Server Error")
				}
				return nil
			},
		})
		b.run()
		b.handOver(1)
		b.pass(2 * time.Second)
		b.wantStatuses(states{eventhook.EventFailed: 1})
		if got, want := b.first().LastError, "target 3: answered 500 Internal Server Error"; got != want {
			t.Errorf("got the error %q, want %q", got, want)
		}
		b.pass(time.Minute)
		b.wantStatuses(states{eventhook.EventDelivered: 1})
		p.wantMade(map[string]int{"good": 1, "flaky": 3})
		if got := b.doneOf(0); !slices.Equal(got, []int{0, 1, 2}) {
			t.Errorf("done: got %v, want each once", got)
		}
	}, newRoute("r", "", "ok", "good", "flaky"))
}

func TestWhatACallErrorSaysIsDone(t *testing.T) {
	for _, c := range []struct {
		claim  string
		err    error
		status eventhook.EventStatus
		retry  time.Duration
		text   string
	}{
		{"a failure is tried again", errors.New("no"), eventhook.EventFailed, 10 * time.Second, "target 1: no"},
		{"later, if the other side says so", &effects.CallError{Message: "busy", After: time.Minute}, eventhook.EventFailed, time.Minute, "target 1: busy"},
		{"not at all if that cannot help", &effects.CallError{Message: "gone", Permanent: true}, eventhook.EventDead, 0, "target 1: gone"},
		{"a long text is cut", errors.New(strings.Repeat("x", 5000)), eventhook.EventFailed, 10 * time.Second, eventhook.Cut("target 1: "+strings.Repeat("x", 5000), 1000)},
	} {
		t.Run(c.claim, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, b *rig) {
				b.places(map[string]func(context.Context) error{"x": func(context.Context) error { return c.err }})
				b.run()
				b.handOver(1)
				synctest.Wait()
				r := b.first()
				if r.Status != c.status || r.LastError != c.text {
					t.Errorf("got %s, %.60q; want %s, %.60q", r.Status, r.LastError, c.status, c.text)
				}
				if got := time.Until(r.due); c.retry > 0 && got != c.retry {
					t.Errorf("the retry: got in %s, want in %s", got, c.retry)
				}
			}, newRoute("r", "", "x"))
		})
	}
}

func TestACallThatPanicsFailsItsActionAlone(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *rig) {
		b.places(map[string]func(context.Context) error{"bad": func(context.Context) error { panic("secret") }, "good": answers(time.Second)})
		b.run()
		b.handOver(1)
		b.pass(time.Second)
		r := b.first()
		if r.Status != eventhook.EventDead || !strings.Contains(r.LastError, "unexpectedly") || strings.Contains(r.LastError, "secret") {
			t.Errorf("got %s, %q; want dead with a bland error", r.Status, r.LastError)
		}
		if got := b.doneOf(0); !slices.Equal(got, []int{1}) {
			t.Errorf("done: got %v, want the other call", got)
		}
		if log := b.log.String(); !strings.Contains(log, r.ID.String()) || strings.Contains(log, "secret") {
			t.Errorf("got the log %s, want it to name the event, and not the reason", log)
		}
	}, newRoute("r", "", "bad", "good"))
}

func TestALeaseThatIsLostDuringACallWritesNothing(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *rig) {
		b.places(map[string]func(context.Context) error{"slow": answers(5 * time.Second)})
		b.run()
		b.handOver(1)
		synctest.Wait()
		b.set(func(q *queue) { q.rows[q.order[0]].Lease.Token++ }) // as when another has claimed it
		b.pass(5 * time.Second)
		b.wantStatuses(states{eventhook.EventProcessing: 1})
		settled, _ := b.told()
		if got := b.doneOf(0); len(got) != 1 || settled != 0 {
			t.Errorf("done: got %v, and %d settled; want what was done before", got, settled)
		}
		if !strings.Contains(b.log.String(), b.first().ID.String()) {
			t.Errorf("got the log %s, want it to tell", b.log.String())
		}
	}, newRoute("r", "", "ok", "slow"))
}

func TestOutcomesAreSettledTogether(t *testing.T) {
	inBubble(t, func(c *route.Config) { c.BatchSize, c.InboxEvents, c.CallsAtOnce = 50, 2000, 400 }, func(t *testing.T, b *rig) {
		b.places(map[string]func(context.Context) error{"slow": answers(5 * time.Second)})
		b.run()
		b.handOver(40)
		synctest.Wait()
		before, gate := b.settleCount(), make(chan struct{})
		b.set(func(q *queue) { q.gate = gate })
		b.pass(5 * time.Second)
		close(gate)
		synctest.Wait()
		b.wantStatuses(states{eventhook.EventDelivered: 40})
		if got, want := b.settleCount()-before, 2; got > want {
			t.Errorf("got %d settles of 40 events, want %d: the first, and those that were ready meanwhile", got, want)
		}
	}, newRoute("r", "", "slow"))
}

// An event that has waited long is leased longer before its calls are made.
func TestTheLeaseIsMadeToLastForTheCalls(t *testing.T) {
	inBubble(t, nil, func(_ *testing.T, b *rig) {
		p := b.places(map[string]func(context.Context) error{"slow": answers(9 * time.Second)})
		b.run()
		b.Reserve(1)
		b.Put([]*eventhook.Event{b.add("push", time.Second)})
		b.pass(9 * time.Second)
		b.wantStatuses(states{eventhook.EventDelivered: 1})
		p.wantMade(map[string]int{"slow": 1})
	}, newRoute("r", "", "slow"))
}
