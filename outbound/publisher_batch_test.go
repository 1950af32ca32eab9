package outbound_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
	"github.com/eventhook/eventhook/outbound/publishtest"
)

func TestTheFakeStoreConforms(t *testing.T) {
	publishtest.Check(t, func(*testing.T) publishtest.Store {
		list := []eventhook.Subscription{subscriber("a", "*", ""), subscriber("b", "*", "")}
		o := newFakeStore(list...)
		o.refuse = "refused"
		return publishtest.Store{PublishStore: o, Tenant: acme, Other: eventhook.NewID[eventhook.Tenant](startTime), Rejected: o.refuse, Now: time.Now,
			Subscriptions: []eventhook.SubscriptionID{list[0].ID, list[1].ID},
			Generation:    func(of eventhook.TenantID) int64 { return o.generation[of] },
			Change:        func() { o.add(subscriber("more", "other", "")) },
			Deliveries: func(of eventhook.EventID) int {
				if o.events[of] == nil {
					return -1
				}
				return o.countOf(of)
			}}
	})
}

// all publishes events with one call.
func (p *publishHarness) all(events ...*eventhook.Event) []outbound.PublishOutcome {
	return p.PublishBatch(p.t.Context(), acme, events)
}

func typesOf(outcomes []outbound.PublishOutcome) (list []string) {
	for _, o := range outcomes {
		if o.Err != nil {
			list = append(list, "failed")
			continue
		}
		list = append(list, fmt.Sprint(o.Event.EventType, " ", o.Event.Status, " ", o.Count))
	}
	return list
}

func TestABatchSharesOneTransaction(t *testing.T) {
	withPublisher(t, nil, []eventhook.Subscription{subscriber("a", "a b", ""), subscriber("b", "b", "")}, func(t *testing.T, p *publishHarness) {
		p.refuse = "refused"
		keyed, again := news("b", "1"), news("a", "2")
		keyed.IdempotencyKey, again.IdempotencyKey = "k", "k"
		got := typesOf(p.all(news("a", "1"), keyed, news("refused", "1"), again, news("c", "1")))
		if want := []string{"a delivered 1", "b delivered 2", "failed", "a duplicate 2", "c delivered 0"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if len(p.commits) != 1 || len(p.enqueued) != 3 {
			t.Errorf("got %d commits and %d enqueued deliveries, want 1 and 3", len(p.commits), len(p.enqueued))
		}
	})
}

func TestALargeBatchHasSeveralTransactions(t *testing.T) {
	for _, c := range []struct {
		claim  string
		change func(*outbound.PublishConfig)
	}{
		{"by rows", func(c *outbound.PublishConfig) { c.BatchRows = 5 }},
		{"by bytes", func(c *outbound.PublishConfig) { c.BatchBytes = 650 }},
	} {
		t.Run(c.claim, func(t *testing.T) {
			withPublisher(t, c.change, []eventhook.Subscription{subscriber("a", "*", "")}, func(t *testing.T, p *publishHarness) {
				var events []*eventhook.Event
				for i := range 5 {
					events = append(events, news(fmt.Sprint("e", i), "1"))
				}
				outcomes := p.all(events...)
				want := [][]string{{"e0", "e1"}, {"e2", "e3"}, {"e4"}}
				if got := fmt.Sprint(p.commits); got != fmt.Sprint(want) || slices.Contains(typesOf(outcomes), "failed") {
					t.Errorf("got the commits %v, %q; want %v", p.commits, typesOf(outcomes), want)
				}
			})
		})
	}
}

// Only the stale events of a batch are matched again.
func TestABatchIsMatchedAgain(t *testing.T) {
	withPublisher(t, func(c *outbound.PublishConfig) { c.BatchRows = 2 }, []eventhook.Subscription{subscriber("a", "*", "")}, func(t *testing.T, p *publishHarness) {
		commits := 0
		p.beforeEach = func() {
			if commits++; commits == 2 {
				p.add(subscriber("b", "*", ""))
			}
		}
		got := typesOf(p.all(news("x", "1"), news("y", "1")))
		if want := []string{"x delivered 1", "y delivered 2"}; !slices.Equal(got, want) || p.stale != 1 {
			t.Errorf("got %q with %d stale, want %q with 1", got, p.stale, want)
		}
	})
}

// Batches of many rows are stored one after the other within a tenant, so that a small event waits
// for at most one of them.
func TestBatchesOfATenantWaitForEachOther(t *testing.T) {
	withPublisher(t, func(c *outbound.PublishConfig) { c.OverlapRows = 10 }, nil, func(t *testing.T, p *publishHarness) {
		p.commitTokens = make(chan struct{})
		p.publish(news("one", "1"))
		for range 3 {
			var events []*eventhook.Event
			for range 20 {
				events = append(events, news("many", "1"))
			}
			go p.all(events...)
			synctest.Wait()
		}
		p.publish(news("small", "1"))
		close(p.commitTokens)
		synctest.Wait()
		if got := strings.Join(p.commits[1], " "); got != strings.Repeat("many ", 20)+"small" {
			t.Errorf("the commit after the first: got %q, want one batch and the small event", got)
		}
		if len(p.events) != 62 {
			t.Errorf("got %d events stored, want 62", len(p.events))
		}
	})
}

func TestABatchWhoseCallerCancels(t *testing.T) {
	withPublisher(t, func(c *outbound.PublishConfig) { c.OverlapRows = 1 }, []eventhook.Subscription{subscriber("a", "*", "")}, func(t *testing.T, p *publishHarness) {
		p.commitTokens = make(chan struct{})
		p.publish(news("one", "1"))
		ctx, leave := context.WithCancel(t.Context())
		var outcomes []outbound.PublishOutcome
		go func() { outcomes = p.PublishBatch(ctx, acme, []*eventhook.Event{news("a", "1"), news("b", "1")}) }()
		synctest.Wait()
		leave()
		synctest.Wait()
		if got := typesOf(outcomes); !slices.Equal(got, []string{"failed", "failed"}) {
			t.Errorf("got %q, want both failed", got)
		}
		close(p.commitTokens)
	})
}
