package outbound_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
	matching "github.com/eventhook/eventhook/outbound/match"
)

// publishHarness is a running publisher with a fakeStore in a synctest bubble.
type publishHarness struct {
	*fakeStore
	*outbound.Publisher
	t                 *testing.T
	subscriptionCache *matching.SubscriptionCache
	stop              context.CancelFunc
	ended             chan error
}

func withPublisher(t *testing.T, change func(*outbound.PublishConfig), list []eventhook.Subscription, test func(*testing.T, *publishHarness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := outbound.DefaultPublishConfig()
		c.Writers = 1
		if change != nil {
			change(&c)
		}
		o := newFakeStore(list...)
		p := &publishHarness{fakeStore: o, t: t, subscriptionCache: o.subscriptionCache(), ended: make(chan error, 1)}
		p.Publisher = outbound.NewPublisher(c, outbound.PublisherDeps{Subscriptions: p.subscriptionCache, CPULimiter: newShares(), Store: o, Dispatcher: o, Observer: o, Log: o.log, Now: time.Now})
		var ctx context.Context
		ctx, p.stop = context.WithCancel(t.Context())
		go func() { p.ended <- p.Run(ctx) }()
		test(t, p)
		p.end()
		o.check(t)
	})
}

// end stops the publisher and waits until it has ended.
func (p *publishHarness) end() {
	p.t.Helper()
	p.stop()
	if err := <-p.ended; err != nil {
		p.t.Errorf("Run: %v, want nil", err)
	}
	p.ended <- nil
}

// publish publishes events concurrently and returns the results.
func (p *publishHarness) publish(events ...*eventhook.Event) (outs []*outbound.PublishItem, errs []error) {
	outs, errs = make([]*outbound.PublishItem, len(events)), make([]error, len(events))
	for i, e := range events {
		errs[i] = errNothingYet
		go func() { outs[i], errs[i] = p.Publisher.Publish(p.t.Context(), e) }()
		synctest.Wait()
	}
	return outs, errs
}

var errNothingYet = errors.New("nothing yet")

func TestAnEventIsStoredWithItsDeliveries(t *testing.T) {
	paused, keyless, agents := subscriber("paused", "*", ""), subscriber("keyless", "*", ""), subscriber("agents'", "*", "")
	paused.Status, keyless.SecretsLost, agents.TargetLabels = eventhook.SubscriptionPaused, true, []string{"a"}
	list := []eventhook.Subscription{subscriber("a", "push", ""), subscriber("b", "*", ""), subscriber("other", "pull", ""), paused, keyless, agents}
	withPublisher(t, nil, list, func(t *testing.T, p *publishHarness) {
		p.capacity[list[1].ID] = 0
		e := &eventhook.Event{TenantID: acme, EventType: "push", CorrelationID: "c1", Payload: eventhook.Payload{Body: []byte(`{"n": 1}`)}}
		outs, errs := p.publish(e)
		if errs[0] != nil || outs[0].Count != 5 || outs[0].Event != e {
			t.Fatalf("got %+v, %v; want 5 deliveries", outs[0], errs[0])
		}
		if e.Status != eventhook.EventDelivered || e.Origin != eventhook.OriginAPI || e.ID.Time() != time.Now().UTC() || len(e.TraceID) != 32 || e.BodySize != 8 || e.Envelope == nil {
			t.Errorf("the event: got %+v", e)
		}
		for name, want := range map[string][2]int{"a": {1, 1}, "b": {1, 0}, "other": {0, 0}, "paused": {1, 0}, "keyless": {1, 0}, "agents'": {1, 0}} {
			if stored, leased := p.storedFor(name); [2]int{stored, leased} != want {
				t.Errorf("%s: got %d stored, %d leased; want %v", name, stored, leased, want)
			}
		}
		if len(p.enqueued) != 1 || p.enqueued[0].Event != e || p.enqueued[0].Lease.Until != time.Now().Add(storeLease+30*time.Second) {
			t.Errorf("enqueued: got %+v, want the leased delivery to a", p.enqueued)
		}
		if diff := cmp.Diff([]int{5}, p.reported); diff != "" {
			t.Errorf("reported deliveries (-want +got):\n%s", diff)
		}
		if p.notified != 1 {
			t.Errorf("NotifyDue: got %d calls, want 1", p.notified)
		}
	})
}

func TestAnEventWithoutSubscribersIsStored(t *testing.T) {
	withPublisher(t, nil, nil, func(t *testing.T, p *publishHarness) {
		outs, errs := p.publish(news("push", "1"))
		if errs[0] != nil || outs[0].Count != 0 || p.notified != 0 || len(p.events) != 1 {
			t.Errorf("got %+v, %v and %d events, want one event and no notification", outs[0], errs[0], len(p.events))
		}
	})
}

func TestAKeyIsPublishedOnce(t *testing.T) {
	list := []eventhook.Subscription{subscriber("a", "*", ""), subscriber("b", "*", "")}
	withPublisher(t, nil, list, func(t *testing.T, p *publishHarness) {
		p.commitTokens = make(chan struct{})
		var events []*eventhook.Event
		for range 4 {
			e := news("push", "{}")
			e.IdempotencyKey = "k"
			events = append(events, e)
		}
		outs, errs := p.publish(events...)
		close(p.commitTokens)
		synctest.Wait()
		for i, out := range outs {
			isFirst := i == 0
			if errs[i] != nil || out.Count != 2 || isFirst != (out.Event.Status == eventhook.EventDelivered) || !isFirst && out.Event.DuplicateOf != events[0].ID {
				t.Errorf("%d: got %+v of %s, %v; want the first event and its duplicates", i, out.Event, out.Event.Status, errs[i])
			}
		}
		if len(p.enqueued) != 2 {
			t.Errorf("enqueued %d deliveries, want 2", len(p.enqueued))
		}
	})
}

// A subscription that another instance created receives the events that are published
// afterwards, even without a change notification.
func TestANewSubscriptionReceivesLaterEvents(t *testing.T) {
	withPublisher(t, nil, []eventhook.Subscription{subscriber("a", "*", "")}, func(t *testing.T, p *publishHarness) {
		p.publish(news("push", "1"))
		p.add(subscriber("b", "*", ""))
		outs, errs := p.publish(news("push", "2"), news("push", "3"))
		if err := errors.Join(errs...); err != nil || outs[0].Count != 2 || outs[1].Count != 2 {
			t.Errorf("got %+v, %+v, %v; want two deliveries each", outs[0], outs[1], err)
		}
		if p.stale != 1 || p.reads != 2 {
			t.Errorf("got %d stale attempts and %d reads, want 1 and 2", p.stale, p.reads)
		}
	})
}

func TestManyStaleEventsReadTheSubscriptionsOnce(t *testing.T) {
	withPublisher(t, nil, []eventhook.Subscription{subscriber("a", "*", "")}, func(t *testing.T, p *publishHarness) {
		p.publish(news("push", "1"))
		p.commitTokens = make(chan struct{})
		var events []*eventhook.Event
		for range 50 {
			events = append(events, news("push", "2"))
		}
		outs, errs := p.publish(events...)
		p.add(subscriber("b", "*", ""))
		close(p.commitTokens)
		synctest.Wait()
		for i := range outs {
			if errs[i] != nil || outs[i].Count != 2 {
				t.Errorf("%d: got %+v, %v; want two deliveries", i, outs[i], errs[i])
			}
		}
		if p.stale < 50 || p.reads != 2 {
			t.Errorf("got %d stale attempts and %d reads, want at least 50, and 2", p.stale, p.reads)
		}
	})
}

func TestSubscriptionsThatKeepChanging(t *testing.T) {
	withPublisher(t, nil, []eventhook.Subscription{subscriber("a", "*", "")}, func(t *testing.T, p *publishHarness) {
		p.beforeEach = func() { p.add(subscriber("more", "pull", "")) }
		_, errs := p.publish(news("push", "1"))
		if eventhook.KindOf(errs[0]) != eventhook.KindUnavailable {
			t.Errorf("got %v, want KindUnavailable", errs[0])
		}
		if len(p.events) != 0 || p.stale != 10 {
			t.Errorf("got %d events after %d attempts, want 0 after 10", len(p.events), p.stale)
		}
	})
}

func TestCancelledPublish(t *testing.T) {
	withPublisher(t, nil, []eventhook.Subscription{subscriber("a", "*", "")}, func(t *testing.T, p *publishHarness) {
		p.publish(news("push", "1"))
		p.beforeEach = func() { p.add(subscriber("more", "pull", "")) }
		ctx, leave := context.WithCancel(t.Context())
		leave()
		if _, err := p.Publisher.Publish(ctx, news("push", "2")); !errors.Is(err, context.Canceled) || p.stale != 1 {
			t.Errorf("got %v after %d attempts, want context.Canceled after 1", err, p.stale)
		}
	})
}

func TestEventsThatCannotBeStored(t *testing.T) {
	for _, c := range []struct {
		claim  string
		before func(*publishHarness)
		kind   eventhook.Kind
	}{
		{"the database fails", func(p *publishHarness) { p.err = errStore }, ""},
		{"the database is down when the event is stored", func(p *publishHarness) {
			p.beforeEach = func() {
				p.set(func() { p.err = &eventhook.Error{Kind: eventhook.KindUnavailable, Message: "down", Cause: errStore} })
			}
		}, eventhook.KindUnavailable},
		{"the database fails during the commit", func(p *publishHarness) { p.beforeEach = func() { p.set(func() { p.err = errStore }) } }, ""},
		{"the database rejects the event", func(p *publishHarness) { p.refuse = "push" }, ""},
		{"the database hangs", func(p *publishHarness) { p.commitTokens = make(chan struct{}) }, ""},
		{"the instance has stopped", func(p *publishHarness) { p.end() }, eventhook.KindUnavailable},
	} {
		t.Run(c.claim, func(t *testing.T) {
			withPublisher(t, nil, []eventhook.Subscription{subscriber("a", "*", "")}, func(t *testing.T, p *publishHarness) {
				c.before(p)
				_, errs := p.publish(news("push", "1"))
				time.Sleep(11 * time.Second)
				synctest.Wait()
				if errs[0] == nil || errs[0] == errNothingYet || eventhook.KindOf(errs[0]) != c.kind {
					t.Errorf("got %v, want an error of kind %q", errs[0], c.kind)
				}
				if len(p.enqueued) != 0 || len(p.events) != 0 {
					t.Errorf("got %d enqueued and %d events, want 0", len(p.enqueued), len(p.events))
				}
			})
		})
	}
}

func TestARefusedEventIsPublishedAlone(t *testing.T) {
	withPublisher(t, nil, []eventhook.Subscription{subscriber("a", "*", "")}, func(t *testing.T, p *publishHarness) {
		p.refuse, p.commitTokens = "poison", make(chan struct{})
		_, errs := p.publish(news("first", "1"), news("push", "1"), news("poison", "1"), news("pull", "1"))
		close(p.commitTokens)
		synctest.Wait()
		if errs[0] != nil || errs[1] != nil || errs[2] == nil || errs[3] != nil {
			t.Errorf("got the errors %v, want only the third event to fail", errs)
		}
		if diff := cmp.Diff([][]string{{"first"}, {"push", "pull"}}, p.commits); diff != "" {
			t.Errorf("commits (-want +got):\n%s", diff)
		}
	})
}

func TestPublishedBatchesAreBoundedByDeliveries(t *testing.T) {
	var list []eventhook.Subscription
	for i := range 30 {
		list = append(list, subscriber(fmt.Sprint(i), map[bool]string{true: "one many", false: "many"}[i == 0], ""))
	}
	withPublisher(t, func(c *outbound.PublishConfig) { c.BatchRows = 10 }, list, func(t *testing.T, p *publishHarness) {
		p.commitTokens = make(chan struct{})
		var events []*eventhook.Event
		for _, eventType := range strings.Fields("one one one one one one many many one") {
			events = append(events, news(eventType, "1"))
		}
		outs, errs := p.publish(events...)
		close(p.commitTokens)
		synctest.Wait()
		want := [][]string{{"one"}, {"one", "one", "one", "one", "one"}, {"many"}, {"many"}, {"one"}}
		if diff := cmp.Diff(want, p.commits); diff != "" {
			t.Errorf("commits (-want +got):\n%s", diff)
		}
		if err := errors.Join(errs...); err != nil || outs[6].Count != 30 {
			t.Errorf("got %+v, %v; want 30 deliveries", outs[6], err)
		}
	})
}

func TestTheQueueOfThePublisherIsBounded(t *testing.T) {
	for _, c := range []struct {
		claim  string
		change func(*outbound.PublishConfig)
		wait   int
	}{
		{"limited by events and deliveries", func(c *outbound.PublishConfig) { c.QueueRows = 6 }, 3},
		{"by bytes", func(c *outbound.PublishConfig) { c.QueueBytes = 1100 }, 3},
	} {
		t.Run(c.claim, func(t *testing.T) {
			withPublisher(t, c.change, []eventhook.Subscription{subscriber("a", "*", "")}, func(t *testing.T, p *publishHarness) {
				p.commitTokens = make(chan struct{})
				_, first := p.publish(news("push", "1"))
				var events []*eventhook.Event
				for range c.wait + 2 {
					events = append(events, news("push", strings.Repeat("x", 50)))
				}
				_, errs := p.publish(events...)
				if got := p.Waiting(); got != c.wait+1 {
					t.Errorf("waiting: got %d, want %d", got, c.wait+1)
				}
				close(p.commitTokens)
				synctest.Wait()
				for i, err := range append(first, errs...) {
					if isShed := i > c.wait; isShed != (eventhook.KindOf(err) == eventhook.KindUnavailable) || !isShed && err != nil {
						t.Errorf("event %d: got %v, want KindOverloaded: %t", i, err, isShed)
					}
				}
			})
		})
	}
}

// A tenant with large events has at most one of them in the queue. The events of another
// tenant, and its own small events, wait for at most one large event.
func TestLargeEventsOfATenantWaitForEachOther(t *testing.T) {
	var list []eventhook.Subscription
	for i := range 30 {
		list = append(list, subscriber(fmt.Sprint(i), map[bool]string{true: "one many", false: "many"}[i == 0], ""))
	}
	withPublisher(t, func(c *outbound.PublishConfig) { c.OverlapRows = 30 }, list, func(t *testing.T, p *publishHarness) {
		p.commitTokens = make(chan struct{})
		p.publish(news("one", "1"))
		many := make([]*eventhook.Event, 65)
		for i := range many {
			many[i] = news("many", "1")
		}
		_, errs := p.publish(many...)
		_, one := p.publish(news("one", "2"))
		close(p.commitTokens)
		synctest.Wait()
		if got := p.commits[1]; !slices.Equal(got, []string{"many", "one"}) {
			t.Errorf("second commit: got %v, want one large event and the small event", got)
		}
		if err := errors.Join(append(one, errs[:64]...)...); err != nil || eventhook.KindOf(errs[64]) != eventhook.KindUnavailable {
			t.Errorf("got %v, and %v for the last event; want 64 stored and the last one rejected", err, errs[64])
		}
	})
}

func TestACallThatWaitsForItsSlotCanBeCancelled(t *testing.T) {
	withPublisher(t, func(c *outbound.PublishConfig) { c.OverlapRows = 1 }, []eventhook.Subscription{subscriber("a", "*", "")}, func(t *testing.T, p *publishHarness) {
		p.commitTokens = make(chan struct{})
		_, first := p.publish(news("push", "1"))
		ctx, leave := context.WithCancel(t.Context())
		var err error
		go func() { _, err = p.Publisher.Publish(ctx, news("push", "2")) }()
		synctest.Wait()
		leave()
		synctest.Wait()
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
		close(p.commitTokens)
		if _, errs := p.publish(news("push", "3")); errs[0] != nil || first[0] != nil || len(p.events) != 2 {
			t.Errorf("got %v, %v and %d events; want the two other events stored", first, errs, len(p.events))
		}
	})
}

func TestAStopPublishesWaitingEvents(t *testing.T) {
	withPublisher(t, nil, []eventhook.Subscription{subscriber("a", "*", "")}, func(t *testing.T, p *publishHarness) {
		p.commitTokens = make(chan struct{})
		outs, errs := p.publish(news("push", "1"), news("push", "2"))
		p.stop()
		close(p.commitTokens)
		synctest.Wait()
		if err := errors.Join(errs...); err != nil || outs[1].Count != 1 {
			t.Errorf("got %v, want both stored", err)
		}
	})
}

func TestPublishConfigValidate(t *testing.T) {
	if f := outbound.DefaultPublishConfig().Validate(); len(f) > 0 {
		t.Errorf("default configuration: got the faults %v, want none", f)
	}
	var got []string
	for _, f := range (outbound.PublishConfig{}).Validate() {
		got = append(got, f.Location)
	}
	want := strings.Fields("writers batch_rows batch_bytes overlap_rows queue_rows queue_bytes cached_subscriptions cached_event_types commit_timeout")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("faults of the zero configuration (-want +got):\n%s", diff)
	}
}
