package route_test

import (
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/route"
)

// slow is a route whose filter matches and takes 3 s of its source's time.
func slow() eventhook.Route {
	r := newRoute("slow", "", "takes 3 s")
	r.Filter = []byte(`{"body.id":7}`)
	return r
}

func TestASourceThatThinksForLongWaitsAndCostsNoOther(t *testing.T) {
	inBubble(t, func(c *route.Config) { c.Workers, c.BatchSize = 1, 10 }, func(t *testing.T, b *rig) {
		thinker := eventhook.SourceID{1}
		b.routing[thinker] = func() ([]eventhook.Route, error) { return []eventhook.Route{slow()}, nil }
		b.Reserve(6)
		var list []*eventhook.Event
		for i := range 6 {
			e := b.add("push", lease)
			if i < 3 {
				b.rows[e.ID].SourceID, e.SourceID = thinker, thinker
			}
			list = append(list, e)
		}
		b.Put(list)
		b.run()
		b.pass(4 * time.Second)
		b.wantStatuses(states{eventhook.EventDelivered: 4, eventhook.EventProcessing: 2})
		if !strings.Contains(b.log.String(), "used up their time") {
			t.Errorf("got the log %s, want it to tell", b.log.String())
		}
		b.pass(3 * lease)
		b.wantStatuses(states{eventhook.EventDelivered: 6})
	}, newRoute("r", "", "ok"))
}

func TestTheTimeOfASourceComesBack(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, _ *rig) {
		p := compile(slow())
		for i, want := range []bool{false, true} {
			if got := p.IsBusy(); got != want {
				t.Errorf("after %d events: got busy %t, want %t", i, got, want)
			}
			p.Settle(newEvent("push"), nil, noon)
		}
		time.Sleep(7 * time.Second) // of the 6 s, 1.5 came back during the second 3, and 3.5 now: 1 is left
		if p.IsBusy() {
			t.Error("7 s later: got busy, want that half of them count")
		}
	})
}

func TestScriptsOfAnEventThatTakesTooLongAreNotRun(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, _ *rig) {
		late := newRoute("late", "", "a")
		late.FilterFunction = "const filter = () => true"
		a := compile(slow(), late).Settle(newEvent("push"), nil, noon).Actions[1]
		if !strings.Contains(a.Failure, "took longer than 2s for this event") || a.Permanent {
			t.Errorf("got %q, permanent %t; want that it was not run, and is tried again", a.Failure, a.Permanent)
		}
	})
}

func TestRoutesWithoutFiltersAreNeverBusy(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, _ *rig) {
		p := compile(newRoute("r", "", "takes 3 s"))
		p.Settle(newEvent("push"), nil, noon)
		if p.IsBusy() {
			t.Error("got busy, want that only filters and transforms count")
		}
	})
}

func TestWhatIsPlannedIsSettledWhileItsLeaseHolds(t *testing.T) {
	inBubble(t, func(c *route.Config) { c.Workers, c.BatchSize = 1, 20 }, func(_ *testing.T, b *rig) {
		b.handOver(20)
		b.run()
		b.pass(10 * time.Second)
		b.wantStatuses(states{eventhook.EventDelivered: 3, eventhook.EventProcessing: 17})
		b.pass(20 * lease)
		b.wantStatuses(states{eventhook.EventDelivered: 20})
	}, newRoute("r", "", "takes 3 s"))
}
