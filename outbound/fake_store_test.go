package outbound_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/cpushare"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/outbound"
	matching "github.com/eventhook/eventhook/outbound/match"
	"github.com/eventhook/eventhook/outbound/schedule"
)

var errStore = errors.New("the database is down: host=10.1.2.3 password=hunter2")

// fakeStore is a fake in memory of all dependencies of the publisher and the fan-out: Subscriptions,
// PublishStore, Settler, the local dispatcher and an observer.
type fakeStore struct {
	mu           sync.Mutex
	generation   map[eventhook.TenantID]int64
	lists        map[eventhook.TenantID][]eventhook.Subscription
	reads        int
	err          error         // the error of reads and commits
	lostAnswer   error         // the error of commits that succeed but lose their answer
	commitTokens chan struct{} // each commit receives one; nil: commits do not wait
	refuse       string        // the store rejects events of this type
	beforeEach   func()        // called before each commit without a lock; may be nil

	events     map[eventhook.EventID]*eventhook.Event
	deliveries map[eventhook.DeliveryID]eventhook.Delivery
	keys       map[string]eventhook.EventID
	commits    [][]string // the event types of each commit
	stale      int        // number of events that were rejected as stale
	outcome    map[eventhook.EventID]string

	isUnknown, isPaused bool // state of the targets of routes

	capacity map[eventhook.SubscriptionID]int // free capacity for deliveries
	reserved map[eventhook.SubscriptionID]int // reserved, neither enqueued nor released
	enqueued []*eventhook.Delivery
	notified int
	faults   []string
	reported []int // deliveries of each commit, as reported to the observer

	log    *slog.Logger
	logged *strings.Builder
}

const storeLease = 30 * time.Second

func newFakeStore(list ...eventhook.Subscription) *fakeStore {
	o := &fakeStore{
		generation: map[eventhook.TenantID]int64{}, lists: map[eventhook.TenantID][]eventhook.Subscription{}, events: map[eventhook.EventID]*eventhook.Event{},
		deliveries: map[eventhook.DeliveryID]eventhook.Delivery{}, keys: map[string]eventhook.EventID{}, capacity: map[eventhook.SubscriptionID]int{},
		reserved: map[eventhook.SubscriptionID]int{}, logged: &strings.Builder{},
		outcome: map[eventhook.EventID]string{},
	}
	o.log = slog.New(slog.NewTextHandler(o.logged, nil))
	for _, s := range list {
		o.add(s)
	}
	return o
}

// add adds a subscription with capacity for 1000 deliveries.
func (o *fakeStore) add(s eventhook.Subscription) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lists[s.TenantID] = append(o.lists[s.TenantID], s)
	o.generation[s.TenantID]++
	o.capacity[s.ID] = 1000
}

func (o *fakeStore) set(change func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change()
}

// newShares returns a limiter with the default configuration.
func newShares() *cpushare.Limiter { return cpushare.New(cpushare.DefaultConfig(), nil, time.Now) }

func (o *fakeStore) subscriptionCache() *matching.SubscriptionCache {
	return matching.NewSubscriptionCache(100_000, o, o.log, time.Now)
}

func (o *fakeStore) TenantSubscriptions(ctx context.Context, tenant eventhook.TenantID) (int64, []eventhook.Subscription, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reads++
	if err := errors.Join(ctx.Err(), o.err); err != nil {
		return 0, nil, err
	}
	return o.generation[tenant], slices.Clone(o.lists[tenant]), nil
}

func (o *fakeStore) wait(ctx context.Context) error {
	o.mu.Lock()
	tokens, before := o.commitTokens, o.beforeEach
	o.mu.Unlock()
	if tokens != nil {
		select {
		case <-tokens:
		case <-ctx.Done():
		}
	}
	if before != nil {
		before()
	}
	return ctx.Err()
}

func (o *fakeStore) Publish(ctx context.Context, batch []*outbound.PublishItem) error {
	if err := o.wait(ctx); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return o.err
	}
	var types []string
	for _, p := range batch {
		e := p.Event
		p.IsStale = p.Generation != o.generation[e.TenantID]
		if e.Status != "" || len(e.Headers) == 0 {
			o.faults = append(o.faults, fmt.Sprintf("published as %q with headers %q", e.Status, e.Headers))
		}
		switch first, again := o.keys[keyIn(e.TenantID, e.IdempotencyKey)]; {
		case p.IsStale:
			o.stale++
		case e.EventType == o.refuse && o.refuse != "":
		case e.IdempotencyKey != "" && again:
			e.Status, e.DuplicateOf, p.Count = eventhook.EventDuplicate, first, o.countOf(first)
		default:
			types = append(types, e.EventType)
			o.store(e, p.Deliveries)
			e.Status, p.Count = eventhook.EventDelivered, len(p.Deliveries)
		}
	}
	o.commits = append(o.commits, types)
	return nil
}

// store stores copies of an event and its deliveries.
func (o *fakeStore) store(e *eventhook.Event, deliveries []*eventhook.Delivery) {
	o.events[e.ID] = e
	if e.IdempotencyKey != "" {
		o.keys[keyIn(e.TenantID, e.IdempotencyKey)] = e.ID
	}
	for _, d := range deliveries {
		isLeased := d.Lease.Token == 1 && d.Lease.Until.After(time.Now())
		if isLeased != (d.Status == eventhook.DeliveryAcquired) || !isLeased && (d.Lease != eventhook.Lease{} || d.Status != eventhook.DeliveryPending) {
			o.faults = append(o.faults, fmt.Sprintf("stored %s under lease %v", d.Status, d.Lease))
		}
		if _, again := o.deliveries[d.ID]; !again {
			o.deliveries[d.ID] = *d
		}
	}
}

// keyIn returns a key that is unique across tenants.
func keyIn(tenant eventhook.TenantID, key string) string { return tenant.String() + " " + key }

func (o *fakeStore) countOf(id eventhook.EventID) (n int) {
	for _, d := range o.deliveries {
		if d.EventID == id {
			n++
		}
	}
	return n
}

// Accept stores events with their plans. The field outcome can set another result for an event.
func (o *fakeStore) Accept(ctx context.Context, batch []*effects.Arrival) error {
	if err := o.wait(ctx); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, a := range batch {
		if a.Plan != nil {
			concludeAsPlanned(a.Plan)
		}
	}
	if o.err != nil {
		return o.err
	}
	var types []string
	for _, a := range batch {
		if a.Plan != nil {
			a.Plan.IsStale = a.Plan.Generation != o.generation[a.Event.TenantID]
		}
		switch outcome := o.outcome[a.Event.ID]; {
		case outcome == "refused":
			continue
		case outcome == "duplicate":
			a.Event.Status = eventhook.EventDuplicate
			continue
		case outcome == "plan refused":
			a.IsPlanRefused = true
		}
		a.Event.Status = eventhook.EventPending
		if plan := a.PlanToStore(); plan != nil && !plan.IsStale {
			a.Event.Status = eventhook.EventDelivered
			types = append(types, o.settle(a.Plan)...)
		}
	}
	o.commits = append(o.commits, types)
	return o.lostAnswer
}

// SettleEvents settles each event once. The field outcome can set another result for an event.
func (o *fakeStore) SettleEvents(ctx context.Context, batch []*effects.Settlement) (unsettled []*effects.Settlement, err error) {
	if err := o.wait(ctx); err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return nil, o.err
	}
	var types []string
	for _, s := range batch {
		s.IsStale = s.Generation != o.generation[s.Event.TenantID]
		if s.IsStale || s.Event.Lease.Token == 0 || o.outcome[s.Event.ID] == "settled" {
			concludeAsPlanned(s)
			unsettled = append(unsettled, s)
			continue
		}
		if o.outcome[s.Event.ID] == "plan refused" {
			for i := range s.Actions {
				s.Actions[i].Failure = "refused"
			}
		}
		types = append(types, o.settle(s)...)
		o.outcome[s.Event.ID] = "settled"
	}
	o.commits = append(o.commits, types)
	return unsettled, o.lostAnswer
}

// concludeAsPlanned sets the planned statuses of the actions.
func concludeAsPlanned(s *effects.Settlement) {
	for i := range s.Actions {
		if s.Actions[i].Status = eventhook.ActionSuccess; s.Actions[i].Effect.Request != nil {
			s.Actions[i].Status = eventhook.ActionPending
		}
	}
}

func (o *fakeStore) settle(s *effects.Settlement) (types []string) {
	for i := range s.Actions {
		a := &s.Actions[i]
		a.Status = eventhook.ActionSuccess
		p := a.Effect.Publication
		var first eventhook.EventID
		if p != nil {
			first = o.keys[keyIn(s.Event.TenantID, p.IdempotencyKey)]
		}
		switch {
		case a.Failure != "":
			a.Status = eventhook.ActionFailed
		case a.Effect.Request != nil:
			a.Status = eventhook.ActionPending
			o.store(s.Event, []*eventhook.Delivery{a.Effect.Request.Delivery})
		case p == nil:
		case p.IdempotencyKey != "" && !first.IsZero() && first != p.ID:
			a.Status = eventhook.ActionSkipped
		default:
			types = append(types, p.EventType)
			o.store(&eventhook.Event{ID: p.ID, TenantID: s.Event.TenantID, IdempotencyKey: p.IdempotencyKey}, p.Deliveries)
		}
	}
	return types
}

// Cached returns the target of a route from memory.
func (o *fakeStore) Cached(of eventhook.Destination) (outbound.Destination, bool) {
	to := outbound.Destination{Destination: schedule.Destination{ID: of.ID(), TenantID: of.TenantID, Ready: !o.isPaused}}
	return to, !o.isUnknown
}

func (o *fakeStore) Reserve(to schedule.Destination, n int) (granted int, until time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	id := eventhook.SubscriptionID(to.ID)
	granted = min(n, o.capacity[id])
	o.capacity[id] -= granted
	o.reserved[id] += granted
	return granted, time.Now().Add(storeLease + to.Timeout)
}

func (o *fakeStore) Release(to eventhook.DestinationID, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := eventhook.SubscriptionID(to)
	o.reserved[s] -= n
	o.capacity[s] += n
}

func (o *fakeStore) Enqueue(list []*eventhook.Delivery) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, d := range list {
		if stored, ok := o.deliveries[d.ID]; !ok || stored.Lease != d.Lease || d.Event == nil || d.Event.ID != d.EventID {
			o.faults = append(o.faults, fmt.Sprintf("enqueued %+v, which is stored as %+v", d, stored))
		}
		o.reserved[eventhook.SubscriptionID(d.DestinationID)]--
		o.enqueued = append(o.enqueued, d)
		d.Attempts++ // the dispatcher modifies its deliveries
	}
}

func (o *fakeStore) NotifyDue() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.notified++
}

func (o *fakeStore) Published(_, deliveries int, _ time.Duration, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil {
		o.reported = append(o.reported, deliveries)
	}
}

// check fails the test if capacity was lost, or if a delivery that is leased to this instance was
// not enqueued. If the answer of a commit was lost, its deliveries need not be enqueued.
func (o *fakeStore) check(t interface {
	Helper()
	Error(args ...any)
	Errorf(format string, args ...any)
}) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range o.faults {
		t.Error(f)
	}
	for s, n := range o.reserved {
		if n != 0 {
			t.Errorf("subscription %s: %d reservations neither used nor released, want 0", s, n)
		}
	}
	leased := 0
	for _, d := range o.deliveries {
		if d.Status == eventhook.DeliveryAcquired {
			leased++
		}
	}
	if o.lostAnswer == nil && leased != len(o.enqueued) {
		t.Errorf("enqueued %d deliveries, want the %d that are leased", len(o.enqueued), leased)
	}
}

// storedFor returns the number of stored deliveries of the subscription with a name, and the number
// of leased deliveries among them.
func (o *fakeStore) storedFor(name string) (stored, leased int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, list := range o.lists {
		for _, s := range list {
			for _, d := range o.deliveries {
				if s.Name != name || d.SubscriptionID != s.ID {
					continue
				}
				if stored++; d.Status == eventhook.DeliveryAcquired {
					leased++
				}
			}
		}
	}
	return stored, leased
}
