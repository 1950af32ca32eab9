package outbound_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
	"github.com/eventhook/eventhook/outbound/schedule"
)

// world is a database, subscribers' endpoints, and the dispatchers that tests
// start, in a bubble of its own time.
type world struct {
	*deliveryQueue
	t         *testing.T
	log       safeBuffer
	mu        sync.Mutex
	subs      map[eventhook.SubscriptionID]*eventhook.Subscription
	endpoints map[eventhook.SubscriptionID]*station
	lookups   error              // what lookups answer
	unread    eventhook.TenantID // whose lookups fail
	started   []*instance
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *safeBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *safeBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// station is a simulated receiver: its answers, and the requests that it got.
type station struct {
	takes   time.Duration
	answer  func() eventhook.Attempt // nil: 200
	sent    map[eventhook.DeliveryID]int
	times   []time.Time
	waits   []time.Duration // from the event to the end of the delivery
	running int
	most    int // at once
}

var (
	refused = func() eventhook.Attempt {
		return eventhook.Attempt{ErrorClass: eventhook.ErrorConnect, Error: "connection refused"}
	}
	answered = func(status int) func() eventhook.Attempt {
		class := eventhook.ErrorHTTP5xx
		if status < 500 {
			class = eventhook.ErrorHTTP4xx
		}
		return func() eventhook.Attempt {
			return eventhook.Attempt{StatusCode: status, ErrorClass: class, Error: fmt.Sprintf("the receiver answered %d", status)}
		}
	}
	asksFor = func(status int, after time.Duration) func() eventhook.Attempt {
		return func() eventhook.Attempt {
			a := answered(status)()
			a.RetryAfter = after
			return a
		}
	}
)

// road is the transport to a subscriber.
type road struct {
	*world
	to *eventhook.Subscription
}

// Send implements outbound.Transport.
func (w road) Send(ctx context.Context, d *eventhook.Delivery, _ int) eventhook.Attempt {
	began := time.Now()
	w.mu.Lock()
	e := w.endpoints[w.to.ID]
	e.sent[d.ID]++
	e.times = append(e.times, began)
	e.running++
	e.most = max(e.most, e.running)
	takes, answer := e.takes, e.answer
	w.mu.Unlock()
	a := eventhook.Attempt{StatusCode: 200}
	if answer != nil {
		a = answer()
	}
	if most := w.to.Timeout(); takes > most {
		takes, a = most, eventhook.Attempt{ErrorClass: eventhook.ErrorTimeout, Error: "no answer in time"}
	}
	if takes > 0 {
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			a = eventhook.Attempt{ErrorClass: eventhook.ErrorClosed, Error: "cut off"}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	e.running--
	if a.Succeeded() {
		e.waits = append(e.waits, time.Since(d.EventID.Time()))
	}
	a.StartedAt, a.Duration = began, time.Since(began)
	return a
}

// Destination implements outbound.Directory.
func (w *world) Destination(ctx context.Context, of eventhook.Destination) (to outbound.Destination, _ error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return to, err
	}
	if w.lookups != nil {
		return to, w.lookups
	}
	if of.TenantID == w.unread {
		return to, errAway
	}
	if s := w.subs[of.SubscriptionID]; s != nil {
		return outbound.SubscriptionDestination(s, road{w, s}), nil
	}
	return to, eventhook.NotFound("subscription")
}

const testLease = 30 * time.Second

// inWorld runs a test in a bubble. A goroutine that is left when it ends fails
// it.
func inWorld(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{deliveryQueue: newDeliveryQueue(), t: t, subs: map[eventhook.SubscriptionID]*eventhook.Subscription{}, endpoints: map[eventhook.SubscriptionID]*station{}}
		f(t, w)
		for _, i := range w.started {
			i.stop()
		}
		if n := w.stats().namedAgain; n > 0 {
			t.Errorf("%d claims named a lane again, which has one", n)
		}
	})
}

// instance is the dispatcher of one gateway, with the counts of its observer.
type instance struct {
	*outbound.Dispatcher
	w         *world
	stop      func()
	mu        sync.Mutex
	attempted map[eventhook.ErrorClass]int
	written   int
	lost      int
}

func (i *instance) Attempted(class eventhook.ErrorClass, _ time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.attempted[class]++
}

func (i *instance) SettledDeliveries(batch []*outbound.DeliverySettlement, lost int, _ time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.written += len(batch)
	i.lost += lost
}

// start runs a dispatcher; stop ends it and waits.
func (w *world) start(change ...func(*outbound.Config)) *instance {
	c := outbound.DefaultConfig()
	for _, f := range change {
		f(&c)
	}
	i := &instance{w: w, attempted: map[eventhook.ErrorClass]int{}}
	i.Dispatcher = outbound.NewDispatcher(c, outbound.DispatcherDeps{Queue: w, Directory: w, Observer: i,
		Log: slog.New(slog.NewTextHandler(&w.log, nil)), Now: time.Now, Chance: func() float64 { return 0 }, Lease: testLease})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- i.Run(ctx) }()
	i.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Errorf("Run: got %v, want nil", err)
		}
		if s := i.Stats(); s != (schedule.Stats{Open: s.Open}) {
			w.t.Errorf("after the stop there is left %+v, want nothing", s)
		}
	})
	w.started = append(w.started, i)
	synctest.Wait()
	return i
}

// pass lets time go by until everybody waits again.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// subscribe adds a subscriber of a tenant.
func (w *world) subscribe(tenant eventhook.TenantID, takes time.Duration, answer func() eventhook.Attempt, change ...func(*eventhook.Subscription)) *eventhook.Subscription {
	s := &eventhook.Subscription{ID: eventhook.NewID[eventhook.Subscription](time.Now()), TenantID: tenant, Status: eventhook.SubscriptionActive, Version: 1}
	for _, f := range change {
		f(s)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.subs[s.ID] = s
	w.endpoints[s.ID] = &station{takes: takes, answer: answer, sent: map[eventhook.DeliveryID]int{}}
	return s
}

func newTenant() eventhook.TenantID { return eventhook.NewID[eventhook.Tenant](time.Now()) }

// alter changes a subscription, as a person does.
func (w *world) alter(s *eventhook.Subscription, f func(*eventhook.Subscription)) *eventhook.Subscription {
	w.mu.Lock()
	defer w.mu.Unlock()
	changed := *w.subs[s.ID]
	changed.Version++
	f(&changed)
	w.subs[s.ID] = &changed
	return &changed
}

// unsubscribe deletes a subscription.
func (w *world) unsubscribe(s *eventhook.Subscription) {
	w.mu.Lock()
	delete(w.subs, s.ID)
	w.mu.Unlock()
	w.set(func(q *deliveryQueue) { q.deleted[s.ID] = true })
}

// answers changes the answers of a receiver.
func (w *world) answers(s *eventhook.Subscription, takes time.Duration, answer func() eventhook.Attempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endpoints[s.ID].takes, w.endpoints[s.ID].answer = takes, answer
}

// seen returns the station of a subscription.
func (w *world) seen(s *eventhook.Subscription) station {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := *w.endpoints[s.ID]
	e.sent, e.times, e.waits = maps.Clone(e.sent), slices.Clone(e.times), slices.Clone(e.waits)
	return e
}

// twice is how many deliveries an endpoint was sent more than once.
func (e station) twice() (n int) {
	for _, times := range e.sent {
		if times > 1 {
			n++
		}
	}
	return n
}

// percentile is that of how long deliveries took from their events on.
func (e station) percentile(p int) time.Duration {
	if len(e.waits) == 0 {
		return 0
	}
	slices.Sort(e.waits)
	return e.waits[min(len(e.waits)-1, len(e.waits)*p/100)]
}

// publish stores n deliveries as the publisher does: room first, then the lease.
func (i *instance) publish(s *eventhook.Subscription, n int) (list []*eventhook.Delivery) {
	granted, until := i.Reserve(outbound.Scheduled(s), n)
	for k := range n {
		lease := until
		if k >= granted {
			lease = time.Time{}
		}
		list = append(list, i.w.store(s, lease))
	}
	i.Enqueue(list[:granted])
	if granted < n {
		i.NotifyDue()
	}
	return list
}

// backlog stores n deliveries that are due.
func (w *world) backlog(s *eventhook.Subscription, n int) {
	for range n {
		w.store(s, time.Time{})
	}
}

func (w *world) want(s *eventhook.Subscription, claim string, want map[eventhook.DeliveryStatus]int) {
	w.t.Helper()
	if got := w.counts(s.ID); !maps.Equal(got, want) {
		w.t.Errorf("%s: deliveries are %v, want %v", claim, got, want)
	}
}
