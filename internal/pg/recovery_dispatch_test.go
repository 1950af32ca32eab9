package pg

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/bench/measure"
	"github.com/eventhook/eventhook/outbound"
)

// recoveryHarness has a receiver and instances in real time, each with a dispatcher and a worker
// of replays.
type recoveryHarness struct {
	*fixture
	of   *eventhook.Subscription
	skew time.Duration // of the clocks of instances that are started

	mu      sync.Mutex
	answers func(d *eventhook.Delivery) int // a status
	arrived []eventhook.DeliveryID          // answered 200, in this order
	urls    map[string]int                  // of the answered requests, with the signing secret
	changed chan struct{}                   // closed and replaced when a delivery arrives
}

func newRecovery(t *testing.T, change ...func(*eventhook.Subscription)) *recoveryHarness {
	f := setUp(t)
	f.clock.Advance(time.Until(f.clock.Now()) - 10*time.Minute) // instances read the real clock
	s := f.subscription(change...)
	return &recoveryHarness{fixture: f, of: &s, answers: answers(200), urls: map[string]int{}, changed: make(chan struct{})}
}

const outageOfADay = 24 * time.Hour

// miss makes n deliveries dead in an outage of a day, which it ends. It returns them, oldest event
// first.
func (r *recoveryHarness) miss(n int) (list []*eventhook.Delivery) {
	r.Helper()
	const atOnce = 1000
	r.clock.Advance(-outageOfADay)
	began, parts := r.clock.Now(), (n+atOnce-1)/atOnce
	for range parts {
		var batch []*outbound.DeliverySettlement
		for _, d := range r.claimedDeliveries(min(n-len(list), atOnce), r.of) {
			batch, list = append(batch, r.settlement(d, eventhook.DeliveryDead, limit(0), circuitOpen(began))), append(list, d)
		}
		r.settleDeliveries(r.db, batch...)
		r.deleteSystemDeliveries()
		r.clock.Advance(outageOfADay / time.Duration(parts))
	}
	r.settleDeliveries(r.db, r.settlement(r.claimedDeliveries(1, r.of)[0], eventhook.DeliverySuccess))
	same(r, "recoveries", r.recoveries(r.of), 1)
	return list
}

// Destination reads the subscription as it is now.
func (r *recoveryHarness) Destination(ctx context.Context, of eventhook.Destination) (outbound.Destination, error) {
	s, err := r.db.Subscription(ctx, of.TenantID, of.SubscriptionID)
	return outbound.SubscriptionDestination(&s, recoveryTransport{r, s}), err
}

type recoveryTransport struct {
	*recoveryHarness
	to eventhook.Subscription
}

func (r recoveryTransport) Send(_ context.Context, d *eventhook.Delivery, _ int) eventhook.Attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := eventhook.Attempt{StartedAt: time.Now(), StatusCode: r.answers(d)}
	if a.StatusCode != 200 {
		a.ErrorClass, a.Error = eventhook.ErrorHTTP5xx, "no"
		return a
	}
	r.arrived = append(r.arrived, d.ID)
	r.urls[r.to.URL.Reveal()+" "+r.to.Signing[0].Secret.Reveal()]++
	close(r.changed)
	r.changed = make(chan struct{})
	return a
}

// wait waits until n requests were answered 200. It fails the test if none is for a minute.
func (r *recoveryHarness) wait(n int) {
	r.Helper()
	r.waitUntil(func() bool { return len(r.arrived) >= n }, time.Minute)
}

// waitUntil waits until a condition holds, which it checks when a request was answered 200. It
// fails the test if none is for the time of patience.
func (r *recoveryHarness) waitUntil(holds func() bool, patience time.Duration) {
	r.Helper()
	for {
		r.mu.Lock()
		isDone, arrived, changed := holds(), len(r.arrived), r.changed
		r.mu.Unlock()
		if isDone {
			return
		}
		select {
		case <-changed:
		case <-time.After(patience):
			r.Fatalf("only %d deliveries have arrived", arrived)
		}
	}
}

// killable is the queue of an instance that is killed when a number of deliveries have arrived:
// it stores nothing afterwards. With 0, it is never killed.
type killable struct {
	outbound.Queue
	*recoveryHarness
	after int
}

func (k *killable) isKilled() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.after > 0 && len(k.arrived) >= k.after
}

var errKilled = errors.New("the instance was killed")

func (k *killable) SettleDeliveries(ctx context.Context, batch []*outbound.DeliverySettlement) ([]*outbound.DeliverySettlement, error) {
	if k.isKilled() {
		return nil, errKilled
	}
	return k.Queue.SettleDeliveries(ctx, batch)
}

func (k *killable) ReleaseDeliveries(ctx context.Context, list []*eventhook.Delivery) error {
	if k.isKilled() {
		return errKilled
	}
	return k.Queue.ReleaseDeliveries(ctx, list)
}

// maxLeased is how many deliveries an instance has leased at most.
const maxLeased = 200

// start runs an instance, which is killed after a number of deliveries; 0: never. stop ends it and
// waits.
func (r *recoveryHarness) start(killAfter int) (stop func()) {
	skew := r.skew
	now := func() time.Time { return time.Now().Add(skew) }
	db := r.open(func(o *Options) { o.Now = now })
	queue := &killable{db, r, killAfter}
	c := outbound.DefaultConfig()
	c.BatchSize, c.PollInterval, c.DrainTimeout = 64, 50*time.Millisecond, time.Second
	c.QueueDeliveries = 8 * maxLeased // one destination has at most an eighth
	log := slog.New(slog.DiscardHandler)
	d := outbound.NewDispatcher(c, outbound.DispatcherDeps{Queue: queue, Directory: r, Observer: noObserver{}, Log: log, Now: now,
		Chance: func() float64 { return 0 }, Lease: time.Second})
	w := r.replayWorker(db)
	w.Now = now
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = d.Run(ctx) })
	running.Go(func() { _ = w.Run(ctx) })
	stop = func() { cancel(); running.Wait() }
	r.Cleanup(stop)
	return stop
}

// repeated returns how many of the requests that were answered 200 repeat a delivery.
func (r *recoveryHarness) repeated() int {
	ids := slices.Clone(r.arrived)
	slices.SortFunc(ids, func(x, y eventhook.DeliveryID) int { return bytes.Compare(x[:], y[:]) })
	return len(ids) - len(slices.Compact(ids))
}

// wantSent checks that all deliveries are stored as sent.
func (r *recoveryHarness) wantSent(n int) {
	r.Helper()
	same(r, "deliveries by recovery", r.count("delivery", "status = 'success' AND recoveries = 1"), n)
}

// manySlots also shortens the leases, which last as long as a request may take.
func manySlots(s *eventhook.Subscription) { s.MaxInFlight, s.TimeoutSeconds = 50, 1 }

// With BENCH_MISSED deliveries; "make bench" has 100 000.
func TestTwoInstancesRecoverEachDeliveryOfADayOnce(t *testing.T) {
	missed := measure.Size(t, "BENCH_MISSED", 2000)
	r := newRecovery(t, manySlots)
	list := r.miss(missed)
	first := r.start(0)
	second := r.start(0)
	r.wait(missed)
	first()
	second()
	same(t, "sent again", r.repeated(), 0)
	r.wantSent(missed)
	place := map[eventhook.DeliveryID]int{}
	for i, d := range list {
		place[d.ID] = i
	}
	earliest := 0
	for i, id := range r.arrived {
		earliest = max(earliest, place[id]-i)
	}
	// An instance may be slow with the deliveries that it has leased, while the other one sends.
	if earliest > 2*maxLeased {
		t.Errorf("a delivery arrived %d places before older ones, want the oldest first", earliest)
	}
}

func TestAnInstanceIsKilledDuringARecovery(t *testing.T) {
	const missed = 300
	r := newRecovery(t, manySlots)
	r.miss(missed)
	kill := r.start(missed / 3)
	r.wait(missed / 3)
	kill()
	if n := r.count("delivery", "status = 'acquired'"); n == 0 {
		t.Error("the instance was killed with no delivery leased, want some")
	}
	unsettled := len(r.arrived) - r.count("delivery", "status = 'success' AND recoveries = 1")
	stop := r.start(0)
	r.wait(missed + unsettled)
	stop()
	same(t, "sent again", r.repeated(), unsettled)
	r.wantSent(missed)
}

// Before the recovery, the subscription gets another address, or another signing secret.
func TestARecoverySendsToTheSubscriptionOfToday(t *testing.T) {
	for claim, change := range map[string]func(*eventhook.Subscription){
		"another URL":    func(s *eventhook.Subscription) { s.URL = eventhook.NewSecret("https://new.example/hooks") },
		"another secret": func(s *eventhook.Subscription) { s.Signing = []eventhook.SigningSecret{{Secret: newSigning}} },
	} {
		t.Run(claim, func(t *testing.T) {
			const missed = 20
			r := newRecovery(t)
			r.miss(missed)
			want := *r.of
			change(&want)
			_, err := r.changeSubscription(operator, *r.of, 0, change)
			r.must(err)
			stop := r.start(0)
			r.wait(missed)
			stop()
			same(t, "the receivers", r.urls, map[string]int{want.URL.Reveal() + " " + want.Signing[0].Secret.Reveal(): missed})
		})
	}
}

// The subscription gets another address while half of a recovery has been sent.
func TestARecoveryFollowsASubscriptionThatMoves(t *testing.T) {
	const missed = 200
	r := newRecovery(t, func(s *eventhook.Subscription) { s.MaxInFlight, s.RatePerSecond = 1, 100 })
	r.miss(missed)
	stop := r.start(0)
	r.wait(missed / 4)
	_, err := r.changeSubscription(operator, *r.of, 0, func(s *eventhook.Subscription) { s.URL = eventhook.NewSecret("https://new.example/hooks") })
	r.must(err)
	moved := r.answered()
	r.wait(missed)
	stop()
	same(t, "sent again", r.repeated(), 0)
	r.wantSent(missed)
	for to, n := range r.urls {
		if isNew := strings.HasPrefix(to, "https://new.example/"); isNew && n < missed-moved-10 || !isNew && n > moved+10 {
			t.Errorf("%d of %d were sent to %s, want those to the new address that were sent after the first %d", n, missed, to, moved)
		}
	}
	same(t, "receivers", len(r.urls), 2)
}

// answered returns how many requests were answered 200.
func (r *recoveryHarness) answered() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.arrived)
}

// The oldest deliveries fail whenever they are sent, and open the circuit. The others arrive.
func TestPoisonDoesNotStopARecovery(t *testing.T) {
	const missed, poison = 60, 6
	r := newRecovery(t, func(s *eventhook.Subscription) { s.Retry.TerminalStatuses = []int{500} })
	list := r.miss(missed)
	sent := map[eventhook.DeliveryID]int{}
	r.answers = func(d *eventhook.Delivery) int {
		sent[d.ID]++
		if slices.ContainsFunc(list[:poison], func(p *eventhook.Delivery) bool { return p.ID == d.ID }) {
			return 500
		}
		return 200
	}
	stop := r.start(0)
	r.wait(missed - poison)
	stop()
	same(t, "sent again", r.repeated(), 0)
	same(t, "the circuit", r.count("subscription_health", "failing_since IS NOT NULL"), 0)
	same(t, "dead", r.count("delivery", "status = 'dead' AND attempts > 1 AND event_type LIKE 'payment.%'"), poison)
	for _, d := range list[:poison] {
		if n := sent[d.ID]; n == 0 || n > 3 {
			t.Errorf("a delivery that always fails was sent %d times by recovery, want once to three times", n)
		}
	}
}

var newSigning = eventhook.NewSecret("whsec_bmV3LXNlY3JldC1uZXctc2VjcmV0LW5ldyE=")
