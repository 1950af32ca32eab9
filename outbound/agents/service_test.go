package agents_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
	"github.com/eventhook/eventhook/outbound/agents"
	"github.com/eventhook/eventhook/outbound/schedule"
	"github.com/eventhook/eventhook/outbound/send"
)

const lease = 30 * time.Second

// transport composes requests with the text body.
type transport struct {
	fails   eventhook.ErrorClass // why no request can be composed
	only    eventhook.DeliveryID // fails is for this one; zero: for all
	takes   time.Duration        // to compose a request
	size    int                  // of the body; 0: that of body
	renews  bool                 // credentials that a 401 rejects
	reports []send.Reported      // of Complete
}

func (t *transport) Send(context.Context, *eventhook.Delivery, int) eventhook.Attempt {
	panic("the gateway sends nothing")
}

func (t *transport) Compose(ctx context.Context, d *eventhook.Delivery, _ int) (*http.Request, eventhook.Attempt) {
	a := eventhook.Attempt{StartedAt: time.Now()}
	time.Sleep(t.takes)
	if t.fails != "" && (t.only.IsZero() || t.only == d.ID) {
		a.ErrorClass, a.Error = t.fails, "it cannot be composed"
		return nil, a
	}
	body := "body"
	if t.size > 0 {
		body = strings.Repeat("x", t.size)
	}
	r, _ := http.NewRequestWithContext(ctx, http.MethodPost, "https://inside.example/hook", strings.NewReader(body))
	r.Header.Set("Webhook-Id", "1")
	r.Header["Idempotency-Key"] = nil
	return r, a
}

func (t *transport) Complete(r send.Reported) (a eventhook.Attempt, isRenewed bool) {
	t.reports = append(t.reports, r)
	if a = r.Result; a.StatusCode != 0 {
		a.ErrorClass, a.Error = send.Classify("inside.example", a.StatusCode)
	}
	return a, t.renews && a.StatusCode == http.StatusUnauthorized
}

// observer counts what a service reports.
type observer struct {
	mu                               sync.Mutex
	claimed, takenOver, stored, lost int
}

func (o *observer) Attempted(eventhook.ErrorClass, time.Duration)                        {}
func (o *observer) SettledDeliveries([]*outbound.DeliverySettlement, int, time.Duration) {}
func (o *observer) AgentsClaimed(deliveries, takenOver int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.claimed += deliveries
	o.takenOver += takenOver
}
func (o *observer) AgentsReported(stored, lost int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stored += stored
	o.lost += lost
}

// fixture is a service with a queue in memory, in a bubble of synctest.
type fixture struct {
	*testing.T
	*agents.Service
	queue        *queue
	tenant       eventhook.TenantID
	mu           sync.Mutex
	destinations []outbound.Destination // guarded by mu while the service waits for deliveries
	observer     *observer
	agent, other eventhook.Agent
}

// ForAgents implements agents.Destinations.
func (f *fixture) ForAgents(_ context.Context, tenant eventhook.TenantID) ([]outbound.Destination, error) {
	if tenant != f.tenant {
		return nil, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.destinations), nil
}

// Destination implements outbound.Directory.
func (f *fixture) Destination(_ context.Context, of eventhook.Destination) (outbound.Destination, error) {
	for _, d := range f.destinations {
		if d.ID == of.ID() {
			return d, nil
		}
	}
	return outbound.Destination{}, eventhook.NotFound("subscription")
}

// run calls test in a bubble of synctest with a running service.
func run(t *testing.T, test func(f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{T: t, queue: newQueue(), tenant: eventhook.TenantID{7}, observer: &observer{}}
		f.agent = eventhook.Agent{ID: eventhook.AgentID{1}, TenantID: f.tenant, Labels: []string{"env:prod", "region:eu"}}
		f.other = eventhook.Agent{ID: eventhook.AgentID{2}, TenantID: f.tenant, Labels: []string{"env:prod"}}
		f.Service = f.newService()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- f.Service.Run(ctx) }()
		defer func() {
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
		test(f)
	})
}

func (f *fixture) newService() *agents.Service {
	config := outbound.DefaultConfig()
	return agents.New(config, agents.Deps{Queue: f.queue, Destinations: f, Directory: f, Observer: f.observer, Log: slog.New(slog.NewTextHandler(f.Output(), nil)),
		Now: time.Now, Chance: func() float64 { return 0 }})
}

// add adds a destination with target labels and returns its id.
func (f *fixture) add(to *transport, labels ...string) eventhook.DestinationID {
	id := newDestination()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.destinations = append(f.destinations, outbound.Destination{
		Destination: schedule.Destination{ID: id, TenantID: f.tenant, Slots: 10, Timeout: 20 * time.Second, Address: eventhook.NewSecret("https://inside.example")},
		Retry:       eventhook.RetryPolicy{}.WithDefaults(eventhook.DeliveryRetry), Labels: labels, ForAgents: true, Transport: to})
	return id
}

func (f *fixture) store(to eventhook.DestinationID, n int) (ids []eventhook.DeliveryID) {
	for range n {
		ids = append(ids, f.queue.store(f.tenant, to, time.Now(), ""))
		time.Sleep(time.Millisecond)
	}
	return ids
}

func (f *fixture) claim(a eventhook.Agent, n int) []eventhook.AgentRequest {
	f.Helper()
	list, _, err := f.Service.Claim(f.Context(), a, eventhook.AgentClaim{Max: n, Lease: lease})
	if err != nil {
		f.Fatal(err)
	}
	return list
}

// report reports a status for each request, and returns the first error.
func (f *fixture) report(a eventhook.Agent, status int, list ...eventhook.AgentRequest) error {
	f.Helper()
	results := make([]eventhook.AgentResult, len(list))
	for i, r := range list {
		results[i] = eventhook.AgentResult{ID: r.ID, LeaseToken: r.Lease.Token, StatusCode: status, Duration: time.Millisecond}
	}
	return errors.Join(f.Report(a, results)...)
}

func (f *fixture) wantStatus(id eventhook.DeliveryID, status eventhook.DeliveryStatus, attempts int) {
	f.Helper()
	if r := f.queue.row(id); r.Status != status || r.Attempts != attempts {
		f.Errorf("got %s after %d attempts (%s), want %s after %d", r.Status, r.Attempts, r.LastError, status, attempts)
	}
}

func TestAnAgentClaimsAndReports(t *testing.T) {
	run(t, func(f *fixture) {
		to := f.add(&transport{}, "env:prod")
		ids := f.store(to, 2)
		list := f.claim(f.agent, 10)
		if len(list) != 2 || list[0].ID != ids[0] || list[0].URL != "https://inside.example/hook" || string(list[0].Body) != "body" ||
			list[0].Attempt != 1 || list[0].Timeout != 20*time.Second || list[0].Headers["Webhook-Id"] != "1" {
			f.Fatalf("claimed %+v, want two requests", list)
		}
		if _, isSent := list[0].Headers["Idempotency-Key"]; isSent {
			f.Error("a header without values is in the request")
		}
		if err := errors.Join(f.report(f.agent, 200, list[0]), f.report(f.agent, 503, list[1])); err != nil {
			f.Fatal(err)
		}
		f.wantStatus(ids[0], eventhook.DeliverySuccess, 1)
		f.wantStatus(ids[1], eventhook.DeliveryFailed, 1)
		if f.observer.claimed != 2 || f.observer.stored != 2 || f.observer.lost != 0 {
			f.Errorf("observed %+v, want two claimed and two stored", f.observer)
		}
	})
}

func TestAnAgentGetsTheDestinationsWhoseLabelsItHas(t *testing.T) {
	run(t, func(f *fixture) {
		prod, eu, us := f.add(&transport{}, "env:prod"), f.add(&transport{}, "env:prod", "region:eu"), f.add(&transport{}, "region:us")
		for _, to := range []eventhook.DestinationID{prod, eu, us} {
			f.store(to, 1)
		}
		if n := len(f.claim(f.other, 10)); n != 1 {
			f.Errorf("the agent with one label claimed %d, want 1", n)
		}
		if n := len(f.claim(f.agent, 10)); n != 1 {
			f.Errorf("the agent with two labels claimed %d of the others, want 1", n)
		}
		stranger := f.agent
		stranger.TenantID = eventhook.TenantID{8}
		if n := len(f.claim(stranger, 10)); n != 0 {
			f.Errorf("an agent of another tenant claimed %d, want 0", n)
		}
	})
}

func TestDestinationsGetTurns(t *testing.T) {
	run(t, func(f *fixture) {
		claimed := map[eventhook.DeliveryID]bool{}
		var first []eventhook.DeliveryID
		for range 3 {
			ids := f.store(f.add(&transport{}, "env:prod"), 5)
			first = append(first, ids[0])
		}
		for range 3 { // one delivery each
			for _, r := range f.claim(f.agent, 1) {
				claimed[r.ID] = true
			}
		}
		for _, id := range first {
			if !claimed[id] {
				f.Errorf("three claims of one delivery got %v, want one of each destination", claimed)
				break
			}
		}
	})
}

func TestResultsWithoutTheLeaseAreRefused(t *testing.T) {
	run(t, func(f *fixture) {
		to := f.add(&transport{}, "env:prod")
		f.store(to, 1)
		x := f.claim(f.agent, 1)[0]
		stranger := f.agent
		stranger.TenantID = eventhook.TenantID{8}
		if err := f.report(stranger, 200, x); !errors.Is(err, eventhook.ErrNotFound) {
			f.Errorf("an agent of another tenant: got %v, want not found", err)
		}
		if err := f.report(f.other, 200, x); !errors.Is(err, eventhook.ErrLeaseLost) {
			f.Errorf("another agent: got %v, want a lost lease", err)
		}
		wrong := x
		wrong.Lease.Token++
		if err := f.report(f.agent, 200, wrong); !errors.Is(err, eventhook.ErrLeaseLost) {
			f.Errorf("another token: got %v, want a lost lease", err)
		}
		if errs := f.Report(f.agent, []eventhook.AgentResult{{ID: x.ID, LeaseToken: x.Lease.Token, StatusCode: 200}, {ID: x.ID, LeaseToken: x.Lease.Token, StatusCode: 500}}); errs[0] != nil || !errors.Is(errs[1], eventhook.ErrLeaseLost) {
			f.Errorf("twice in one report: got %v, want the first to count", errs)
		}
		if err := f.report(f.agent, 200, x); !errors.Is(err, eventhook.ErrLeaseLost) {
			f.Errorf("a second report: got %v, want a lost lease", err)
		}
		f.wantStatus(x.ID, eventhook.DeliverySuccess, 1)
	})
}

func TestALateResultCountsUnlessAnotherAgentTookOver(t *testing.T) {
	run(t, func(f *fixture) {
		to := f.add(&transport{}, "env:prod")
		f.store(to, 2)
		list := f.claim(f.agent, 2)
		time.Sleep(2 * lease)
		if err := f.report(f.agent, 200, list[0]); err != nil {
			f.Errorf("late: %v", err)
		}
		again := f.claim(f.other, 2)
		if len(again) != 1 || again[0].ID != list[1].ID || again[0].Attempt != 1 {
			f.Fatalf("claimed %+v, want the delivery whose lease has expired, at its first attempt", again)
		}
		if err := f.report(f.agent, 200, list[1]); !errors.Is(err, eventhook.ErrLeaseLost) {
			f.Errorf("taken over: got %v, want a lost lease", err)
		}
		if err := f.report(f.other, 200, again[0]); err != nil {
			f.Error(err)
		}
		if f.observer.takenOver != 1 {
			f.Errorf("%d leases were taken over, want 1", f.observer.takenOver)
		}
	})
}

func TestFiveLeasesWithoutAResultMakeADeliveryDead(t *testing.T) {
	run(t, func(f *fixture) {
		to := f.add(&transport{}, "env:prod")
		id := f.store(to, 1)[0]
		for range eventhook.MaxAgentLeases {
			if n := len(f.claim(f.agent, 1)); n != 1 {
				f.Fatalf("claimed %d, want 1", n)
			}
			time.Sleep(lease + time.Second)
		}
		if n := len(f.claim(f.agent, 1)); n != 0 {
			f.Errorf("the sixth claim got %d, want 0", n)
		}
		f.wantStatus(id, eventhook.DeliveryDead, 0)
	})
}

func TestTooOldDeliveriesDieAtTheClaimAndRecordAnOutage(t *testing.T) {
	run(t, func(f *fixture) {
		to := f.add(&transport{}, "env:prod")
		since := time.Now()
		id := f.store(to, 1)[0]
		time.Sleep(25 * time.Hour)
		fresh := f.store(to, 1)[0]
		if list := f.claim(f.agent, 10); len(list) != 1 || list[0].ID != fresh {
			f.Errorf("claimed %+v, want the fresh delivery", list)
		}
		f.wantStatus(id, eventhook.DeliveryDead, 0)
		if s := f.queue.settled[0]; !s.IsStale || !s.CircuitOpen || s.FailingSince.Sub(since).Abs() > time.Second {
			f.Errorf("got %+v, want an outage since the event", s)
		}
	})
}

func TestAnAgentGetsNoDeliveryOfAnotherScope(t *testing.T) {
	run(t, func(f *fixture) {
		ids := f.store(f.add(&transport{}, "env:prod"), 2)
		f.destinations[0].Scopes = []string{"customer-4"}
		for i, scope := range []string{`"customer-42"`, `"customer-4"`} {
			f.queue.row(ids[i]).Event.Envelope = &eventhook.Envelope{Scope: []byte(scope)}
		}
		if list := f.claim(f.agent, 2); len(list) != 1 || list[0].ID != ids[1] {
			t.Errorf("claimed %v, want %s", list, ids[1])
		}
		f.wantStatus(ids[0], eventhook.DeliveryDead, 0)
	})
}

func TestDeliveriesThatNoAgentClaimsDieAndRecordAnOutage(t *testing.T) {
	run(t, func(f *fixture) {
		to := f.add(&transport{}, "env:prod")
		since := time.Now()
		old := f.store(to, 2)
		time.Sleep(25 * time.Hour)
		fresh := f.store(to, 1)[0]
		n, err := f.Expire(f.Context(), eventhook.Destination{TenantID: f.tenant, SubscriptionID: eventhook.SubscriptionID(to)}, 100)
		if err != nil || n != 2 {
			f.Errorf("Expire ended %d, %v; want 2", n, err)
		}
		for _, id := range old {
			f.wantStatus(id, eventhook.DeliveryDead, 0)
		}
		f.wantStatus(fresh, eventhook.DeliveryPending, 0)
		if s := f.queue.settled[0]; s.IsStale || !s.CircuitOpen || s.FailingSince.Sub(since).Abs() > time.Second || !strings.Contains(s.LastError, "older than 24h") {
			f.Errorf("got %+v, want it dead with an outage since the oldest event", s)
		}
	})
}

func TestADeliveryThatCannotBeComposedIsAFailedAttempt(t *testing.T) {
	for class, want := range map[eventhook.ErrorClass]struct {
		status   eventhook.DeliveryStatus
		attempts int
	}{
		eventhook.ErrorTransform: {eventhook.DeliveryDead, 1}, eventhook.ErrorTimeout: {eventhook.DeliveryFailed, 1}, eventhook.ErrorBusy: {eventhook.DeliveryPending, 0},
	} {
		run(t, func(f *fixture) {
			bad, good := f.add(&transport{fails: class}, "env:prod"), f.add(&transport{}, "env:prod")
			id := f.store(bad, 1)[0]
			f.store(good, 1)
			if n := len(f.claim(f.agent, 10)); n != 1 {
				f.Errorf("%s: claimed %d, want the other delivery", class, n)
			}
			f.wantStatus(id, want.status, want.attempts)
		})
	}
}

func TestTheCircuitBreakerHoldsForAgents(t *testing.T) {
	run(t, func(f *fixture) {
		to := f.add(&transport{}, "env:prod")
		f.store(to, 20)
		list := f.claim(f.agent, 100)
		if len(list) != 4 {
			f.Fatalf("a destination without a history: claimed %d, want 4", len(list))
		}
		more := list
		for failures := 0; failures < 5; {
			if err := f.report(f.agent, 503, more...); err != nil {
				f.Fatal(err)
			}
			failures += len(more)
			more = f.claim(f.agent, 100)
		}
		if len(more) != 0 {
			f.Fatalf("with an open circuit: claimed %d, want 0", len(more))
		}
		last := f.queue.settled[len(f.queue.settled)-1]
		if !last.CircuitOpen || last.FailingSince.IsZero() {
			f.Errorf("got %+v, want the outage", last)
		}
		_, next, err := f.Service.Claim(f.Context(), f.agent, eventhook.AgentClaim{Max: 10, Lease: lease})
		if wait := time.Until(next); err != nil || wait <= 0 || wait > time.Second {
			f.Errorf("the next claim is in %s (%v), want within a second", wait, err)
		}
		time.Sleep(time.Second)
		probe := f.claim(f.agent, 10)
		if len(probe) != 1 || probe[0].Attempt != 2 || len(f.claim(f.other, 10)) != 0 {
			f.Fatalf("after the backoff: claimed %+v, want one probe that was tried before", probe)
		}
		if err := f.report(f.agent, 200, probe...); err != nil {
			f.Fatal(err)
		}
		if n := len(f.claim(f.agent, 10)); n != 2 {
			f.Errorf("half open: claimed %d, want 2", n)
		}
	})
}

func TestAProbeThatIsNotReportedIsRepeated(t *testing.T) {
	run(t, func(f *fixture) {
		to := f.add(&transport{}, "env:prod")
		f.store(to, 10)
		for range 2 {
			_ = f.report(f.agent, 503, f.claim(f.agent, 100)...)
		}
		time.Sleep(time.Second)
		if n := len(f.claim(f.agent, 10)); n != 1 {
			f.Fatalf("claimed %d, want a probe", n)
		}
		time.Sleep(lease)
		if n := len(f.claim(f.other, 10)); n != 1 {
			f.Errorf("after the lease of the probe: claimed %d, want another probe", n)
		}
	})
}

func TestTheRateHoldsForAgents(t *testing.T) {
	run(t, func(f *fixture) {
		to := f.add(&transport{}, "env:prod")
		f.destinations[0].PerSecond = 5
		f.store(to, 20)
		sent, began := 0, time.Now()
		for time.Since(began) < 2*time.Second {
			sent += len(f.claim(f.agent, 10))
			if err := f.report(f.agent, 200); err != nil {
				f.Fatal(err)
			}
			for _, r := range f.queue.rows {
				if r.Status == eventhook.DeliveryAcquired {
					_ = f.report(f.agent, 200, eventhook.AgentRequest{ID: r.ID, Lease: r.Lease})
				}
			}
			time.Sleep(20 * time.Millisecond)
		}
		if sent < 9 || sent > 12 {
			f.Errorf("%d sends in two seconds at five per second, want about 10", sent)
		}
	})
}

// The agent disconnects while its claim composes a request, or while the database answers it.
func TestAClaimOfADisconnectedAgentIsReleased(t *testing.T) {
	for claim, takes := range map[string]struct{ compose, query time.Duration }{
		"while a request is composed": {compose: time.Second},
		"while the database answers":  {query: time.Second},
	} {
		t.Run(claim, func(t *testing.T) {
			run(t, func(f *fixture) {
				id := f.store(f.add(&transport{takes: takes.compose}, "env:prod"), 1)[0]
				f.queue.takes = takes.query
				ctx, cancel := context.WithTimeout(f.Context(), time.Millisecond)
				defer cancel()
				if list, _, err := f.Service.Claim(ctx, f.agent, eventhook.AgentClaim{Max: 1, Lease: lease}); err == nil || len(list) != 0 {
					f.Errorf("got %d, %v; want the error of the context", len(list), err)
				}
				f.wantStatus(id, eventhook.DeliveryPending, 0)
			})
		})
	}
}

// The probe of an open circuit that was released does not delay the next one.
func TestAReleasedProbeOfACircuitIsRepeatedAtOnce(t *testing.T) {
	run(t, func(f *fixture) {
		slow := &transport{}
		to := f.add(slow, "env:prod")
		f.store(to, 10)
		for range 2 {
			_ = f.report(f.agent, 503, f.claim(f.agent, 100)...)
		}
		time.Sleep(time.Second)
		slow.takes = 2 * time.Second
		ctx, cancel := context.WithTimeout(f.Context(), time.Second)
		defer cancel()
		if list, _, err := f.Service.Claim(ctx, f.agent, eventhook.AgentClaim{Max: 1, Lease: lease}); err == nil || len(list) != 0 {
			f.Errorf("got %d, %v; want the error of the context", len(list), err)
		}
		slow.takes = 0
		if n := len(f.claim(f.other, 10)); n != 1 {
			f.Errorf("claimed %d, want the probe", n)
		}
	})
}

// A tenant whose agents report without end leaves space for the results of other tenants.
func TestATenantsResultsAreBounded(t *testing.T) {
	run(t, func(f *fixture) {
		to := f.add(&transport{}, "env:prod")
		f.store(to, 1)
		x := f.claim(f.agent, 1)[0]
		f.queue.gate = make(chan struct{}) // the database does not answer
		stranger := f.agent
		stranger.TenantID = eventhook.TenantID{8}
		many := make([]eventhook.AgentResult, eventhook.MaxAgentClaim)
		refused := make(chan error, 1000)
		for range cap(refused) {
			go func() { refused <- f.Report(stranger, many)[0] }()
		}
		synctest.Wait()
		reported := make(chan error, 1)
		go func() { reported <- f.report(f.agent, 200, x) }()
		synctest.Wait()
		n := len(refused)
		close(f.queue.gate)
		if err := <-reported; err != nil {
			f.Errorf("the result of another tenant: %v", err)
		}
		if n < 900 || eventhook.KindOf(<-refused) != eventhook.KindUnavailable {
			f.Errorf("%d reports were refused at once, want most of %d", n, cap(refused))
		}
		for range cap(refused) - 1 {
			<-refused
		}
	})
}

func TestReportsFailWhileTheDatabaseIsDown(t *testing.T) {
	run(t, func(f *fixture) {
		to := f.add(&transport{}, "env:prod")
		f.store(to, 1)
		list := f.claim(f.agent, 1)
		f.queue.set(func(q *queue) { q.isDown = true })
		if err := f.report(f.agent, 200, list...); eventhook.KindOf(err) != eventhook.KindUnavailable {
			f.Errorf("got %v, want unavailable", err)
		}
		f.queue.set(func(q *queue) { q.isDown = false })
		if err := f.report(f.agent, 200, list...); err != nil {
			f.Errorf("again: %v", err)
		}
	})
}

func TestAResultForADeletedDestinationIsStored(t *testing.T) {
	run(t, func(f *fixture) {
		to := f.add(&transport{}, "env:prod")
		id := f.store(to, 1)[0]
		list := f.claim(f.agent, 1)
		f.destinations = nil
		if err := f.report(f.agent, 200, list...); err != nil {
			f.Error(err)
		}
		f.wantStatus(id, eventhook.DeliverySuccess, 1)
	})
}

// A load balancer may send the claim of a probe to one instance and its result to another.
func TestTheResultOfAProbeCountsOnTheInstanceOfItsClaim(t *testing.T) {
	for _, status := range []int{200, 503} {
		run(t, func(f *fixture) {
			to := f.add(&transport{}, "env:prod")
			f.store(to, 20)
			for range 2 {
				_ = f.report(f.agent, 503, f.claim(f.agent, 100)...)
			}
			time.Sleep(time.Second)
			probe := f.claim(f.agent, 10)
			first := f.Service
			f.Service = f.newService()
			ctx, stop := context.WithCancel(f.Context())
			ended := make(chan error)
			go func() { ended <- f.Service.Run(ctx) }()
			if err := f.report(f.agent, status, probe...); err != nil || len(probe) != 1 {
				f.Fatalf("reported %+v: %v, want one probe", probe, err)
			}
			stop()
			<-ended
			f.Service = first
			time.Sleep(time.Second)
			list, next, err := f.Claim(f.Context(), f.agent, eventhook.AgentClaim{Max: 10, Lease: lease})
			if wait := time.Until(next); err != nil || status == 200 && len(list) != 2 || status == 503 && (len(list) != 0 || wait < 1500*time.Millisecond || wait > 2*time.Second) {
				f.Errorf("after %d: claimed %d, next in %s, %v; want 2 after a success, and a backoff of 2 s after a failure", status, len(list), wait, err)
			}
		})
	}
}

// Another instance accepts the result: the lease in the database decides.
func TestAnotherInstanceAcceptsTheResult(t *testing.T) {
	run(t, func(f *fixture) {
		to := f.add(&transport{}, "env:prod")
		id := f.store(to, 1)[0]
		list := f.claim(f.agent, 1)
		second := f.newService()
		ctx, stop := context.WithCancel(f.Context())
		ended := make(chan error)
		go func() { ended <- second.Run(ctx) }()
		if errs := second.Report(f.agent, []eventhook.AgentResult{{ID: id, LeaseToken: list[0].Lease.Token, StatusCode: 200}}); errs[0] != nil {
			f.Error(errs[0])
		}
		stop()
		<-ended
		f.wantStatus(id, eventhook.DeliverySuccess, 1)
	})
}

func TestAgentsProbeSubscriptionsThatFailuresHaveDisabled(t *testing.T) {
	for status, want := range map[int]struct {
		result outbound.ProbeResult
		status eventhook.DeliveryStatus
	}{
		200: {outbound.ProbeSucceeded, eventhook.DeliverySuccess}, 503: {outbound.ProbeFailed, eventhook.DeliveryFailed},
		422: {outbound.ProbeRejected, eventhook.DeliveryDead}, 410: {outbound.ProbeGone, eventhook.DeliveryDead},
	} {
		run(t, func(f *fixture) {
			to := f.add(&transport{}, "env:prod")
			f.destinations[0].ForAgents, f.destinations[0].Held = false, true
			id := f.store(to, 2)[0]
			if n := len(f.claim(f.agent, 10)); n != 0 {
				f.Errorf("claimed %d before a probe is due, want 0", n)
			}
			f.queue.set(func(q *queue) { q.probeDue = true })
			probe := f.claim(f.agent, 10)
			if len(probe) != 1 || probe[0].ID != id || len(f.claim(f.other, 10)) != 0 {
				f.Fatalf("claimed %+v, want the oldest delivery as the only probe", probe)
			}
			if err := f.report(f.agent, status, probe...); err != nil {
				f.Fatal(err)
			}
			f.wantStatus(id, want.status, 1)
			if len(f.queue.probed) != 1 || f.queue.probed[0] != want.result {
				f.Errorf("%d: got the results %v, want %s", status, f.queue.probed, want.result)
			}
		})
	}
}

// A failed probe leaves its delivery in its former state: held, or dead until the recovery.
func TestAFailedProbeChangesNoState(t *testing.T) {
	for _, was := range []eventhook.DeliveryStatus{eventhook.DeliveryFailed, eventhook.DeliveryDead} {
		run(t, func(f *fixture) {
			to := f.add(&transport{}, "env:prod")
			id := f.store(to, 1)[0]
			if was == eventhook.DeliveryDead {
				f.queue.set(func(q *queue) { r := q.find(id); r.Status, r.due = was, time.Time{} })
			}
			f.destinations[0].ForAgents, f.destinations[0].Held = false, true
			f.queue.set(func(q *queue) { q.probeDue = true })
			if err := f.report(f.agent, 503, f.claim(f.agent, 10)...); err != nil {
				f.Fatal(err)
			}
			f.wantStatus(id, was, 1)
			if s := f.queue.settled[0]; s.IsProbe != (was == eventhook.DeliveryDead) || s.RetryCount != 0 {
				f.Errorf("%s: got %+v, want no retry, and a probe that does not count as another dead delivery", was, s)
			}
		})
	}
}

// Deliveries that an agent holds when failures disable their subscription are no probes: they are
// retried after a failure.
func TestADeliveryInFlightOfADisabledSubscriptionIsRetried(t *testing.T) {
	run(t, func(f *fixture) {
		to := f.add(&transport{}, "env:prod")
		id := f.store(to, 1)[0]
		list := f.claim(f.agent, 1)
		f.destinations[0].ForAgents, f.destinations[0].Held = false, true
		if err := f.report(f.agent, 503, list...); err != nil {
			f.Fatal(err)
		}
		f.wantStatus(id, eventhook.DeliveryFailed, 1)
		if r := f.queue.row(id); r.RetryCount != 1 || len(f.queue.probed) != 0 {
			f.Errorf("got %d retries and the probes %v, want a retry and no probe", r.RetryCount, f.queue.probed)
		}
	})
}

// A probe is that of its lease, also if a user enables the subscription before the result.
func TestAProbeEndsAfterItsSubscriptionWasEnabled(t *testing.T) {
	run(t, func(f *fixture) {
		to := f.add(&transport{}, "env:prod")
		f.store(to, 1)
		f.destinations[0].ForAgents, f.destinations[0].Held = false, true
		f.queue.set(func(q *queue) { q.probeDue = true })
		list := f.claim(f.agent, 1)
		f.destinations[0].ForAgents, f.destinations[0].Held = true, false
		if err := f.report(f.agent, 503, list...); err != nil {
			f.Fatal(err)
		}
		if !slices.Equal(f.queue.probed, []outbound.ProbeResult{outbound.ProbeFailed}) {
			f.Errorf("got the results %v, want a failed probe", f.queue.probed)
		}
	})
}

// A delivery that cannot be composed does not end the probe: the next one is sent.
func TestAProbePassesOverADeliveryThatCannotBeComposed(t *testing.T) {
	run(t, func(f *fixture) {
		broken := &transport{fails: eventhook.ErrorTransform}
		to := f.add(broken, "env:prod")
		ids := f.store(to, 3)
		broken.only = ids[0]
		f.destinations[0].ForAgents, f.destinations[0].Held = false, true
		f.queue.set(func(q *queue) { q.probeDue = true })
		if list := f.claim(f.agent, 10); len(list) != 1 || list[0].ID != ids[1] {
			f.Fatalf("claimed %+v, want the second delivery as the probe", list)
		}
		f.wantStatus(ids[0], eventhook.DeliveryFailed, 1)
		broken.only = eventhook.DeliveryID{}
		f.queue.set(func(q *queue) { q.probeDue = true })
		if list := f.claim(f.agent, 10); len(list) != 0 {
			f.Errorf("claimed %+v, want nothing while no transform succeeds", list)
		}
		if !slices.Equal(f.queue.probed, []outbound.ProbeResult{outbound.ProbeEmpty}) {
			f.Errorf("got the results %v, want a probe without a delivery", f.queue.probed)
		}
		f.wantStatus(ids[0], eventhook.DeliveryFailed, 2)
	})
}

// A claim returns about MaxClaimBytes of bodies. The other deliveries are due again at once, without
// an attempt or an expired lease.
func TestTheBytesOfAClaimAreBounded(t *testing.T) {
	run(t, func(f *fixture) {
		to := f.add(&transport{size: agents.MaxClaimBytes / 3}, "env:prod")
		f.destinations[0].Slots = 100
		f.store(to, 4) // as many as a destination without a history gets
		if n := len(f.claim(f.agent, 100)); n != 3 {
			f.Fatalf("claimed %d deliveries of a third of the limit, want 3", n)
		}
		again := f.claim(f.other, 100)
		if len(again) != 1 || again[0].Attempt != 1 || f.observer.takenOver != 0 {
			f.Errorf("got %+v with %d leases taken over, want the fourth at its first attempt", again, f.observer.takenOver)
		}
	})
	run(t, func(f *fixture) {
		to := f.add(&transport{size: agents.MaxClaimBytes + 1}, "env:prod")
		f.store(to, 2)
		if n := len(f.claim(f.agent, 100)); n != 1 {
			f.Errorf("claimed %d bodies above the limit, want one", n)
		}
	})
}

// The gateway repeats its own request with a new token after a 401. A delivery of an agent is due
// again at once, even if 401 is a terminal status; a second 401 counts.
func TestARejectedTokenIsRenewedOnce(t *testing.T) {
	run(t, func(f *fixture) {
		to := f.add(&transport{renews: true}, "env:prod")
		f.destinations[0].Retry.TerminalStatuses = []int{401}
		id := f.store(to, 1)[0]
		if err := f.report(f.agent, 401, f.claim(f.agent, 1)...); err != nil {
			f.Fatal(err)
		}
		f.wantStatus(id, eventhook.DeliveryFailed, 1)
		again := f.claim(f.agent, 1)
		if len(again) != 1 || f.queue.row(id).RetryCount != 0 {
			f.Fatalf("claimed %+v, want the delivery at once and without a counted retry", again)
		}
		if err := f.report(f.agent, 401, again...); err != nil {
			f.Fatal(err)
		}
		f.wantStatus(id, eventhook.DeliveryDead, 2)
	})
	run(t, func(f *fixture) { // without a token, the first 401 counts
		to := f.add(&transport{}, "env:prod")
		f.destinations[0].Retry.TerminalStatuses = []int{401}
		id := f.store(to, 1)[0]
		if err := f.report(f.agent, 401, f.claim(f.agent, 1)...); err != nil {
			f.Fatal(err)
		}
		f.wantStatus(id, eventhook.DeliveryDead, 1)
	})
}

// An attempt began before its result by its duration, by the clock of the gateway, and not before the
// longest lease: the clock of an agent may be set while it sends.
func TestAnAttemptBeginsByTheClockOfTheGateway(t *testing.T) {
	for _, c := range []struct{ reported, want time.Duration }{
		{3 * time.Second, 3 * time.Second}, {time.Hour, eventhook.MaxAgentLease - lease + 10*time.Second},
	} {
		run(t, func(f *fixture) {
			sent := &transport{}
			to := f.add(sent, "env:prod")
			f.store(to, 1)
			x := f.claim(f.agent, 1)[0]
			time.Sleep(10 * time.Second)
			if errs := f.Report(f.agent, []eventhook.AgentResult{{ID: x.ID, LeaseToken: x.Lease.Token, StatusCode: 200, Duration: c.reported}}); errs[0] != nil {
				f.Fatal(errs[0])
			}
			a := sent.reports[0].Result
			if a.Duration != c.want || !a.StartedAt.Equal(time.Now().Add(-c.want)) {
				f.Errorf("a duration of %s: the attempt began at %s and took %s, want %s before now", c.reported, a.StartedAt, a.Duration, c.want)
			}
		})
	}
}

func TestTheTraceOfAnAttemptHasTheSizeOfItsBody(t *testing.T) {
	run(t, func(f *fixture) {
		sent := &transport{size: 1234}
		to := f.add(sent, "env:prod")
		f.store(to, 2)
		list := f.claim(f.agent, 2)
		if err := f.report(f.agent, 200, list[0]); err != nil {
			f.Fatal(err)
		}
		second := f.newService()
		ctx, stop := context.WithCancel(f.Context())
		ended := make(chan error)
		go func() { ended <- second.Run(ctx) }()
		if errs := second.Report(f.agent, []eventhook.AgentResult{{ID: list[1].ID, LeaseToken: list[1].Lease.Token, StatusCode: 200}}); errs[0] != nil {
			f.Error(errs[0])
		}
		stop()
		<-ended
		if here, there := sent.reports[0].BodySize, sent.reports[1].BodySize; here != 1234 || there != -1 {
			f.Errorf("got the sizes %d, and %d at an instance that does not know it; want 1234 and -1", here, there)
		}
	})
}

// The text of a result for a deleted destination may contain secrets that are not known any more.
func TestATextForADeletedDestinationIsNotStored(t *testing.T) {
	run(t, func(f *fixture) {
		to := f.add(&transport{}, "env:prod")
		f.store(to, 2)
		list := f.claim(f.agent, 2)
		f.destinations = nil
		errs := f.Report(f.agent, []eventhook.AgentResult{
			{ID: list[0].ID, LeaseToken: list[0].Lease.Token, StatusCode: 503, Excerpt: "s3cret\x1b[2J"},
			{ID: list[1].ID, LeaseToken: list[1].Lease.Token, ErrorClass: eventhook.ErrorConnect, Error: "s3cret\x1b[2J"}})
		if err := errors.Join(errs...); err != nil {
			f.Fatal(err)
		}
		for _, s := range f.queue.settled {
			if text := s.LastError + s.Attempt.Error + s.Attempt.Excerpt; strings.Contains(text, "s3cret") || s.LastError == "" {
				f.Errorf("got %q, want a text of the gateway", text)
			}
		}
	})
}
