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
	inBubble(t, nil, func(_ *testing.T, b *rig) {
		b.run()
		b.handOver(1)
		b.pass(3 * time.Second)
		b.handOver(1)
		b.pass(2500 * time.Millisecond) // of the 3 s, 1.75 are left, and 2 are allowed
		b.wantStatuses(states{eventhook.EventDelivered: 1, eventhook.EventProcessing: 1})
		b.handOver(1)
		b.pass(3 * time.Second)
		b.wantStatuses(states{eventhook.EventDelivered: 2, eventhook.EventProcessing: 1})
	}, slow())
}

func TestChangingARouteGivesNoNewTime(t *testing.T) {
	inBubble(t, nil, func(_ *testing.T, b *rig) {
		b.run()
		b.handOver(1)
		b.pass(3 * time.Second)
		b.ForgetSource(eventhook.SourceID{})
		b.handOver(1)
		b.pass(4 * time.Second)
		b.wantStatuses(states{eventhook.EventDelivered: 1, eventhook.EventProcessing: 1})
	}, slow())
}

func TestScriptsOfAnEventThatTakesTooLongAreNotRun(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, _ *rig) {
		late := newRoute("late", "", "a")
		late.FilterFunction = "const filter = () => true"
		a := compile(slow(), late).Settle(nil, newEvent("push"), nil, noon).Actions[1]
		if !strings.Contains(a.Failure, "took longer than 2s for this event") || a.Permanent {
			t.Errorf("got %q, permanent %t; want that it was not run, and is tried again", a.Failure, a.Permanent)
		}
	})
}

func TestRoutesWithoutFiltersAreNeverBusy(t *testing.T) {
	inBubble(t, nil, func(_ *testing.T, b *rig) {
		b.run()
		for range 3 {
			b.handOver(1)
			b.pass(3 * time.Second)
		}
		b.wantStatuses(states{eventhook.EventDelivered: 3}) // only filters and transforms count
	}, newRoute("r", "", "takes 3 s"))
}

func TestWhatIsPlannedIsSettledWhileItsLeaseHolds(t *testing.T) {
	inBubble(t, func(c *route.Config) { c.Workers, c.BatchSize = 1, 20 }, func(_ *testing.T, b *rig) {
		b.handOver(20)
		b.run()
		b.pass(10 * time.Second)
		b.wantStatuses(states{eventhook.EventDelivered: 3, eventhook.EventProcessing: 17})
		b.pass(55 * time.Second) // the others follow one after the other, and no lease is waited for
		b.wantStatuses(states{eventhook.EventDelivered: 20})
	}, newRoute("r", "", "takes 3 s"))
}
