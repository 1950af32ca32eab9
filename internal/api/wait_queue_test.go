package api_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/api"
)

// fakeWaitStore is a store that counts its calls. It needs synthetic time.
type fakeWaitStore struct {
	api.WorkStore
	api.PromiseStore
	mu      sync.Mutex
	woken   chan struct{}
	items   int                     // number of due executions
	settled eventhook.PromiseStatus // status of the promise
	checks  int
	broken  bool
}

func newFakeWaitStore() *fakeWaitStore {
	return &fakeWaitStore{woken: make(chan struct{}), settled: eventhook.PromisePending}
}

// wake adds due work or settles the promise, and wakes the waiting requests.
func (o *fakeWaitStore) wake(items int, status eventhook.PromiseStatus) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.items += items
	o.settled = status
	close(o.woken)
	o.woken = make(chan struct{})
}

func (o *fakeWaitStore) wakes() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.woken
}

func (o *fakeWaitStore) WorkWake(eventhook.TenantID, string) <-chan struct{} { return o.wakes() }

func (o *fakeWaitStore) PromiseWake(eventhook.TenantID, eventhook.PromiseID) <-chan struct{} {
	return o.wakes()
}

func (o *fakeWaitStore) ClaimWork(context.Context, eventhook.WorkQuery) ([]eventhook.Execution, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.checks++
	if o.broken {
		return nil, errBroken
	}
	if o.items == 0 {
		return nil, nil
	}
	o.items--
	return []eventhook.Execution{{Input: []byte("1")}}, nil
}

func (o *fakeWaitStore) NextWork(context.Context, eventhook.WorkQuery) (time.Time, error) {
	return time.Time{}, nil
}

func (o *fakeWaitStore) Promise(context.Context, eventhook.TenantID, eventhook.PromiseID) (eventhook.Promise, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.checks++
	return eventhook.Promise{Status: o.settled}, nil
}

// wantChecks compares the number of calls since the last wantChecks.
func (o *fakeWaitStore) wantChecks(t *testing.T, when string, want int) {
	t.Helper()
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.checks != want {
		t.Errorf("%s: %d checks, want %d", when, o.checks, want)
	}
	o.checks = 0
}

// manyTenants is a KeyStore that has every tenant.
type manyTenants struct{ api.KeyStore }

func (manyTenants) Tenant(_ context.Context, slug string) (t eventhook.Tenant, err error) {
	t.Slug = slug
	copy(t.ID[:], slug)
	return t, nil
}

// waitHarness sends requests that wait for the store.
type waitHarness struct {
	t        *testing.T
	router   *echo.Echo
	stopping chan struct{}
	mu       sync.Mutex
	answers  []*httptest.ResponseRecorder
}

func newWaitHarness(t *testing.T, o *fakeWaitStore) *waitHarness {
	c := &waitHarness{t: t, router: echo.New(), stopping: make(chan struct{})}
	api.Register(c.router, api.Deps{Work: o, Promises: o, Keys: manyTenants{}, AdminKeys: []eventhook.Secret{eventhook.NewSecret(adminKey)}, Now: time.Now,
		Stopping: c.stopping, OnWorkerAct: func(string, int) {}, Log: slog.New(slog.DiscardHandler)})
	return c
}

// start starts n requests, one after the other. disconnect cancels them.
func (c *waitHarness) start(n int, method, path, body string) (disconnect func()) {
	ctx, disconnect := context.WithCancel(c.t.Context())
	for range n {
		go func() {
			req := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
			req.Header.Set("Authorization", "Bearer "+adminKey)
			a := httptest.NewRecorder()
			c.router.ServeHTTP(a, req)
			c.mu.Lock()
			defer c.mu.Unlock()
			c.answers = append(c.answers, a)
		}()
		synctest.Wait()
	}
	return disconnect
}

func (c *waitHarness) claims(n int, body string) (disconnect func()) {
	return c.start(n, "POST", T("acme")+"/work/claim", body)
}

// wantAnswers compares the number of responses since the last wantAnswers, and the
// number of responses that contain a word.
func (c *waitHarness) wantAnswers(when string, want int, word string, withWord int) {
	c.t.Helper()
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, a := range c.answers {
		if strings.Contains(a.Body.String(), word) {
			n++
		}
	}
	if len(c.answers) != want || n != withWord {
		c.t.Errorf("%s: %d responses, %d of them with %s; want %d and %d", when, len(c.answers), n, word, want, withWord)
	}
	c.answers = nil
}

const hasItem, longWait = `"lease_token"`, `{"max":1,"wait_seconds":58}` // not a multiple of the fallback interval

func TestWakeCostsOneCheckPerItemAndOneMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newFakeWaitStore()
		c := newWaitHarness(t, o)
		c.claims(500, longWait)
		o.wantChecks(t, "at the start, by the first request", 1)
		o.wake(3, eventhook.PromisePending)
		c.wantAnswers("after a wake-up with three items", 3, hasItem, 3)
		o.wantChecks(t, "after a wake-up with three items", 4)
		o.wake(0, eventhook.PromisePending)
		o.wantChecks(t, "after a wake-up without items", 1)
		time.Sleep(11 * time.Second)
		o.wantChecks(t, "after the fallback interval", 1)
		time.Sleep(50 * time.Second)
		c.wantAnswers("after the wait", 497, hasItem, 0)
		o.wantChecks(t, "during the wait", 4)
	})
}

func TestNextRequestTakesOverTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newFakeWaitStore()
		c := newWaitHarness(t, o)
		disconnect := c.claims(10, longWait)
		c.claims(1, `{"wait_seconds":2}`)
		c.claims(1, longWait)
		o.wantChecks(t, "at the start", 1)
		disconnect()
		c.wantAnswers("disconnected requests", 10, hasItem, 0)
		time.Sleep(2 * time.Second)
		c.wantAnswers("the request with a short wait", 1, hasItem, 0)
		o.wantChecks(t, "when requests end", 0)
		o.wake(1, eventhook.PromisePending)
		c.wantAnswers("the remaining request", 1, hasItem, 1)
		o.wantChecks(t, "the remaining request", 1)
		c.claims(1, `{}`)
		c.wantAnswers("a request without a wait", 1, hasItem, 0)
	})
}

func TestClaimsOfOtherWorkHaveTheirOwnQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newFakeWaitStore()
		c := newWaitHarness(t, o)
		for _, body := range []string{longWait, `{"wait_seconds":60,"queue":"ci"}`, `{"wait_seconds":60,"kinds":["a"]}`,
			`{"wait_seconds":60,"kinds":["a","b"]}`, `{"wait_seconds":60,"kinds":["b","a","b"]}`, `{"wait_seconds":60,"queue":"x","kinds":["y z"]}`,
			`{"wait_seconds":60,"queue":"x y","kinds":["z"]}`, `{"wait_seconds":60,"queue":"x y z"}`, `{"wait_seconds":60,"queue":"x y z","kinds":[""]}`} {
			c.claims(5, body)
		}
		c.start(5, "POST", T("umbrella")+"/work/claim", longWait)
		o.wantChecks(t, "at the start, per queue", 9)
		o.wake(0, eventhook.PromisePending)
		o.wantChecks(t, "after a wake-up, per queue", 9)
		close(c.stopping)
		c.wantAnswers("when the server stops", 50, hasItem, 0)
		o.wantChecks(t, "when the server stops", 0)
	})
}

func TestEveryWaitingRequestGetsDatabaseErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newFakeWaitStore()
		c := newWaitHarness(t, o)
		c.claims(20, longWait)
		o.broken = true
		o.wake(0, eventhook.PromisePending)
		c.wantAnswers("all requests", 20, http.StatusText(http.StatusInternalServerError), 20)
	})
}

func TestOneCheckServesAllRequestsForAPromise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newFakeWaitStore()
		c := newWaitHarness(t, o)
		path := T("acme") + "/promises/" + eventhook.NewID[eventhook.Promise](noon).String() + "?wait_seconds=60"
		disconnect := c.start(100, "GET", path, "")
		c.start(400, "GET", path, "")
		o.wantChecks(t, "at the start, by every request", 500)
		o.wake(0, eventhook.PromisePending)
		o.wantChecks(t, "after a wake-up without a change", 1)
		disconnect()
		c.wantAnswers("disconnected requests", 100, `"resolved"`, 0)
		o.wake(0, eventhook.PromiseResolved)
		c.wantAnswers("all other requests", 400, `"resolved"`, 400)
		o.wantChecks(t, "when the promise is settled", 1)
	})
}

func TestWaitingRequestsOfATenantAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 2000
		o := newFakeWaitStore()
		c := newWaitHarness(t, o)
		for queue := range 4 {
			c.claims(limit/4, fmt.Sprintf(`{"wait_seconds":60,"queue":"q%d"}`, queue))
		}
		c.claims(1, longWait)
		if len(c.answers) != 1 || c.answers[0].Code != http.StatusTooManyRequests || c.answers[0].Header().Get("Retry-After") == "" {
			t.Fatalf("got %d answers, want one 429 with Retry-After", len(c.answers))
		}
		c.answers = nil
		c.claims(1, `{}`)
		c.wantAnswers("a request without a wait", 1, hasItem, 0)
		disconnect := c.start(1, "POST", T("umbrella")+"/work/claim", longWait)
		c.wantAnswers("a request of another tenant", 0, hasItem, 0)
		disconnect()
		close(c.stopping)
		c.wantAnswers("when the server stops", limit+1, `"items":[]`, limit)
	})
}
