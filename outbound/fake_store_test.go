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

var errOffice = errors.New("the database is down: host=10.1.2.3 password=hunter2")

// fakeStore keeps, in memory, the contracts of all that publishing works with: it
// is Subscriptions, PublishStore, Settler, EventTypes, Room and an observer.
type fakeStore struct {
	mu         sync.Mutex
	generation map[eventhook.TenantID]int64
	lists      map[eventhook.TenantID][]eventhook.Subscription
	reads      int
	err        error         // what reads and commits answer
	lossy      error         // what commits answer that were made all the same
	gate       chan struct{} // each commit takes one; nil: open
	refuse     string        // the type of events that the database refuses
	beforeEach func()        // a commit, with nothing locked; may be nil

	events     map[eventhook.EventID]*eventhook.Event
	deliveries map[eventhook.DeliveryID]eventhook.Delivery
	keys       map[string]eventhook.EventID
	commits    [][]string // the types of events in each
	stale      int        // refused for that
	outcome    map[eventhook.EventID]string

	isUnknown, isPaused bool // the targets of routes

	room   map[eventhook.SubscriptionID]int // places that are left
	open   map[eventhook.SubscriptionID]int // granted, neither put nor released
	put    []*eventhook.Delivery
	left   int
	faults []string
	heard  []int // deliveries of each commit that was told

	types   map[eventhook.TenantID][]eventhook.EventType
	misfits []string
	log     *slog.Logger
	logged  *strings.Builder
}

const officeLease = 30 * time.Second

func newFakeStore(list ...eventhook.Subscription) *fakeStore {
	o := &fakeStore{
		generation: map[eventhook.TenantID]int64{}, lists: map[eventhook.TenantID][]eventhook.Subscription{}, events: map[eventhook.EventID]*eventhook.Event{},
		deliveries: map[eventhook.DeliveryID]eventhook.Delivery{}, keys: map[string]eventhook.EventID{}, room: map[eventhook.SubscriptionID]int{},
		open: map[eventhook.SubscriptionID]int{}, types: map[eventhook.TenantID][]eventhook.EventType{}, logged: &strings.Builder{},
		outcome: map[eventhook.EventID]string{},
	}
	o.log = slog.New(slog.NewTextHandler(o.logged, nil))
	for _, s := range list {
		o.add(s)
	}
	return o
}

// add makes a subscription, for which there is room for a thousand deliveries.
func (o *fakeStore) add(s eventhook.Subscription) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lists[s.TenantID] = append(o.lists[s.TenantID], s)
	o.generation[s.TenantID]++
	o.room[s.ID] = 1000
}

func (o *fakeStore) set(change func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change()
}

// newShares returns shares as they are by default.
func newShares() *cpushare.Limiter { return cpushare.New(cpushare.DefaultConfig(), nil, time.Now) }

func (o *fakeStore) rosters() *matching.SubscriptionCache {
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
	gate, before := o.gate, o.beforeEach
	o.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
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
			o.keep(e, p.Deliveries)
			e.Status, p.Count = eventhook.EventDelivered, len(p.Deliveries)
		}
	}
	o.commits = append(o.commits, types)
	return nil
}

// keep stores an event with its deliveries, as they are now.
func (o *fakeStore) keep(e *eventhook.Event, deliveries []*eventhook.Delivery) {
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

// keyIn is a tenant's key among the keys of all tenants.
func keyIn(tenant eventhook.TenantID, key string) string { return tenant.String() + " " + key }

func (o *fakeStore) countOf(id eventhook.EventID) (n int) {
	for _, d := range o.deliveries {
		if d.EventID == id {
			n++
		}
	}
	return n
}

// Accept stores events with their plans. Of each event, outcome says how.
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
	return o.lossy
}

// SettleEvents settles events, each once. Of each event, outcome says how.
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
	return unsettled, o.lossy
}

// concludeAsPlanned gives actions the states that they would have had.
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
			o.keep(s.Event, []*eventhook.Delivery{a.Effect.Request.Delivery})
		case p == nil:
		case p.IdempotencyKey != "" && !first.IsZero() && first != p.ID:
			a.Status = eventhook.ActionSkipped
		default:
			types = append(types, p.EventType)
			o.keep(&eventhook.Event{ID: p.ID, TenantID: s.Event.TenantID, IdempotencyKey: p.IdempotencyKey}, p.Deliveries)
		}
	}
	return types
}

// Cached tells the targets of routes that are in memory.
func (o *fakeStore) Cached(of eventhook.Destination) (outbound.Destination, bool) {
	to := outbound.Destination{Destination: schedule.Destination{ID: of.ID(), TenantID: of.TenantID, Ready: !o.isPaused}}
	return to, !o.isUnknown
}

func (o *fakeStore) Reserve(to schedule.Destination, n int) (granted int, until time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	id := eventhook.SubscriptionID(to.ID)
	granted = min(n, o.room[id])
	o.room[id] -= granted
	o.open[id] += granted
	return granted, time.Now().Add(officeLease + to.Timeout)
}

func (o *fakeStore) Release(to eventhook.DestinationID, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := eventhook.SubscriptionID(to)
	o.open[s] -= n
	o.room[s] += n
}

func (o *fakeStore) Enqueue(list []*eventhook.Delivery) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, d := range list {
		if stored, ok := o.deliveries[d.ID]; !ok || stored.Lease != d.Lease || d.Event == nil || d.Event.ID != d.EventID {
			o.faults = append(o.faults, fmt.Sprintf("put %+v, which is stored as %+v", d, stored))
		}
		o.open[eventhook.SubscriptionID(d.DestinationID)]--
		o.put = append(o.put, d)
		d.Attempts++ // whoever has it writes into it
	}
}

func (o *fakeStore) NotifyDue() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.left++
}

func (o *fakeStore) Published(_, deliveries int, _ time.Duration, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil {
		o.heard = append(o.heard, deliveries)
	}
}

// check says what must be true at the end of every test: no room is lost, and
// what is leased to this instance was put, unless the answer to its commit was
// lost.
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
	for s, n := range o.open {
		if n != 0 {
			t.Errorf("subscription %s: %d places neither put nor released, want 0", s, n)
		}
	}
	leased := 0
	for _, d := range o.deliveries {
		if d.Status == eventhook.DeliveryAcquired {
			leased++
		}
	}
	if o.lossy == nil && leased != len(o.put) {
		t.Errorf("put %d deliveries, want the %d that are leased", len(o.put), leased)
	}
}

// storedFor counts the deliveries to a subscription by name, and those of them
// that are leased.
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
