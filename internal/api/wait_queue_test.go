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

// office is a store in a bubble's time whose looks are counted.
type fakeWaitStore struct {
	api.WorkStore
	api.PromiseStore
	mu      sync.Mutex
	woken   chan struct{}
	items   int                     // that are due
	settled eventhook.PromiseStatus // of the one promise
	looks   int
	broken  bool
}

func newFakeWaitStore() *fakeWaitStore {
	return &fakeWaitStore{woken: make(chan struct{}), settled: eventhook.PromisePending}
}

// wake makes something due, or settles the promise, and tells who waits.
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
	o.looks++
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
	o.looks++
	return eventhook.Promise{Status: o.settled}, nil
}

// looked demands how often the office was looked into since the last time.
func (o *fakeWaitStore) looked(t *testing.T, when string, want int) {
	t.Helper()
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.looks != want {
		t.Errorf("%s: looked %d times, want %d", when, o.looks, want)
	}
	o.looks = 0
}

// manyTenants are all tenants there could be.
type manyTenants struct{ api.KeyStore }

func (manyTenants) Tenant(_ context.Context, slug string) (t eventhook.Tenant, err error) {
	t.Slug = slug
	copy(t.ID[:], slug)
	return t, nil
}

// crowd is requests that wait for the office.
type waitHarness struct {
	t        *testing.T
	router   *echo.Echo
	stopping chan struct{}
	mu       sync.Mutex
	answers  []*httptest.ResponseRecorder
}

func newWaitHarness(t *testing.T, o *fakeWaitStore) *waitHarness {
	c := &waitHarness{t: t, router: echo.New(), stopping: make(chan struct{})}
	api.Register(c.router, api.Deps{Work: o, Promises: o, Keys: manyTenants{}, AdminKey: eventhook.NewSecret(adminKey), Now: time.Now,
		Stopping: c.stopping, OnWorkerAct: func(string, int) {}, Log: slog.New(slog.DiscardHandler)})
	return c
}

// asks starts n requests one after the other, and returns what makes them leave.
func (c *waitHarness) asks(n int, method, path, body string) (leave func()) {
	ctx, leave := context.WithCancel(c.t.Context())
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
	return leave
}

func (c *waitHarness) claims(n int, body string) (leave func()) {
	return c.asks(n, "POST", T("acme")+"/work/claim", body)
}

// answered demands how many were answered since the last time, and how many of
// the answers hold a word.
func (c *waitHarness) answered(when string, want int, word string, holding int) {
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
	if len(c.answers) != want || n != holding {
		c.t.Errorf("%s: %d were answered, %d of them with %s; want %d and %d", when, len(c.answers), n, word, want, holding)
	}
	c.answers = nil
}

const anItem, waitsLong = `"lease_token"`, `{"max":1,"wait_seconds":58}` // not when a backstop is due

func TestAWakeCostsALookForEachItemAndOneMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newFakeWaitStore()
		c := newWaitHarness(t, o)
		c.claims(500, waitsLong)
		o.looked(t, "when they come, the first", 1)
		o.wake(3, eventhook.PromisePending)
		c.answered("at a wake with three items", 3, anItem, 3)
		o.looked(t, "at a wake with three items", 4)
		o.wake(0, eventhook.PromisePending)
		o.looked(t, "at a wake with nothing", 1)
		time.Sleep(11 * time.Second)
		o.looked(t, "in case a wake was lost", 1)
		time.Sleep(50 * time.Second)
		c.answered("when their patience is over", 497, anItem, 0)
		o.looked(t, "until then", 4)
	})
}

func TestWhoLeavesPassesTheTurnOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newFakeWaitStore()
		c := newWaitHarness(t, o)
		leave := c.claims(10, waitsLong)
		c.claims(1, `{"wait_seconds":2}`)
		c.claims(1, waitsLong)
		o.looked(t, "when they come", 1)
		leave()
		c.answered("who leave", 10, anItem, 0)
		time.Sleep(2 * time.Second)
		c.answered("whose patience is short", 1, anItem, 0)
		o.looked(t, "when they go", 0)
		o.wake(1, eventhook.PromisePending)
		c.answered("who is left", 1, anItem, 1)
		o.looked(t, "who is left", 1)
		c.claims(1, `{}`)
		c.answered("who does not wait", 1, anItem, 0)
	})
}

func TestThoseWhoWantOtherWorkDoNotWaitBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newFakeWaitStore()
		c := newWaitHarness(t, o)
		for _, body := range []string{waitsLong, `{"wait_seconds":60,"queue":"ci"}`, `{"wait_seconds":60,"kinds":["a"]}`,
			`{"wait_seconds":60,"kinds":["a","b"]}`, `{"wait_seconds":60,"kinds":["b","a","b"]}`, `{"wait_seconds":60,"queue":"x","kinds":["y z"]}`,
			`{"wait_seconds":60,"queue":"x y","kinds":["z"]}`, `{"wait_seconds":60,"queue":"x y z"}`, `{"wait_seconds":60,"queue":"x y z","kinds":[""]}`} {
			c.claims(5, body)
		}
		c.asks(5, "POST", T("umbrella")+"/work/claim", waitsLong)
		o.looked(t, "when they come, for each wish", 9)
		o.wake(0, eventhook.PromisePending)
		o.looked(t, "at a wake, for each wish", 9)
		close(c.stopping)
		c.answered("when the server stops", 50, anItem, 0)
		o.looked(t, "when the server stops", 0)
	})
}

func TestWhoeverWaitsHearsThatTheDatabaseFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newFakeWaitStore()
		c := newWaitHarness(t, o)
		c.claims(20, waitsLong)
		o.broken = true
		o.wake(0, eventhook.PromisePending)
		c.answered("all", 20, http.StatusText(http.StatusInternalServerError), 20)
	})
}

func TestOneReadsAPromiseForAllWhoWaitForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newFakeWaitStore()
		c := newWaitHarness(t, o)
		path := T("acme") + "/promises/" + eventhook.NewID[eventhook.Promise](noon).String() + "?wait_seconds=60"
		leave := c.asks(100, "GET", path, "")
		c.asks(400, "GET", path, "")
		o.looked(t, "when they come, each", 500)
		o.wake(0, eventhook.PromisePending)
		o.looked(t, "at a wake for another", 1)
		leave()
		c.answered("who leave", 100, `"resolved"`, 0)
		o.wake(0, eventhook.PromiseResolved)
		c.answered("all others", 400, `"resolved"`, 400)
		o.looked(t, "when it is settled", 1)
	})
}

func TestATenantCannotHaveAnyNumberWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 2000
		o := newFakeWaitStore()
		c := newWaitHarness(t, o)
		for queue := range 4 {
			c.claims(most/4, fmt.Sprintf(`{"wait_seconds":60,"queue":"q%d"}`, queue))
		}
		c.claims(1, waitsLong)
		if len(c.answers) != 1 || c.answers[0].Code != http.StatusTooManyRequests || c.answers[0].Header().Get("Retry-After") == "" {
			t.Fatalf("got %d answers, want one 429 that says when to come again", len(c.answers))
		}
		c.answers = nil
		c.claims(1, `{}`)
		c.answered("who does not wait", 1, anItem, 0)
		leave := c.asks(1, "POST", T("umbrella")+"/work/claim", waitsLong)
		c.answered("another tenant's", 0, anItem, 0)
		leave()
		close(c.stopping)
		c.answered("when the server stops", most+1, `"items":[]`, most)
	})
}
