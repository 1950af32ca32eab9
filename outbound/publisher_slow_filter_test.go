package outbound_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/cpushare"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/internal/meter"
)

// costly is a filter that takes seconds for costlyData if it is not limited (attack 2).
var costly = `{"$or":[` + strings.Repeat(`{"body.t":{"$regex":"\\pL{0,400}!"}},`, 19) + `{"body.t":{"$regex":"\\pL{0,400}?!"}}]}`

var costlyData = `{"n":1,"t":"` + strings.Repeat("a", 64<<10) + `"}`

// costlySettlement returns the settlement of an event that publishes costlyData.
func costlySettlement() *effects.Settlement {
	s := publishing("paid")
	s.Actions[0].Effect.Publication.Data, s.Actions[0].RouteName = []byte(costlyData), "payments"
	return s
}

func TestACostlyFilterExcludesOnlyItsOwnSubscription(t *testing.T) {
	o := newFakeStore(subscriber("a", "paid", ""), subscriber("b", "paid", costly))
	defer o.check(t)
	f, s := newFanout(o), costlySettlement()
	m := meter.New(t.Context(), meter.EventLimit, nil)
	matchWithin(t, f, m, s)
	if m.Err() != nil || m.Steps() < meter.EventLimit/5 || m.Steps() > meter.EventLimit/3 {
		t.Errorf("matching took %d steps, %v; want about a quarter of the limit of an event", m.Steps(), m.Err())
	}
	if lost := store(t, f, s); len(lost) != 0 || len(o.enqueued) != 1 {
		t.Errorf("got %d lost, %d enqueued; want the event settled with the delivery to a", len(lost), len(o.enqueued))
	}
	if stored, _ := o.storedFor("b"); stored != 0 || !strings.Contains(o.logged.String(), "its filter takes too many steps") {
		t.Errorf("b: got %d stored and the log %s; want 0 and a log entry", stored, o.logged)
	}
}

// Before an event is stored, its plan may use one slice of steps. If that is not enough, the
// processor plans the event, and no slow filter is logged.
func TestACostlyFilterLeavesAnArrivalToTheProcessor(t *testing.T) {
	o := newFakeStore(subscriber("a", "paid", ""), subscriber("b", "paid", costly))
	f, s := newFanout(o), costlySettlement()
	match(t, f, publishing("other")) // the subscriptions are in memory
	m := meter.New(t.Context(), meter.Slice, nil)
	s.Generation = o.generation[acme]
	f.MatchNow(m, s)
	if !errors.Is(m.Err(), meter.ErrLimit) || s.Actions[0].Failure == "" || s.Actions[0].Effect.Publication != nil {
		t.Errorf("got %+v, %v; want an action that fails, and the limit", s.Actions[0], m.Err())
	}
	if strings.Contains(o.logged.String(), "too many steps") {
		t.Errorf("got the log %s, want it empty", o.logged)
	}
}

func TestAnEventWithTooManyCostlyFiltersIsNotPublished(t *testing.T) {
	o := newFakeStore(subscriber("a", "paid", ""))
	for i := range 6 {
		o.add(subscriber(fmt.Sprint(i), "paid", costly))
	}
	defer o.check(t)
	f, s := newFanout(o), costlySettlement()
	m := meter.New(t.Context(), meter.EventLimit, nil)
	matchWithin(t, f, m, s)
	a := s.Actions[0]
	if want := `route "payments" target 1: not published: the filters of the tenant's subscriptions take more than 20 million steps for this event`; a.Failure != want || !a.Permanent || m.Steps() > meter.EventLimit*11/10 { // building the view of the body is not limited
		t.Errorf("got %q, permanent %t, after %d steps; want the permanent failure %q", a.Failure, a.Permanent, m.Steps(), want)
	}
	store(t, f, s)
	if s.Conclude(time.Now()); s.Status != eventhook.EventDead || len(o.enqueued) != 0 {
		t.Errorf("got %s, %d enqueued; want it dead", s.Status, len(o.enqueued))
	}
}

// 200 concurrent callers publish to three subscriptions with costly filters (attack 2).
func TestPublishingWithCostlyFiltersDelaysNoOtherTenant(t *testing.T) {
	list := []eventhook.Subscription{subscriber("a", "*", costly), subscriber("b", "*", costly), subscriber("c", "*", costly), subscriber("d", "*", "")}
	withPublisher(t, nil, list, func(t *testing.T, p *publishHarness) {
		p.CPULimiter = cpushare.New(cpushare.Config{Processors: 0.1, Burst: 200 * time.Millisecond, Tenants: 10}, nil, time.Now)
		var stored, refused atomic.Int64
		var callers sync.WaitGroup
		for range 200 {
			callers.Go(func() {
				switch _, err := p.Publisher.Publish(t.Context(), news("push", costlyData)); {
				case errors.Is(err, cpushare.ErrBusy):
					refused.Add(1)
				case err == nil:
					stored.Add(1)
				default:
					t.Errorf("got %v", err)
				}
			})
		}
		synctest.Wait()
		if got := refused.Load(); got < 200-65 {
			t.Errorf("rejected immediately: got %d, want all but 64", got)
		}
		e := news("push", `{"n":1}`)
		e.TenantID = eventhook.TenantID{7}
		_, err := p.Publisher.Publish(t.Context(), e)
		if got := stored.Load(); err != nil || got > 2 {
			t.Errorf("event of the other tenant: got %v after %d events were stored; want it stored immediately", err, got)
		}
		began := time.Now()
		callers.Wait()
		if got := stored.Load(); got < 2 || got > 6 || got+refused.Load() != 200 || time.Since(began) > 6*time.Second {
			t.Errorf("got %d stored and %d refused after %s; want 2 to 6, and all other events rejected within 5 s", got, refused.Load(), time.Since(began))
		}
		if got, _ := p.storedFor("d"); got != int(stored.Load()) {
			t.Errorf("d: got %d deliveries, want one for each stored event", got)
		}
	})
}

func TestPublishingEndsWithItsCaller(t *testing.T) {
	withPublisher(t, nil, []eventhook.Subscription{subscriber("a", "*", costly)}, func(t *testing.T, p *publishHarness) {
		lent, _ := p.CPULimiter.Bucket(acme).BeginSlow()
		lent.Take(100 * meter.EventLimit)
		ctx, hangUp := context.WithCancel(t.Context())
		ended := make(chan error)
		for range 2 { // one has the slot and waits for its CPU share
			go func() {
				_, err := p.Publisher.Publish(ctx, news("push", costlyData))
				ended <- err
			}()
		}
		synctest.Wait()
		hangUp()
		for range 2 {
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want the error of the caller's context", err)
			}
		}
	})
}

func TestTooManyCostlyFiltersRefuseTheEvent(t *testing.T) {
	var list []eventhook.Subscription
	for i := range 6 {
		list = append(list, subscriber(fmt.Sprint(i), "*", costly))
	}
	withPublisher(t, nil, list, func(t *testing.T, p *publishHarness) {
		if _, err := p.Publisher.Publish(t.Context(), news("push", costlyData)); eventhook.KindOf(err) != eventhook.KindInvalid || !strings.Contains(err.Error(), "20 million steps") {
			t.Errorf("got %v, want KindInvalid with the limit", err)
		}
	})
}
