package route_test

import (
	"encoding/json"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/script"
	"github.com/eventhook/eventhook/route"
)

// scripted returns a route with a filter_function that takes the given time; see fakeScripts.
func scripted(takes string) eventhook.Route {
	r := newRoute("scripted", "", "ok")
	r.FilterFunction = takes
	return r
}

// fakeScripts replaces scripts by sleeps of the duration in their source. It returns a counter of runs.
func fakeScripts(b *harness) (runs *atomic.Int64) {
	runs = &atomic.Int64{}
	b.RunScriptsWith(func(p script.Program, _ []byte) (json.RawMessage, error) {
		runs.Add(1)
		d, err := time.ParseDuration(p.Source)
		time.Sleep(d)
		return json.RawMessage("true"), err
	})
	return runs
}

// handOverOf accepts n events of a tenant's source.
func (b *harness) handOverOf(n int, tenant, source byte, r eventhook.Route) {
	b.t.Helper()
	id := eventhook.SourceID{source}
	b.set(func(*queue) { b.routing[id] = func() ([]eventhook.Route, error) { return []eventhook.Route{r}, nil } })
	if got := b.Reserve(n); got != n {
		b.t.Fatalf("Reserve(%d): got %d, want all", n, got)
	}
	var list []*eventhook.Event
	for range n {
		e := b.add("push", lease)
		e.TenantID, e.SourceID = eventhook.TenantID{tenant}, id
		b.set(func(q *queue) { q.rows[e.ID].TenantID, q.rows[e.ID].SourceID = e.TenantID, id })
		list = append(list, e)
	}
	b.Put(list)
}

// delivered counts a tenant's delivered events.
func (b *harness) delivered(tenant byte) (n int) {
	b.set(func(q *queue) {
		for _, r := range q.rows {
			if r.TenantID == (eventhook.TenantID{tenant}) && r.Status == eventhook.EventDelivered {
				n++
			}
		}
	})
	return n
}

// Tenants: one with slow events, one without scripts, and one with quick scripts.
const slowTenant, plainTenant, quickTenant = 1, 2, 3

func largeQueue(c *route.Config) {
	c.Workers, c.BatchSize, c.InboxEvents, c.CachedSources = 1, 50, 2000, 100
}

func TestScriptsDelayNoOtherTenant(t *testing.T) {
	for _, sources := range []int{1, 4, 12} {
		inBubble(t, largeQueue, func(t *testing.T, b *harness) {
			fakeScripts(b)
			for i := range sources {
				b.handOverOf(240/sources, slowTenant, byte(100+i), scripted("90ms"))
			}
			b.handOverOf(1, plainTenant, 1, newRoute("plain", "", "ok"))
			b.run()
			for n := 1; n <= 20; n++ {
				synctest.Wait()
				if got := b.delivered(plainTenant); got != n {
					t.Errorf("%d sources: got %d events without scripts delivered, want %d at once", sources, got, n)
					return
				}
				b.handOverOf(1, quickTenant, 2, scripted("1ms"))
				b.pass(500 * time.Millisecond)
				if got := b.delivered(quickTenant); got != n {
					t.Errorf("%d sources: got %d events with short scripts delivered, want %d soon", sources, got, n)
					return
				}
				b.handOverOf(1, plainTenant, 1, newRoute("plain", "", "ok"))
			}
			b.pass(40 * lease)
			if got := b.delivered(slowTenant); got != 240 {
				t.Errorf("%d sources: got %d events with long scripts delivered in the end, want 240", sources, got)
			}
		})
	}
}

func TestManySourcesDoNotIncreaseTheShare(t *testing.T) {
	inBubble(t, func(c *route.Config) { largeQueue(c); c.Workers = 4 }, func(t *testing.T, b *harness) {
		runs := fakeScripts(b)
		for i := range 12 {
			b.handOverOf(60, slowTenant, byte(100+i), scripted("100ms"))
		}
		b.run()
		b.pass(10 * time.Second)
		// The burst of 4 s, as much as the time passed, and the runs that four workers have started.
		if got, most := int(runs.Load()), 10*(4+10)+4; got > most {
			t.Errorf("got %d runs of 100 ms in 10 s, want at most %d", got, most)
		}
	})
}

func TestATenantsScriptsRunOneAtATime(t *testing.T) {
	inBubble(t, func(c *route.Config) { largeQueue(c); c.Workers = 4 }, func(t *testing.T, b *harness) {
		fakeScripts(b)
		b.run()
		b.handOverOf(10, slowTenant, 1, scripted("50ms"))
		b.handOverOf(10, quickTenant, 2, scripted("50ms"))
		b.pass(499 * time.Millisecond)
		if got := b.delivered(slowTenant) + b.delivered(quickTenant); got == 20 {
			t.Errorf("got all events delivered within 499 ms, want each tenant to take 500 ms")
		}
		b.pass(100 * time.Millisecond)
		if got := b.delivered(slowTenant) + b.delivered(quickTenant); got != 20 {
			t.Errorf("got %d events delivered within 600 ms, want all 20: tenants do not wait for each other", got)
		}
	})
}

func TestATenantGetsAQuarterOfTheSlowQueue(t *testing.T) {
	inBubble(t, func(c *route.Config) { largeQueue(c); c.InboxEvents = 80 }, func(t *testing.T, b *harness) {
		fakeScripts(b)
		b.run()
		b.handOverOf(60, slowTenant, 100, scripted("200ms"))
		synctest.Wait()
		b.handOverOf(8, quickTenant, 2, scripted("1ms"))
		b.pass(3 * time.Second)
		if got := b.delivered(quickTenant); got != 8 {
			t.Errorf("got %d events of another tenant delivered, want 8", got)
		}
		b.pass(20 * time.Second)
		if got, most := b.delivered(slowTenant), 10+10+1; got > most { // 80/2/4 in the queue, as many taken by the worker, and one delivered at once
			t.Errorf("got %d events of the large tenant delivered within the first lease, want at most %d", got, most)
		}
		b.pass(40 * lease)
		if got := b.delivered(slowTenant); got != 60 {
			t.Errorf("got %d events of the large tenant delivered in the end, want 60", got)
		}
	})
}

func TestAStopReleasesSlowEvents(t *testing.T) {
	inBubble(t, largeQueue, func(t *testing.T, b *harness) {
		fakeScripts(b)
		for i := range 20 {
			b.handOverOf(1, byte(i+1), byte(i+1), scripted("1s"))
		}
		b.run()
		began := time.Now()
		b.stop()
		if got, most := time.Since(began), 7*time.Second; got > most {
			t.Errorf("took %s, want at most %s: the drain timeout and the running scripts", got, most)
		}
		got := b.statuses()
		if got[eventhook.EventDelivered] < 4 || got[eventhook.EventDelivered]+got[eventhook.EventPending] != 20 {
			t.Errorf("got %v, want at least 4 delivered and the others released", got)
		}
	})
}

func TestAStopProcessesSlowEventsWithinTheDrainTimeout(t *testing.T) {
	inBubble(t, largeQueue, func(_ *testing.T, b *harness) {
		fakeScripts(b)
		b.handOverOf(4, slowTenant, 1, scripted("300ms"))
		b.run()
		b.stop()
		b.wantStatuses(states{eventhook.EventDelivered: 4})
	})
}
