package route

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
)

type noCall struct{ effects.Call }

// enter admits an event and puts it.
func (l *callLane) enter(s *effects.Settlement) bool {
	admitted := l.admit(s)
	l.put(s)
	return admitted
}

// withCalls is a settled event of a tenant with a body of some bytes and a call
// of each route.
func withCalls(tenant byte, bytes int, routes ...byte) *effects.Settlement {
	s := &effects.Settlement{Event: sized(bytes)[0]}
	s.Event.TenantID = eventhook.TenantID{tenant}
	for _, r := range routes {
		a := effects.PlannedAction{Action: eventhook.Action{RouteID: eventhook.RouteID{r}}, Effect: effects.Effect{Call: noCall{}}, CallBytes: bytes}
		s.Actions = append(s.Actions, a)
	}
	return s
}

func TestTheCallLaneHasRoom(t *testing.T) {
	for _, c := range []struct {
		claim         string
		events, bytes int
		put           func(i int) *effects.Settlement
		want          int
	}{
		{"for all events", 80, 1 << 30, func(i int) *effects.Settlement { return withCalls(byte(i), 1, byte(i)) }, 80},
		{"for their bytes and those of their calls", 1000, 900, func(i int) *effects.Settlement { return withCalls(byte(i), 10, 1, 2) }, 30},
		{"for a quarter of one tenant", 80, 1 << 30, func(i int) *effects.Settlement { return withCalls(1, 1, byte(i%4)) }, 20},
		{"for half of one tenant with many routes", 80, 1 << 30, func(i int) *effects.Settlement { return withCalls(1, 1, byte(i)) }, 40},
		{"for a quarter of one tenant's bytes", 1000, 1600, func(i int) *effects.Settlement { return withCalls(1, 10, byte(i%4)) }, 20},
		{"for an eighth of one route", 80, 1 << 30, func(int) *effects.Settlement { return withCalls(1, 1, 1) }, 10},
	} {
		t.Run(c.claim, func(t *testing.T) {
			l := newCallLane(c.events, c.bytes, 1)
			put := 0
			for i := range 200 {
				if l.enter(c.put(i)) {
					put++
				}
			}
			if put != c.want {
				t.Errorf("got %d events in, want %d", put, c.want)
			}
			for held, ok := l.take(); ok; held, ok = l.take() {
				l.end(held, time.Unix(0, 0))
			}
			ended := l.takeEnded(1000)
			if got := len(ended); got != put {
				t.Errorf("got %d events that have ended, want %d", got, put)
			}
			l.release(ended)
			if l.all != (amount{}) || l.running != 0 || len(l.tenants) != 0 {
				t.Errorf("got %+v, %d under way, %d tenants at the end; want nothing", l.all, l.running, len(l.tenants))
			}
		})
	}
}

func TestAnEventHasItsRoomUntilItIsSettled(t *testing.T) {
	l := newCallLane(1, 1<<30, 1)
	l.enter(withCalls(1, 1, 1))
	c, _ := l.take()
	l.end(c, time.Unix(0, 0))
	batch := l.takeEnded(1)
	if l.enter(withCalls(2, 1, 1)) {
		t.Error("got room for another event, want none")
	}
	l.release(batch)
	if !l.enter(withCalls(2, 1, 1)) {
		t.Error("got no room after it was settled, want some")
	}
}

func TestTenantsAndTheirRoutesTakeTurns(t *testing.T) {
	l := newCallLane(1000, 1<<30, 1000)
	for range 3 {
		l.enter(withCalls(1, 1, 1))
	}
	l.enter(withCalls(1, 1, 2, 3))
	l.enter(withCalls(2, 1, 1))
	l.enter(withCalls(2, 1, 1))
	var got []string
	for c, ok := l.take(); ok; c, ok = l.take() {
		got = append(got, fmt.Sprintf("%d/%d", c.of.Event.TenantID[0], c.action.RouteID[0]))
	}
	if want := []string{"1/1", "2/1", "1/2", "2/1", "1/3", "1/1", "1/1"}; !slices.Equal(got, want) {
		t.Errorf("got the order %v, want %v", got, want)
	}
}

func TestARouteWithoutCallsUnderWayHasOneBeyondItsTenantsShare(t *testing.T) {
	for _, c := range []struct {
		claim         string
		slow, foreign int // calls under way of the tenant's slow route, and of others
		want          bool
	}{
		{"when others have taken what was free", 9, 30, true},
		{"not the last quarter of all", 9, 40, false},
	} {
		t.Run(c.claim, func(t *testing.T) {
			l := newCallLane(1000, 1<<30, 64)
			take := func(tenant byte, n int) {
				for range n {
					l.enter(withCalls(tenant, 1, 1))
					if _, ok := l.take(); !ok {
						t.Fatalf("tenant %d has no turn", tenant)
					}
				}
			}
			take(1, c.slow)
			for i := range c.foreign {
				take(byte(2+i), 1)
			}
			l.enter(withCalls(1, 1, 1))
			if _, ok := l.take(); ok {
				t.Fatal("the slow route has another one, want none")
			}
			l.enter(withCalls(1, 1, 2))
			if _, ok := l.take(); ok != c.want {
				t.Errorf("the tenant's other route: got its turn: %v, want %v", ok, c.want)
			}
		})
	}
}

func TestAnEventEndsWithTheLastOfItsCalls(t *testing.T) {
	l := newCallLane(10, 1<<30, 10)
	l.enter(withCalls(1, 1, 1, 2, 3))
	first, _ := l.take()
	second, _ := l.take()
	l.end(first, time.Unix(0, 0))
	l.end(second, time.Unix(0, 0))
	if got := len(l.takeEnded(10)); got != 0 {
		t.Errorf("got %d ended while a call waits, want none", got)
	}
	l.drop()
	if got := len(l.takeEnded(10)); got != 1 || l.isWaiting() {
		t.Errorf("got %d ended after the last was dropped, want 1", got)
	}
}
