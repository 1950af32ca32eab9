package route_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/cpushare"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/internal/meter"
	"github.com/eventhook/eventhook/route"
)

// costly returns a route whose filter would take seconds for costlyBody without a limit.
func costly(name string) eventhook.Route {
	r := newRoute(name, "", "ok")
	r.Filter = []byte(`{"$or":[` + strings.Repeat(`{"body.t":{"$regex":"\\pL{0,400}!"}},`, 19) + `{"body.t":{"$regex":"\\pL{0,400}?!"}}]}`)
	return r
}

var costlyBody = []byte(`{"t":"` + strings.Repeat("a", 64<<10) + `"}`)

// handOverCostly accepts an event of a tenant for costly routes.
func (b *harness) handOverCostly(tenant, source byte, routes ...eventhook.Route) *eventhook.Event {
	b.t.Helper()
	id := eventhook.SourceID{source}
	b.set(func(*queue) { b.routing[id] = func() ([]eventhook.Route, error) { return routes, nil } })
	if b.Reserve(1) != 1 {
		b.t.Fatal("Reserve(1): got 0, want 1")
	}
	e := b.add("push", lease)
	b.set(func(q *queue) {
		r := q.rows[e.ID]
		r.TenantID, r.SourceID, r.Body = eventhook.TenantID{tenant}, id, costlyBody
		*e = r.Event
	})
	b.Put([]*eventhook.Event{e})
	return e
}

// TestCostlyFiltersDelayNoOtherTenant has two sources with four costly routes each. The event of
// the other tenant comes last and is settled first. There is one worker of each kind, and the clock
// stands still while they work.
func TestCostlyFiltersDelayNoOtherTenant(t *testing.T) {
	inBubble(t, func(c *route.Config) { largeQueue(c); c.InboxBytes = 4 << 20 }, func(t *testing.T, b *harness) {
		var order []eventhook.EventID
		share, full := b.CPULimiter.Bucket(eventhook.TenantID{slowTenant}), meter.StepsIn(4*time.Second)
		b.settling = func(batch []*effects.Settlement) {
			if len(order) == 0 && !share.Take(full-3*meter.Slice) {
				t.Error("before the other tenant's event is settled: want at most three slices taken")
			} else if len(order) == 0 {
				share.Return(full - 3*meter.Slice)
			}
			for _, s := range batch {
				order = append(order, s.Event.ID)
			}
		}
		four := []eventhook.Route{costly("payments"), costly("b"), costly("c"), costly("d")}
		first := b.handOverCostly(slowTenant, 101, four...)
		b.handOverCostly(slowTenant, 102, four...)
		b.handOverOf(1, plainTenant, 1, newRoute("plain", "", "ok"))
		last := b.order[len(b.order)-1]
		b.run()
		synctest.Wait()
		if len(order) != 3 || order[0] != last {
			t.Errorf("settled %v, want three events, the other tenant's %s first", order, last)
		}
		b.wantStatuses(states{eventhook.EventDead: 2, eventhook.EventDelivered: 1})
		const want = `route "payments" filter: the evaluation of this event takes more than 20 000 000 steps`
		if got := b.rows[first.ID]; got.LastError != want || got.LostLeases != 0 || got.Lease.Token != 1 {
			t.Errorf("got %q after %d leases, want %q after one", got.LastError, got.Lease.Token, want)
		}
	})
}

// If a tenant's share is used up, its events are postponed. No event and no lease is lost.
func TestCostlyFiltersUseNoMoreThanTheShare(t *testing.T) {
	inBubble(t, func(c *route.Config) { largeQueue(c); c.InboxBytes = 4 << 20 }, func(t *testing.T, b *harness) {
		b.CPULimiter = cpushare.New(cpushare.Config{Processors: 0.5, Burst: 400 * time.Millisecond, Tenants: 10}, nil, time.Now)
		for range 5 {
			b.handOverCostly(slowTenant, 101, costly("payments"))
		}
		b.run()
		dead := func() int { return b.statuses()[eventhook.EventDead] }
		if got := dead(); got < 1 || got > 2 {
			t.Errorf("got %d planned with a burst for two, want 1 or 2", got)
		}
		if got := b.statuses()[eventhook.EventPending]; got < 3 {
			t.Errorf("got %d released, want at least 3", got)
		}
		b.handOverOf(1, quickTenant, 2, costly("quick")) // a costly filter is quick for a small body
		synctest.Wait()
		if got := b.statuses()[eventhook.EventUnrouted]; got != 1 {
			t.Errorf("got %v, want another tenant's event planned at once", b.statuses())
		}
		b.pass(500 * time.Millisecond)
		if got := dead(); got > 3 {
			t.Errorf("after 500 ms: got %d planned, want at most 3: the share refilled by 250 ms", got)
		}
		b.pass(time.Minute)
		b.wantStatuses(states{eventhook.EventDead: 5, eventhook.EventUnrouted: 1})
		for _, r := range b.rows {
			if r.LostLeases > 0 {
				t.Errorf("an event lost %d leases, want none", r.LostLeases)
			}
		}
	})
}

// Many events of one tenant that each take less than a slice do not fill a batch for which other
// tenants wait.
func TestManyQuickEventsMoveToTheSlowQueue(t *testing.T) {
	inBubble(t, func(c *route.Config) { largeQueue(c); c.BatchSize, c.InboxBytes = 100, 4<<20 }, func(t *testing.T, b *harness) {
		r := newRoute("r", "", "ok")
		r.Filter = []byte(`{"$or":[{"body.t":{"$regex":"\\pL{0,100}!"}},{"body.t":{"$exists":true}}]}`)
		body := []byte(`{"t":"` + strings.Repeat("a", 300) + `"}`)
		m := meter.New(t.Context(), meter.Slice, nil)
		compile(r).Settle(m, carrying(string(body)), nil, noon)
		if m.Err() != nil || m.Steps() < meter.Slice/10 {
			t.Fatalf("an event takes %d steps, %v; want a tenth of a slice at least", m.Steps(), m.Err())
		}
		before, isFirst := 0, false
		b.settling = func(batch []*effects.Settlement) {
			for _, s := range batch {
				isFirst = isFirst || s.Event.TenantID == (eventhook.TenantID{plainTenant})
			}
			if !isFirst || before == 0 {
				before += len(batch)
			}
		}
		id := eventhook.SourceID{7}
		b.routing[id] = func() ([]eventhook.Route, error) { return []eventhook.Route{r}, nil }
		b.Reserve(90)
		var list []*eventhook.Event
		for range 90 {
			e := b.add("push", lease)
			row := b.rows[e.ID]
			row.TenantID, row.SourceID, row.Body = eventhook.TenantID{slowTenant}, id, body
			*e = row.Event
			list = append(list, e)
		}
		b.Put(list)
		b.handOverOf(1, plainTenant, 1, newRoute("plain", "", "ok"))
		b.run()
		b.pass(time.Minute)
		if most := 10*meter.Slice/m.Steps() + 2; !isFirst || before > most {
			t.Errorf("the other tenant's event was settled with or after %d others, want at most %d", before-1, most)
		}
		b.wantStatuses(states{eventhook.EventDelivered: 91})
	})
}

func TestExplainEndsWithItsContext(t *testing.T) {
	e := newEvent("push")
	e.Body = costlyBody
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	all := newLimiter()
	if _, err := compile(enabled(costly("a"))).Explain(ctx, all, e, noon); !errors.Is(err, context.Canceled) {
		t.Errorf("the context has ended: got %v, want context.Canceled", err)
	}
	if lent, wait := all.Bucket(e.TenantID).BeginSlow(); lent == nil || wait > 0 {
		t.Error("want nothing taken from the share")
	}
}

func TestExplainReportsTheLimit(t *testing.T) {
	e := newEvent("push")
	e.Body = costlyBody
	list := explain(t, compile(enabled(costly("a")), enabled(newRoute("b", "pull", "ok"))), e)
	if want := `takes more than 20 000 000 steps`; !list[0].Matched || !strings.HasPrefix(list[0].Reason, route.UndecidedPrefix) || !strings.Contains(list[0].Reason, want) || list[0].Actions[0].Err == nil {
		t.Errorf("got %+v, want an undecided route that reports the limit", list[0])
	}
	if list[1].Matched {
		t.Errorf("got %+v, want no match by event type", list[1])
	}
}

func TestExplainIsRefusedIfTheShareIsUsedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newLimiter()
		lent, _ := all.Bucket(eventhook.TenantID{}).BeginSlow()
		lent.Take(100 * meter.EventLimit) // the bucket refills in about half a minute
		began := time.Now()
		_, err := compile(enabled(costly("r"))).Explain(t.Context(), all, newEvent("push"), noon)
		if !errors.Is(err, cpushare.ErrBusy) || time.Since(began) != 5*time.Second {
			t.Errorf("got %v after %s, want ErrBusy after 5 s", err, time.Since(began))
		}
	})
}
