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

// dispatcherHarness is a fake queue, fake receivers and the dispatchers that a test starts, in a
// synctest bubble.
type dispatcherHarness struct {
	*deliveryQueue
	t         *testing.T
	log       safeBuffer
	mu        sync.Mutex
	subs      map[eventhook.SubscriptionID]*eventhook.Subscription
	receivers map[eventhook.SubscriptionID]*fakeReceiver
	lookups   error              // the error of all lookups
	unread    eventhook.TenantID // lookups of its destinations fail
	started   []*instance
	expired   map[eventhook.DestinationID]int // calls of Expire
}

// Expire implements outbound.UnclaimedDeliveries.
func (w *dispatcherHarness) Expire(_ context.Context, of eventhook.Destination, _ int) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.expired == nil {
		w.expired = map[eventhook.DestinationID]int{}
	}
	w.expired[of.ID()]++
	return 0, nil
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

// fakeReceiver is a simulated receiver. It records the requests.
type fakeReceiver struct {
	takes      time.Duration
	answer     func() eventhook.Attempt // nil: 200
	sent       map[eventhook.DeliveryID]int
	times      []time.Time
	waits      []time.Duration // from the event to the end of the delivery
	running    int
	maxRunning int
	begins     func(*eventhook.Delivery) // nil or called at the begin of each request, one call at a time
	ends       func(*eventhook.Delivery) // the same at the end
	transport  outbound.Transport        // nil: the transport of the fake
}

var (
	refused = func() eventhook.Attempt {
		return eventhook.Attempt{ErrorClass: eventhook.ErrorConnect, Error: "connection refused"}
	}
	respondsWith = func(status int) func() eventhook.Attempt {
		class := eventhook.ErrorHTTP5xx
		if status < 500 {
			class = eventhook.ErrorHTTP4xx
		}
		return func() eventhook.Attempt {
			return eventhook.Attempt{StatusCode: status, ErrorClass: class, Error: fmt.Sprintf("the receiver answered %d", status)}
		}
	}
	respondsWithRetryAfter = func(status int, after time.Duration) func() eventhook.Attempt {
		return func() eventhook.Attempt {
			a := respondsWith(status)()
			a.RetryAfter = after
			return a
		}
	}
)

// fakeTransport sends to the fake receiver of a subscription.
type fakeTransport struct {
	*dispatcherHarness
	to *eventhook.Subscription
}

// Send implements outbound.Transport.
func (w fakeTransport) Send(ctx context.Context, d *eventhook.Delivery, _ int) eventhook.Attempt {
	began := time.Now()
	w.mu.Lock()
	e := w.receivers[w.to.ID]
	e.sent[d.ID]++
	e.times = append(e.times, began)
	e.running++
	e.maxRunning = max(e.maxRunning, e.running)
	takes, answer := e.takes, e.answer
	if e.begins != nil {
		e.begins(d)
	}
	w.mu.Unlock()
	a := eventhook.Attempt{StatusCode: 200}
	if answer != nil {
		a = answer()
	}
	if timeout := w.to.Timeout(); takes > timeout {
		takes, a = timeout, eventhook.Attempt{ErrorClass: eventhook.ErrorTimeout, Error: "no answer in time"}
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
	if e.ends != nil {
		e.ends(d)
	}
	if a.Succeeded() {
		e.waits = append(e.waits, time.Since(d.EventID.Time()))
	}
	a.StartedAt, a.Duration = began, time.Since(began)
	return a
}

// Destination implements outbound.Directory.
func (w *dispatcherHarness) Destination(ctx context.Context, of eventhook.Destination) (to outbound.Destination, _ error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return to, err
	}
	if w.lookups != nil {
		return to, w.lookups
	}
	if of.TenantID == w.unread {
		return to, errDown
	}
	if s := w.subs[of.SubscriptionID]; s != nil {
		if own := w.receivers[s.ID].transport; own != nil {
			return outbound.SubscriptionDestination(s, own), nil
		}
		return outbound.SubscriptionDestination(s, fakeTransport{w, s}), nil
	}
	return to, eventhook.NotFound("subscription")
}

const testLease = 30 * time.Second

// runDispatcherTest runs a test in a synctest bubble. The test fails if a goroutine remains when it ends.
func runDispatcherTest(t *testing.T, f func(t *testing.T, w *dispatcherHarness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &dispatcherHarness{deliveryQueue: newDeliveryQueue(), t: t, subs: map[eventhook.SubscriptionID]*eventhook.Subscription{}, receivers: map[eventhook.SubscriptionID]*fakeReceiver{}}
		f(t, w)
		for _, i := range w.started {
			i.stop()
		}
		if n := w.stats().duplicateClaims; n > 0 {
			t.Errorf("%d batches had two claims of one destination, want 0", n)
		}
	})
}

// instance is the dispatcher of one gateway, with the counts of its observer.
type instance struct {
	*outbound.Dispatcher
	w         *dispatcherHarness
	stop      func()
	mu        sync.Mutex
	attempted map[eventhook.ErrorClass]int
	delays    []time.Duration
	written   int
	lost      int
}

func (i *instance) Started(_ *eventhook.Delivery, delay time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.delays = append(i.delays, delay)
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

// start creates and runs a dispatcher.
func (w *dispatcherHarness) start(change ...func(*outbound.Config)) *instance {
	i := w.create(change...)
	i.start()
	return i
}

// create returns a dispatcher whose loops do not run yet.
func (w *dispatcherHarness) create(change ...func(*outbound.Config)) *instance {
	c := outbound.DefaultConfig()
	for _, f := range change {
		f(&c)
	}
	i := &instance{w: w, attempted: map[eventhook.ErrorClass]int{}}
	i.Dispatcher = outbound.NewDispatcher(c, outbound.DispatcherDeps{Queue: w, Directory: w, Agents: w, Observer: i,
		Log: slog.New(slog.NewTextHandler(&w.log, nil)), Now: time.Now, Chance: func() float64 { return 0 }, Lease: testLease})
	return i
}

// start runs the loops of the dispatcher; stop ends them and waits.
func (i *instance) start() {
	w := i.w
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- i.Run(ctx) }()
	i.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Errorf("Run: got %v, want nil", err)
		}
		if s := i.Stats(); s != (schedule.Stats{Open: s.Open, Breakers: s.Breakers}) {
			w.t.Errorf("after the stop the scheduler has %+v, want nothing", s)
		}
	})
	w.started = append(w.started, i)
	synctest.Wait()
}

// advance advances the time and waits until all goroutines are blocked.
func (w *dispatcherHarness) advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// subscribe adds a subscription whose receiver answers after the duration takes.
func (w *dispatcherHarness) subscribe(tenant eventhook.TenantID, takes time.Duration, answer func() eventhook.Attempt, change ...func(*eventhook.Subscription)) *eventhook.Subscription {
	s := &eventhook.Subscription{ID: eventhook.NewID[eventhook.Subscription](time.Now()), TenantID: tenant, Status: eventhook.SubscriptionActive, Version: 1}
	for _, f := range change {
		f(s)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.subs[s.ID] = s
	w.receivers[s.ID] = &fakeReceiver{takes: takes, answer: answer, sent: map[eventhook.DeliveryID]int{}}
	return s
}

func newTenant() eventhook.TenantID { return eventhook.NewID[eventhook.Tenant](time.Now()) }

// update changes a subscription, as a request of the API would.
func (w *dispatcherHarness) update(s *eventhook.Subscription, f func(*eventhook.Subscription)) *eventhook.Subscription {
	w.mu.Lock()
	defer w.mu.Unlock()
	changed := *w.subs[s.ID]
	changed.Version++
	f(&changed)
	w.subs[s.ID] = &changed
	return &changed
}

// unsubscribe deletes a subscription.
func (w *dispatcherHarness) unsubscribe(s *eventhook.Subscription) {
	w.mu.Lock()
	delete(w.subs, s.ID)
	w.mu.Unlock()
	w.set(func(q *deliveryQueue) { q.deleted[s.ID] = true })
}

// setResponse changes the response of a receiver.
func (w *dispatcherHarness) setResponse(s *eventhook.Subscription, takes time.Duration, answer func() eventhook.Attempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.receivers[s.ID].takes, w.receivers[s.ID].answer = takes, answer
}

// receiver returns a copy of the receiver of a subscription.
func (w *dispatcherHarness) receiver(s *eventhook.Subscription) fakeReceiver {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := *w.receivers[s.ID]
	e.sent, e.times, e.waits = maps.Clone(e.sent), slices.Clone(e.times), slices.Clone(e.waits)
	return e
}

// twice returns the number of deliveries that were sent more than once.
func (e fakeReceiver) twice() (n int) {
	for _, times := range e.sent {
		if times > 1 {
			n++
		}
	}
	return n
}

// percentile returns the p-th percentile of the time from an event to its successful delivery.
func (e fakeReceiver) percentile(p int) time.Duration {
	if len(e.waits) == 0 {
		return 0
	}
	slices.Sort(e.waits)
	return e.waits[min(len(e.waits)-1, len(e.waits)*p/100)]
}

// publish reserves memory for n deliveries, stores them leased and enqueues them, as the publisher does.
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
func (w *dispatcherHarness) backlog(s *eventhook.Subscription, n int) {
	for range n {
		w.store(s, time.Time{})
	}
}

func (w *dispatcherHarness) want(s *eventhook.Subscription, claim string, want map[eventhook.DeliveryStatus]int) {
	w.t.Helper()
	if got := w.counts(s.ID); !maps.Equal(got, want) {
		w.t.Errorf("%s: got deliveries %v, want %v", claim, got, want)
	}
}
