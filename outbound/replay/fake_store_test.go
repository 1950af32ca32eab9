package replay_test

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound/replay"
	"github.com/eventhook/eventhook/outbound/replay/replaytest"
)

var acme = eventhook.NewID[eventhook.Tenant](time.Unix(0, 0))

// fakeStore is a replay.Store in memory, for the clock of a synctest bubble. Several workers
// may share it.
type fakeStore struct {
	mu         sync.Mutex
	subs       map[eventhook.SubscriptionID]eventhook.Subscription
	failing    bool                                     // an outage of each receiver is going on
	events     []*eventhook.Event                       // oldest first
	deliveries map[eventhook.DeliveryID]*storedDelivery // of all subscriptions
	replays    []*storedReplay                          // in the order of their creation
	wake       chan struct{}
	served     map[eventhook.TenantID]bool // that had a lease in this round
	leases     int                         // number of LeaseReplay calls that found a replay
	fails      error                       // the error of the next AdvanceReplay
	mostOpen   int                         // the most open deliveries of a replay at a time
}

type storedDelivery struct {
	eventhook.Delivery
	releasedBy eventhook.ReplayID
	sent       int
}

type storedReplay struct {
	replay.Job
	dueAt time.Time // zero after its end
}

func newFakeStore() *fakeStore {
	return &fakeStore{subs: map[eventhook.SubscriptionID]eventhook.Subscription{}, deliveries: map[eventhook.DeliveryID]*storedDelivery{}, served: map[eventhook.TenantID]bool{}, wake: make(chan struct{})}
}

func (f *fakeStore) subscribe(eventTypes ...string) eventhook.Subscription {
	if len(eventTypes) == 0 {
		eventTypes = []string{"payment.*"}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	time.Sleep(time.Millisecond) // another id
	s := eventhook.Subscription{ID: eventhook.NewID[eventhook.Subscription](time.Now()), TenantID: acme, Status: eventhook.SubscriptionActive,
		EventTypes: eventTypes, CreatedAt: time.Now()}
	f.subs[s.ID] = s
	return s
}

// subscribeOther is subscribe for another tenant.
func (f *fakeStore) subscribeOther() eventhook.Subscription {
	s := f.subscribe()
	time.Sleep(time.Millisecond)
	f.change(s.ID, func(s *eventhook.Subscription) { s.TenantID = eventhook.NewID[eventhook.Tenant](time.Now()) })
	return f.subs[s.ID]
}

// change changes a stored subscription.
func (f *fakeStore) change(id eventhook.SubscriptionID, change func(*eventhook.Subscription)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.subs[id]
	change(&s)
	f.subs[id] = s
}

func (f *fakeStore) publish(to eventhook.Subscription, n int, status eventhook.DeliveryStatus) (ids []eventhook.EventID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for range n {
		e := f.store(eventhook.OriginAPI, "payment.made")
		ids = append(ids, e.ID)
		if status != "" {
			d := f.newDelivery(e, to.ID)
			d.Status, d.CompletedAt = status, new(time.Now())
			f.deliveries[d.ID] = d
		}
	}
	return ids
}

func (f *fakeStore) publishAs(origin eventhook.Origin, eventType string) eventhook.EventID {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.store(origin, eventType).ID
}

func (f *fakeStore) store(origin eventhook.Origin, eventType string) *eventhook.Event {
	time.Sleep(time.Millisecond) // another id
	e := &eventhook.Event{ID: eventhook.NewID[eventhook.Event](time.Now()), TenantID: acme, Origin: origin, EventType: eventType, Payload: eventhook.Payload{Body: []byte(`{"amount":1}`)}}
	f.events = append(f.events, e)
	return e
}

func (f *fakeStore) newDelivery(e *eventhook.Event, to eventhook.SubscriptionID) *storedDelivery {
	id := eventhook.DestinationID(to)
	return &storedDelivery{Delivery: eventhook.Delivery{ID: eventhook.DeliveryIDOf(e.ID, id), TenantID: acme, SubscriptionID: to, DestinationID: id, EventID: e.ID, EventType: e.EventType}}
}

func (f *fakeStore) start(of eventhook.Subscription, r eventhook.ReplayRequest) eventhook.ReplayID {
	return f.startOf(eventhook.ReplayRequested, of, r)
}

func (f *fakeStore) startOf(kind eventhook.ReplayKind, of eventhook.Subscription, r eventhook.ReplayRequest) eventhook.ReplayID {
	time.Sleep(time.Millisecond)
	f.mu.Lock()
	defer f.mu.Unlock()
	r = r.Normalized()
	r.Until = time.Now()
	id := eventhook.NewID[eventhook.Replay](time.Now())
	f.replays = append(f.replays, &storedReplay{dueAt: time.Now(), Job: replay.Job{Replay: eventhook.Replay{ID: id, TenantID: of.TenantID, SubscriptionID: of.ID,
		Kind: kind, Status: eventhook.ReplayRunning, ReplayRequest: r, CreatedAt: time.Now()}}})
	close(f.wake)
	f.wake = make(chan struct{})
	return id
}

// recover starts the recovery of an outage.
func (f *fakeStore) recover(of eventhook.Subscription, since, until time.Time) eventhook.ReplayID {
	id := f.startOf(eventhook.ReplayRecovery, of, eventhook.ReplayRequest{Since: since})
	f.mu.Lock()
	defer f.mu.Unlock()
	f.find(id).Until = until
	return id
}

func (f *fakeStore) find(id eventhook.ReplayID) *storedReplay {
	return f.replays[slices.IndexFunc(f.replays, func(r *storedReplay) bool { return r.ID == id })]
}

func (f *fakeStore) replay(_ eventhook.Subscription, id eventhook.ReplayID) eventhook.Replay {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.find(id).Replay
}

func (f *fakeStore) cancel(_ eventhook.Subscription, id eventhook.ReplayID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.find(id)
	r.Status, r.FinishedAt, r.dueAt = eventhook.ReplayCancelled, new(time.Now()), time.Time{}
}

// deliver ends all open deliveries to a subscription.
func (f *fakeStore) deliver(to eventhook.Subscription, status eventhook.DeliveryStatus) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range f.deliveries {
		if d.SubscriptionID == to.ID && d.Status == eventhook.DeliveryPending {
			d.Status, d.CompletedAt = status, new(time.Now())
			d.sent++
			n++
		}
	}
	return n
}

func (f *fakeStore) ReplaysWake() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wake
}

func (f *fakeStore) LeaseReplay(ctx context.Context, lease time.Duration) (*replay.Job, time.Time, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	first := f.firstDue(f.served)
	if first == nil || first.dueAt.After(time.Now()) {
		f.served = map[eventhook.TenantID]bool{}
		first = f.firstDue(nil)
	}
	switch {
	case first == nil:
		return nil, time.Time{}, ctx.Err()
	case first.dueAt.After(time.Now()):
		return nil, first.dueAt, ctx.Err()
	}
	f.leases++
	f.served[first.TenantID] = true
	first.dueAt = time.Now().Add(lease)
	first.LeaseToken++
	first.Subscription, first.IsFailing, first.Open = f.subs[first.SubscriptionID], f.failing, 0
	for _, d := range f.deliveries {
		if d.releasedBy == first.ID && d.Status == eventhook.DeliveryPending {
			first.Open++
		}
	}
	f.mostOpen = max(f.mostOpen, first.Open)
	return new(first.Job), time.Time{}, ctx.Err()
}

// firstDue returns the replay that is due first, except those of skipped tenants.
func (f *fakeStore) firstDue(skipped map[eventhook.TenantID]bool) (first *storedReplay) {
	for _, r := range f.replays {
		if !r.dueAt.IsZero() && !skipped[r.TenantID] && (first == nil || r.dueAt.Before(first.dueAt)) {
			first = r
		}
	}
	return first
}

func (f *fakeStore) ReplayPage(ctx context.Context, job *replay.Job, limit int) (page replay.Page, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	read := 0
	for _, e := range f.events {
		d := f.newDelivery(e, job.SubscriptionID)
		cursor, stored := [16]byte(d.ID), f.deliveries[d.ID]
		if job.Missing {
			cursor = e.ID
		}
		if stored != nil {
			d = stored
		}
		if bytes.Compare(cursor[:], job.Cursor[:]) <= 0 || e.ID.Time().Before(job.Start()) || !e.ID.Time().Before(job.Until) ||
			!job.Missing && !slices.Contains(job.Statuses, d.Status) {
			continue
		}
		page.Deliveries, page.Cursor = append(page.Deliveries, new(d.Delivery)), cursor
		if read++; read == limit {
			break
		}
	}
	page.IsLast = read < limit
	return page, ctx.Err()
}

func (f *fakeStore) ReadReplayEvents(ctx context.Context, list []*eventhook.Delivery) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range list {
		d.Event = f.events[slices.IndexFunc(f.events, func(e *eventhook.Event) bool { return e.ID == d.EventID })]
	}
	return len(list), ctx.Err()
}

func (f *fakeStore) AdvanceReplay(ctx context.Context, job *replay.Job, step replay.Step) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := cmp.Or(f.fails, ctx.Err()); err != nil {
		f.fails = nil
		return err
	}
	r := f.find(job.ID)
	if r.Status != eventhook.ReplayRunning || r.LeaseToken != job.LeaseToken {
		return nil
	}
	for _, d := range step.Queue {
		f.queue(r, d)
	}
	r.Matched += int64(step.Matched)
	r.Cursor, r.IsRead, r.dueAt = step.Cursor, step.IsRead, step.DueAt
	if step.Counts {
		r.Sent, r.Failed, r.CountedAt = f.ended(r.ID, eventhook.DeliverySuccess), f.ended(r.ID, eventhook.DeliveryDead), time.Now()
	}
	if step.End != "" {
		r.Status, r.FinishedAt, r.dueAt = step.End, new(time.Now()), time.Time{}
	}
	return nil
}

// queue creates or restarts a delivery, unless another replay has queued it since r was created.
func (f *fakeStore) queue(r *storedReplay, d *eventhook.Delivery) {
	stored := f.deliveries[d.ID]
	switch {
	case stored == nil:
		stored = &storedDelivery{Delivery: *d}
		f.deliveries[d.ID] = stored
	case !slices.Contains(r.Statuses, stored.Status) || d.Status == "",
		stored.Status != eventhook.DeliveryDead && stored.RestartedAt != nil && !stored.RestartedAt.Before(r.CreatedAt):
		return
	}
	stored.Status, stored.CompletedAt, stored.RestartedAt, stored.releasedBy = eventhook.DeliveryPending, nil, new(time.Now()), r.ID
	r.Queued, r.ReleasedAt = r.Queued+1, time.Now()
}

func (f *fakeStore) ended(by eventhook.ReplayID, status eventhook.DeliveryStatus) (n int64) {
	for _, d := range f.deliveries {
		if d.releasedBy == by && d.Status == status {
			n++
		}
	}
	return n
}

// The fake of the worker's tests keeps the contract that internal/pg keeps.
func TestTheFakeStoreConforms(t *testing.T) {
	for name, check := range replaytest.Cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeStore()
				check(t, replaytest.Store{Store: f, Subscribe: f.subscribe, SubscribeOther: f.subscribeOther, Publish: f.publish, PublishAs: f.publishAs, Start: f.start, Recover: f.recover, Replay: f.replay, Cancel: f.cancel,
					Deliver: f.deliver, Advance: time.Sleep, Now: time.Now})
			})
		})
	}
}
