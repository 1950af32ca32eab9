package pg

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
	"github.com/eventhook/eventhook/outbound/replay"
	"github.com/jackc/pgx/v5"
)

// ordered returns an event with a delivery to a subscription, ordered by a value; "" is no value.
func (f *fixture) ordered(to *eventhook.Subscription, value string) *outbound.PublishItem {
	p := f.newPublication("", to)
	if value != "" {
		p.Deliveries[0].OrderKey = eventhook.OrderKeyOf(value)
	}
	return p
}

// publishOrdered publishes an event for each value, in one batch.
func (f *fixture) publishOrdered(to *eventhook.Subscription, values ...string) (ids []eventhook.DeliveryID) {
	f.Helper()
	var batch []*outbound.PublishItem
	for _, v := range values {
		f.clock.Advance(time.Millisecond)
		p := f.ordered(to, v)
		batch, ids = append(batch, p), append(ids, p.Deliveries[0].ID)
	}
	f.publish(f.db, batch...)
	return ids
}

func (f *fixture) wantClaimed(db *DB, of *eventhook.Subscription, want ...eventhook.DeliveryID) []*eventhook.Delivery {
	f.Helper()
	list := f.claimDeliveries(db, 100, of)
	got := []eventhook.DeliveryID{}
	for _, d := range list {
		got = append(got, d.ID)
	}
	slices.SortFunc(got, func(x, y eventhook.DeliveryID) int { return slices.Compare(x[:], y[:]) })
	slices.SortFunc(want, func(x, y eventhook.DeliveryID) int { return slices.Compare(x[:], y[:]) })
	same(f, "claimed", got, append([]eventhook.DeliveryID{}, want...))
	return list
}

func (f *fixture) settleAll(db *DB, status eventhook.DeliveryStatus, list ...*eventhook.Delivery) {
	f.Helper()
	for _, d := range list {
		f.settleDeliveries(db, f.settlement(d, status))
	}
}

func (f *fixture) restartAll(ids ...eventhook.DeliveryID) {
	f.Helper()
	got, err := f.db.RestartDeliveries(f.Context(), operator, f.tenant, eventhook.DeliverySelection{IDs: ids, Statuses: eventhook.DeliveryStatuses, Limit: len(ids)})
	f.must(err)
	same(f, "restarted", len(got), len(ids))
}

func TestRestartedDeliveriesPrecedeWaitingOnes(t *testing.T) {
	f := setUp(t)
	f.keep(Retention{})
	s := f.insertSubscription()
	ids := f.publishOrdered(s, "a", "a", "a", "a", "a")
	for range 2 {
		f.settleAll(f.db, eventhook.DeliveryDead, f.claimDeliveries(f.db, 1, s)...)
	}
	f.restartAll(ids[1], ids[0]) // while the third one is due, and not leased
	f.settleAll(f.db, eventhook.DeliverySuccess, f.wantClaimed(f.db, s, ids[0])...)
	leased := f.wantClaimed(f.other, s, ids[1])
	f.restartAll(ids[0]) // while the second one is leased, which is sent first
	f.wantClaimed(f.db, s)
	f.settleAll(f.other, eventhook.DeliverySuccess, leased...)
	for _, id := range []eventhook.DeliveryID{ids[0], ids[2], ids[3], ids[4]} {
		f.settleAll(f.db, eventhook.DeliverySuccess, f.wantClaimed(f.db, s, id)...)
	}
}

func TestAFailedDeliveryIsRestartedInItsPlace(t *testing.T) {
	f := setUp(t)
	f.keep(Retention{})
	s := f.insertSubscription()
	ids := f.publishOrdered(s, "a", "a", "a")
	f.settleAll(f.db, eventhook.DeliveryDead, f.wantClaimed(f.db, s, ids[0])...)
	f.settleAll(f.db, eventhook.DeliveryFailed, f.wantClaimed(f.db, s, ids[1])...)
	f.restartAll(ids[0]) // precedes the retry, which waits now
	f.restartAll(ids[1]) // as it is open, it goes on waiting
	for _, id := range ids {
		f.settleAll(f.db, eventhook.DeliverySuccess, f.wantClaimed(f.db, s, id)...)
	}
}

func TestADeliveryThatWaitsIsListedAsPendingWithoutATime(t *testing.T) {
	f := setUp(t)
	f.keep(Retention{})
	s := f.insertSubscription()
	ids := f.publishOrdered(s, "a", "a")
	d, _ := f.delivery(ids[1])
	if d.Status != eventhook.DeliveryPending || d.NextAttemptAt != nil {
		t.Errorf("got %s, next attempt at %v; want pending without a time", d.Status, d.NextAttemptAt)
	}
	stats, err := f.db.SubscriptionStats(t.Context(), f.tenant, s.ID)
	f.must(err)
	same(t, "open deliveries", stats.Waiting, 2)
	f.clock.Advance(time.Minute)
	age, err := ageDelivery(t, f.db)
	f.must(err)
	if age < time.Minute || age > time.Hour {
		t.Errorf("the queue's age is %s, want about a minute", age)
	}
}

func TestExpiryEndsDeliveriesThatWaitAndMakesTheNextOneDue(t *testing.T) {
	f := setUp(t)
	f.keep(Retention{})
	s := f.insertSubscription()
	f.publishOrdered(s, "a", "a", "a", "b", "b")
	f.clock.Advance(3 * day)
	young := f.publishOrdered(s, "a", "a")
	n, err := f.db.ExpireDeliveries(t.Context(), day)
	f.must(err)
	same(t, "expired", n, 5)
	f.settleAll(f.db, eventhook.DeliverySuccess, f.wantClaimed(f.db, s, young[0])...)
	f.wantClaimed(f.db, s, young[1])
}

// The statement stands for one that an earlier version, or other code, runs without knowing
// about the order.
func TestAnyStatementThatEndsADeliveryMakesTheNextOneDue(t *testing.T) {
	f := setUp(t)
	f.keep(Retention{})
	s := f.insertSubscription()
	ids := f.publishOrdered(s, "a", "a", "b", "a")
	f.exec(`UPDATE eventhook.delivery SET status = 'dead', due_at = NULL, completed_at = $2 WHERE id = ANY($1)`,
		uuids([]eventhook.DeliveryID{ids[0], ids[2]}), f.clock.Now())
	f.wantClaimed(f.db, s, ids[1])
	f.exec(`UPDATE eventhook.delivery SET status = 'pending', due_at = $2, completed_at = NULL WHERE id = ANY($1)`,
		uuids([]eventhook.DeliveryID{ids[0], ids[2]}), f.clock.Now())
	f.wantClaimed(f.db, s, ids[2]) // the other one waits for the leased delivery of its key
}

func TestDeliveriesKeepTheirKeyWhenTheOrderChanges(t *testing.T) {
	f := setUp(t)
	f.keep(Retention{})
	s := f.insertSubscription()
	old := f.publishOrdered(s, "a", "a")
	fresh := f.publishOrdered(s, "x", "", "x")
	first := f.wantClaimed(f.db, s, old[0], fresh[0], fresh[1])
	f.settleAll(f.db, eventhook.DeliverySuccess, first...)
	f.settleAll(f.db, eventhook.DeliverySuccess, f.wantClaimed(f.db, s, old[1], fresh[2])...)
}

// orderModel checks the claims of ordered deliveries.
type orderModel struct {
	*fixture
	random *rand.Rand
	to     *eventhook.Subscription
	values []string
	value  map[eventhook.DeliveryID]string
	open   map[string][]eventhook.DeliveryID // by value, in the order of the sequence
	held   map[string]*eventhook.Delivery    // the delivery of a value that an instance claimed last
	holder map[eventhook.DeliveryID]*DB
	dead   []eventhook.DeliveryID
	until  map[eventhook.DeliveryID]time.Time
}

func (m *orderModel) publish() {
	var values []string
	for range 1 + m.random.IntN(6) {
		values = append(values, m.values[m.random.IntN(len(m.values))])
	}
	for i, id := range m.publishOrdered(m.to, values...) {
		m.value[id] = values[i]
		m.open[values[i]] = append(m.open[values[i]], id)
	}
}

func (m *orderModel) claim(db *DB) {
	for _, d := range m.claimDeliveries(db, 1+m.random.IntN(3), m.to) {
		v := m.value[d.ID]
		if first := m.open[v][0]; d.ID != first {
			m.Fatalf("claimed %s of %q, want %s", d.ID, v, first)
		}
		if m.held[v] != nil && m.held[v].ID == d.ID && m.clock.Now().Before(m.until[d.ID]) {
			m.Fatalf("claimed %s while its lease lasts", d.ID)
		}
		m.held[v], m.holder[d.ID], m.until[d.ID] = d, db, d.Lease.Until
	}
}

func (m *orderModel) settle() {
	var batch []*outbound.DeliverySettlement
	db := []*DB{m.db, m.other}[m.random.IntN(2)]
	for _, v := range m.values {
		d := m.held[v]
		if d == nil || m.holder[d.ID] != db || m.random.IntN(3) == 0 {
			continue
		}
		delete(m.held, v)
		status := []eventhook.DeliveryStatus{eventhook.DeliverySuccess, eventhook.DeliverySuccess, eventhook.DeliveryFailed, eventhook.DeliveryDead}[m.random.IntN(4)]
		if status != eventhook.DeliveryFailed {
			m.open[v] = m.open[v][1:]
		}
		if status == eventhook.DeliveryDead {
			m.dead = append(m.dead, d.ID)
		}
		batch = append(batch, m.settlement(d, status))
	}
	lost, err := db.SettleDeliveries(m.Context(), batch)
	m.must(err)
	same(m, "lost leases", len(lost), 0)
}

// expireLeases lets leases end: another instance claims the deliveries.
func (m *orderModel) expireLeases() {
	m.clock.Advance(2 * lease)
	clear(m.held)
}

func (m *orderModel) release() {
	for v, d := range m.held {
		m.must(m.holder[d.ID].ReleaseDeliveries(m.Context(), []*eventhook.Delivery{d}))
		delete(m.held, v)
	}
}

// restart restarts a dead delivery, which precedes all deliveries that were inserted later
// and are not leased.
func (m *orderModel) restart() {
	if len(m.dead) == 0 {
		return
	}
	i := m.random.IntN(len(m.dead))
	id := m.dead[i]
	m.dead = slices.Delete(m.dead, i, i+1)
	m.restartAll(id)
	v := m.value[id]
	list := m.open[v]
	at := 0
	for at < len(list) && (slices.Compare(list[at][:], id[:]) < 0 || at == 0 && m.isAcquired(list[0])) {
		at++
	}
	m.open[v] = slices.Insert(list, at, id)
}

func (m *orderModel) isAcquired(id eventhook.DeliveryID) bool {
	d, _ := m.delivery(id)
	return d.Status == eventhook.DeliveryAcquired
}

// Order holds under random outcomes, lost leases, releases and restarts, on two instances
// whose clocks differ by a second.
func TestOrderHoldsWhateverHappens(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			f := setUp(t)
			f.keep(Retention{})
			f.other = f.open(func(o *Options) { o.Now = func() time.Time { return f.clock.Now().Add(time.Second) } })
			m := &orderModel{fixture: f, random: rand.New(rand.NewPCG(seed, 1)), to: f.insertSubscription(), values: []string{"a", "b", "c"},
				value: map[eventhook.DeliveryID]string{}, open: map[string][]eventhook.DeliveryID{}, held: map[string]*eventhook.Delivery{},
				holder: map[eventhook.DeliveryID]*DB{}, until: map[eventhook.DeliveryID]time.Time{}}
			acts := []func(){m.publish, m.settle, m.settle, func() { m.claim(f.db) }, func() { m.claim(f.other) }, func() { m.claim(f.db) }, m.restart, m.release, m.expireLeases}
			for range 150 {
				acts[m.random.IntN(len(acts))]()
				f.clock.Advance(time.Duration(m.random.IntN(1500)) * time.Millisecond)
			}
			for range 1000 { // every delivery ends: none waits for ever
				if len(m.open["a"])+len(m.open["b"])+len(m.open["c"]) == 0 {
					return
				}
				f.clock.Advance(2 * time.Second)
				m.claim(f.db)
				m.settle()
			}
			t.Errorf("still open: %v", m.open)
		})
	}
}

// Transactions that insert and settle deliveries of the same keys at the same time leave each
// key with one due delivery, until none is left.
func TestOrderHoldsUnderConcurrency(t *testing.T) {
	f := setUp(t)
	f.keep(Retention{})
	s := f.insertSubscription()
	const publishers, batches, rows = 3, 15, 8
	var group sync.WaitGroup
	for i := range publishers {
		var list [][]*outbound.PublishItem
		for range batches {
			var batch []*outbound.PublishItem
			for n := range rows {
				f.clock.Advance(time.Millisecond)
				batch = append(batch, f.ordered(s, fmt.Sprint((i+n)%4)))
			}
			list = append(list, batch)
		}
		db := []*DB{f.db, f.other}[i%2]
		group.Go(func() {
			for _, batch := range list {
				if err := db.Publish(t.Context(), batch); err != nil {
					t.Error(err)
				}
			}
		})
	}
	var mu sync.Mutex
	busy, sent := map[eventhook.OrderKey]bool{}, 0
	begin := func(d *eventhook.Delivery) {
		mu.Lock()
		defer mu.Unlock()
		if busy[d.OrderKey] {
			t.Errorf("two deliveries of one key are leased at once")
		}
		busy[d.OrderKey] = true
	}
	end := func(list []*eventhook.Delivery) (isDone bool) {
		mu.Lock()
		defer mu.Unlock()
		for _, d := range list {
			busy[d.OrderKey] = false
			sent++
		}
		return sent >= publishers*batches*rows || t.Failed()
	}
	for _, db := range []*DB{f.db, f.other} {
		group.Go(func() {
			for {
				list, err := db.ClaimDeliveries(t.Context(), []outbound.Claim{{DestinationID: eventhook.DestinationID(s.ID), Max: 3, Lease: time.Hour}})
				if err != nil {
					t.Error(err)
				}
				var batch []*outbound.DeliverySettlement
				for _, d := range list {
					begin(d)
					batch = append(batch, f.settlement(d, eventhook.DeliverySuccess))
				}
				isDone := end(list)
				if lost, err := db.SettleDeliveries(t.Context(), batch); err != nil || len(lost) > 0 {
					t.Errorf("lost %d leases, %v", len(lost), err)
				}
				if isDone {
					return
				}
			}
		})
	}
	group.Wait()
}

func TestMissingDeliveriesPrecedeWaitingOnes(t *testing.T) {
	f := setUp(t)
	f.keep(Retention{})
	s := f.insertSubscription()
	var missing []*eventhook.Delivery
	for range 2 {
		f.clock.Advance(time.Millisecond)
		p := f.ordered(s, "a")
		missing = append(missing, &eventhook.Delivery{ID: p.Deliveries[0].ID, TenantID: f.tenant, SubscriptionID: s.ID, DestinationID: eventhook.DestinationID(s.ID),
			EventID: p.Event.ID, EventType: p.Event.EventType, OrderKey: p.Deliveries[0].OrderKey})
		p.Deliveries = nil
		f.publish(f.db, p)
	}
	ids := f.publishOrdered(s, "a", "a")
	job := &replay.Job{Replay: eventhook.Replay{ID: eventhook.NewID[eventhook.Replay](f.clock.Now()), TenantID: f.tenant, SubscriptionID: s.ID}}
	queue := func(want int) {
		f.must(f.db.inTx(t.Context(), "test", func(tx pgx.Tx) error {
			n, err := f.db.queueReplayed(t.Context(), tx, job, missing)
			same(t, "queued", n, want)
			return err
		}))
	}
	queue(2)
	queue(0) // they exist
	for _, id := range []eventhook.DeliveryID{ids[0], missing[0].ID, missing[1].ID, ids[1]} {
		f.settleAll(f.db, eventhook.DeliverySuccess, f.wantClaimed(f.db, s, id)...)
	}
}

// Of a key, one held delivery has a due_at, and the others wait for it.
func TestHeldDeliveriesThatWaitExpireByTheirOwnAge(t *testing.T) {
	f := setUp(t)
	s := f.subscription()
	f.disableByFailures(&s, 2, 0)
	f.publishOrdered(&s, "a", "a", "a", "b")
	f.clock.Advance(50 * time.Hour)
	young := f.publishOrdered(&s, "a", "a")
	f.clock.Advance(30 * time.Hour) // within recovery.max_age_hours for the young ones
	n, err := f.db.ExpireDeliveries(t.Context(), day)
	f.must(err)
	same(t, "expired", n, 4)
	same(t, "held", f.count("delivery", "due_at IS NOT NULL"), 2)
	same(t, "the first", f.count("delivery", "id = $1 AND due_at < 'infinity'", [16]byte(young[0])), 1)
}
