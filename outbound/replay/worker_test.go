package replay_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/cpushare"
	"github.com/eventhook/eventhook/outbound/replay"
)

// bubble runs workers on a fakeStore in a synctest bubble.
type bubble struct {
	*testing.T
	*fakeStore
	running sync.WaitGroup
}

func inBubble(t *testing.T, test func(b *bubble)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{T: t, fakeStore: newFakeStore()}
		t.Cleanup(b.running.Wait)
		test(b)
	})
}

// run runs a worker until the test ends or kill is called.
func (b *bubble) run(store replay.Store) (kill func()) {
	ctx, cancel := context.WithCancel(b.Context())
	w := &replay.Worker{Store: store, CPULimiter: cpushare.New(cpushare.DefaultConfig(), nil, time.Now), Log: slog.New(slog.DiscardHandler), Now: time.Now}
	b.running.Go(func() { _ = w.Run(ctx) })
	return cancel
}

// steps returns how many steps the workers have begun.
func (b *bubble) steps() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.leases
}

// receive answers all open deliveries every interval, until the replay has ended. It returns the
// replay.
func (b *bubble) receive(of eventhook.Subscription, id eventhook.ReplayID, every time.Duration) eventhook.Replay {
	b.Helper()
	for began := time.Now(); time.Since(began) < time.Hour; time.Sleep(every) {
		b.deliver(of, eventhook.DeliverySuccess)
		if r := b.replay(of, id); r.Status != eventhook.ReplayRunning {
			return r
		}
	}
	b.Fatal("the replay has not ended within an hour")
	return eventhook.Replay{}
}

// wantEach checks that each event was sent n times.
func (b *bubble) wantEach(of eventhook.Subscription, ids []eventhook.EventID, n int) {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, id := range ids {
		d := b.deliveries[eventhook.DeliveryIDOf(id, eventhook.DestinationID(of.ID))]
		if d == nil && n > 0 || d != nil && d.sent != n {
			b.Errorf("event %d of %d: the delivery is %+v, want it sent %d times", i+1, len(ids), d, n)
		}
	}
}

func TestAReplayRunsToItsEndWithBoundedLoad(t *testing.T) {
	inBubble(t, func(b *bubble) {
		s := b.subscribe()
		ids := append(b.publish(s, 3500, eventhook.DeliveryDead), b.publish(s, 1500, "")...)
		b.run(b)
		time.Sleep(time.Minute)
		synctest.Wait()
		began := time.Now()
		id := b.start(s, eventhook.ReplayRequest{Missing: true})
		synctest.Wait()
		if r := b.replay(s, id); r.Queued != replay.MaxOpen || time.Since(began) > time.Millisecond {
			t.Errorf("queued %d deliveries after %s, want %d at once", r.Queued, time.Since(began), replay.MaxOpen)
		}
		r := b.receive(s, id, 100*time.Millisecond)
		if r.Status != eventhook.ReplayCompleted || r.Queued != 5000 || r.Sent != 5000 || b.mostOpen > replay.MaxOpen {
			t.Errorf("got %+v with at most %d open deliveries, want 5000 sent and at most %d open", r, b.mostOpen, replay.MaxOpen)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the replay took %s for a receiver that answers within 100 ms, want at most 10s", took)
		}
		b.wantEach(s, ids, 1)
	})
}

func TestAFilterIsAppliedAsItIsNow(t *testing.T) {
	inBubble(t, func(b *bubble) {
		s := b.subscribe()
		before := b.publish(s, 1000, "")
		after := b.publish(s, 10, "")
		b.change(s.ID, func(s *eventhook.Subscription) { s.Status = eventhook.SubscriptionPaused })
		b.run(b)
		id := b.start(s, eventhook.ReplayRequest{Missing: true})
		time.Sleep(time.Minute)
		b.wantEach(s, before, 0)
		b.change(s.ID, func(s *eventhook.Subscription) {
			s.Status, s.Filter = eventhook.SubscriptionActive, []byte(`{"body.amount":{"$lt":1}}`)
			for _, e := range b.events[1000:] {
				e.Body = []byte(`{"amount":0}`)
			}
		})
		if r := b.receive(s, id, time.Second); r.Queued != 10 {
			t.Errorf("queued %d deliveries, want those 10 that pass the filter", r.Queued)
		}
		b.wantEach(s, before, 0)
		b.wantEach(s, after, 1)
	})
}

func TestAReplayWaitsForItsSubscriptionAndGoesOn(t *testing.T) {
	inBubble(t, func(b *bubble) {
		s := b.subscribe()
		ids := b.publish(s, 10, eventhook.DeliveryDead)
		b.run(b)
		for claim, wait := range map[string]func(isWaiting bool){
			"paused": func(is bool) {
				b.change(s.ID, func(s *eventhook.Subscription) {
					s.Status = map[bool]eventhook.SubscriptionStatus{true: eventhook.SubscriptionPaused, false: eventhook.SubscriptionActive}[is]
				})
			},
			"disabled": func(is bool) {
				b.change(s.ID, func(s *eventhook.Subscription) {
					s.Status = map[bool]eventhook.SubscriptionStatus{true: eventhook.SubscriptionDisabled, false: eventhook.SubscriptionActive}[is]
				})
			},
			"failing again": func(is bool) {
				b.mu.Lock()
				defer b.mu.Unlock()
				b.failing = is
			},
		} {
			b.change(s.ID, func(*eventhook.Subscription) {
				for _, d := range b.deliveries {
					d.Status, d.sent, d.CompletedAt = eventhook.DeliveryDead, 0, new(time.Now())
				}
			})
			wait(true)
			id := b.startOf(eventhook.ReplayRecovery, s, eventhook.ReplayRequest{})
			before := b.steps()
			time.Sleep(10 * time.Minute)
			if steps := b.steps() - before; steps < 60 || steps > 200 {
				t.Errorf("%s: %d steps in 10 minutes, want one in a few seconds", claim, steps)
			}
			b.wantEach(s, ids, 0)
			wait(false)
			began := time.Now()
			b.receive(s, id, 10*time.Millisecond)
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("%s: the recovery took %s after that, want seconds", claim, took)
			}
			b.wantEach(s, ids, 1)
		}
	})
}

// dying is a store whose instance stops to answer in the middle of a step.
type dying struct {
	replay.Store
	steps int // that are done before
}

func (d *dying) AdvanceReplay(ctx context.Context, job *replay.Job, step replay.Step) error {
	if d.steps--; d.steps < 0 {
		<-ctx.Done()
		time.Sleep(time.Hour) // killed: it does not end its lease
		return errors.New("killed")
	}
	return d.Store.AdvanceReplay(ctx, job, step)
}

func TestAnotherInstanceContinuesAReplayOfAKilledOne(t *testing.T) {
	inBubble(t, func(b *bubble) {
		s := b.subscribe()
		ids := b.publish(s, 1500, eventhook.DeliveryDead)
		kill := b.run(&dying{Store: b, steps: 1})
		id := b.start(s, eventhook.ReplayRequest{})
		time.Sleep(time.Second)
		kill()
		b.run(b)
		began := time.Now()
		if r := b.receive(s, id, 100*time.Millisecond); r.Queued != 1500 {
			t.Errorf("queued %d deliveries, want 1500", r.Queued)
		}
		if took := time.Since(began); took < 20*time.Second || took > 40*time.Second {
			t.Errorf("the replay took %s, want the rest of the lease of 30s", took)
		}
		b.wantEach(s, ids, 1)
	})
}

func TestAStoppedInstanceEndsItsLease(t *testing.T) {
	inBubble(t, func(b *bubble) {
		s := b.subscribe()
		b.publish(s, 10, eventhook.DeliveryDead)
		stopped := &stopping{Store: b}
		stopped.stop = b.run(stopped)
		id := b.start(s, eventhook.ReplayRequest{})
		synctest.Wait()
		b.run(b)
		began := time.Now()
		b.receive(s, id, 100*time.Millisecond)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("another instance continued after %s, want a second", took)
		}
	})
}

// stopping stops its worker while it reads a page.
type stopping struct {
	replay.Store
	stop func()
}

func (s *stopping) ReplayPage(ctx context.Context, job *replay.Job, limit int) (replay.Page, error) {
	s.stop()
	return s.Store.ReplayPage(ctx, job, limit)
}

func TestAFailedStepIsDoneAgainSoon(t *testing.T) {
	inBubble(t, func(b *bubble) {
		s := b.subscribe()
		b.publish(s, 10, eventhook.DeliveryDead)
		b.fails = errors.New("the statement failed")
		b.run(b)
		began := time.Now()
		b.receive(s, b.start(s, eventhook.ReplayRequest{}), 100*time.Millisecond)
		if took := time.Since(began); took < 5*time.Second || took > 10*time.Second {
			t.Errorf("the replay took %s, want 5s and its deliveries", took)
		}
	})
}

func TestACancelledReplayQueuesNoMore(t *testing.T) {
	inBubble(t, func(b *bubble) {
		s := b.subscribe()
		b.publish(s, 5000, eventhook.DeliveryDead)
		b.run(b)
		id := b.start(s, eventhook.ReplayRequest{})
		synctest.Wait()
		b.cancel(s, id)
		b.deliver(s, eventhook.DeliverySuccess)
		time.Sleep(time.Minute)
		if r := b.replay(s, id); r.Queued != replay.MaxOpen {
			t.Errorf("queued %d deliveries, want the %d of before", r.Queued, replay.MaxOpen)
		}
	})
}

func TestALimitEndsAReplay(t *testing.T) {
	inBubble(t, func(b *bubble) {
		s := b.subscribe()
		ids := b.publish(s, 2500, eventhook.DeliveryDead)
		b.run(b)
		if r := b.receive(s, b.start(s, eventhook.ReplayRequest{Limit: 1200}), 100*time.Millisecond); r.Queued != 1200 || r.Sent != 1200 {
			t.Errorf("got %+v, want 1200 deliveries sent", r)
		}
		b.wantEach(s, ids[:1200], 1)
		b.wantEach(s, ids[1200:], 0)
	})
}

// slowStore takes a time to read events.
type slowStore struct {
	*fakeStore
	takes time.Duration
}

func (s slowStore) ReadReplayEvents(ctx context.Context, list []*eventhook.Delivery) (int, error) {
	time.Sleep(s.takes)
	return s.fakeStore.ReadReplayEvents(ctx, list)
}

func TestAReplayOfEventsThatAreReadSlowlyAdvances(t *testing.T) {
	inBubble(t, func(b *bubble) {
		s := b.subscribe()
		b.change(s.ID, func(s *eventhook.Subscription) { s.Filter = []byte(`{"body.amount":{"$lt":1}}`) })
		b.publish(s, 3, "")
		defer b.run(slowStore{b.fakeStore, 10 * time.Second})()
		id := b.start(s, eventhook.ReplayRequest{Missing: true})
		time.Sleep(2 * time.Minute)
		if r := b.replay(s, id); r.Status != eventhook.ReplayCompleted {
			t.Errorf("after 2 minutes the replay is %s, want it completed", r.Status)
		}
	})
}
