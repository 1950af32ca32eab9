package api_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/labstack/echo/v4"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/api"
	"github.com/eventhook/eventhook/internal/effects"
)

// observedStore is a store that signals when a request is about to wait. Before the
// first signal it calls afterCheck.
type observedStore struct {
	api.WorkStore
	api.PromiseStore
	waiting    chan struct{}
	afterCheck func()
}

func newObservedStore() *observedStore { return &observedStore{waiting: make(chan struct{}, 100)} }

// wrap puts the store in front of that of d.
func (w *observedStore) wrap(d *api.Deps) {
	w.WorkStore, w.PromiseStore = d.Work, d.Promises
	d.Work, d.Promises = w, w
}

func (w *observedStore) checked() {
	if act := w.afterCheck; act != nil {
		w.afterCheck = nil
		act()
	}
	w.waiting <- struct{}{}
}

func (w *observedStore) ClaimWork(ctx context.Context, q eventhook.WorkQuery) ([]eventhook.Execution, error) {
	list, err := w.WorkStore.ClaimWork(ctx, q)
	if len(list) == 0 {
		w.checked()
	}
	return list, err
}

// NextWork returns the zero time, so that only a wake-up ends a wait.
func (w *observedStore) NextWork(context.Context, eventhook.WorkQuery) (time.Time, error) {
	return time.Time{}, nil
}

func (w *observedStore) Promise(ctx context.Context, tenant eventhook.TenantID, id eventhook.PromiseID) (eventhook.Promise, error) {
	p, err := w.PromiseStore.Promise(ctx, tenant, id)
	if p.Status == eventhook.PromisePending {
		w.checked()
	}
	return p, err
}

const waitingClaim = `{"wait_seconds":60}`

func wantItems(t *testing.T, a *answer, n int) {
	t.Helper()
	var got struct{ Items []item }
	if a.want(http.StatusOK).into(&got); len(got.Items) != n {
		t.Errorf("claimed %d, want %d", len(got.Items), n)
	}
}

func TestClaimWakesForWork(t *testing.T) {
	for claim, createWork := range map[string]func(r *fixture){
		"new work": func(r *fixture) { r.execution(eventhook.Task, "build") },
		"work that is retried": func(r *fixture) {
			id := r.execution(eventhook.Task, "build")
			r.admin("POST", T("acme")+"/work/"+id+"/cancel", nil).want(http.StatusOK)
			r.admin("POST", T("acme")+"/work/"+id+"/retry", nil).want(http.StatusOK)
		},
	} {
		t.Run(claim, func(t *testing.T) {
			w := newObservedStore()
			r := setUp(t, w.wrap)
			claimed := r.sendAsync(adminKey, "POST", T("acme")+"/work/claim", waitingClaim)
			receive(t, "the claim waits", w.waiting)
			createWork(r)
			wantItems(t, receive(t, "the claim wakes", claimed), 1)
		})
	}
}

func TestClaimSeesWorkCreatedBeforeItWaits(t *testing.T) {
	w := newObservedStore()
	r := setUp(t, w.wrap)
	w.afterCheck = func() { r.execution(eventhook.Task, "build") }
	claimed := r.sendAsync(adminKey, "POST", T("acme")+"/work/claim", waitingClaim)
	wantItems(t, receive(t, "the claim wakes", claimed), 1)
}

func TestClaimWakesForAResumedWorkflow(t *testing.T) {
	w := newObservedStore()
	r := setUp(t, w.wrap)
	r.execution(eventhook.Workflow, "pay")
	p := r.createPromise("paid", http.StatusCreated)
	r.act(r.claimOne(), "suspend", map[string]any{"await": []string{p.ID}}).want(http.StatusOK)
	claimed := r.sendAsync(adminKey, "POST", T("acme")+"/work/claim", waitingClaim)
	receive(t, "the claim waits", w.waiting)
	r.admin("POST", T("acme")+"/promises/"+p.ID+"/resolve", map[string]any{"value": 1}).want(http.StatusOK)
	wantItems(t, receive(t, "the claim wakes", claimed), 1)
}

func TestOneOfManyClaimsGetsTheWork(t *testing.T) {
	const workers = 5
	w := newObservedStore()
	r := setUp(t, w.wrap)
	answers := make(chan *answer, workers)
	for range workers {
		go func() {
			answers <- r.send(context.WithoutCancel(t.Context()), adminKey, "POST", T("acme")+"/work/claim", []byte(waitingClaim))
		}()
	}
	receive(t, "the first claim waits", w.waiting)
	r.execution(eventhook.Task, "build")
	wantItems(t, receive(t, "one claim wakes", answers), 1)
	close(r.stopping)
	for range workers - 1 {
		wantItems(t, receive(t, "the other claims end", answers), 0)
	}
}

func TestWaitsEndWhenTheServerStops(t *testing.T) {
	w := newObservedStore()
	r := setUp(t, w.wrap)
	p := r.createPromise("paid", http.StatusCreated)
	claimed := r.sendAsync(adminKey, "POST", T("acme")+"/work/claim", waitingClaim)
	read := r.sendAsync(adminKey, "GET", T("acme")+"/promises/"+p.ID+"?wait_seconds=60", "")
	receive(t, "one request waits", w.waiting)
	receive(t, "the other request waits", w.waiting)
	close(r.stopping)
	wantItems(t, receive(t, "the claim ends", claimed), 0)
	if got := receive(t, "the read ends", read).want(http.StatusOK).object(); got["status"] != "pending" {
		t.Errorf("got %v, want the status pending", got)
	}
	wantItems(t, r.admin("POST", T("acme")+"/work/claim", waitingClaim), 0) // new waits end at once
}

func TestWaitsEndWhenTheClientDisconnects(t *testing.T) {
	w := newObservedStore()
	r := setUp(t, w.wrap)
	ctx, disconnect := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		r.send(ctx, adminKey, "POST", T("acme")+"/work/claim", []byte(waitingClaim))
		close(ended)
	}()
	receive(t, "the claim waits", w.waiting)
	disconnect()
	receive(t, "the claim ends", ended)
}

func TestPromiseIsAwaited(t *testing.T) {
	settle := func(r *fixture, p promiseJSON, act string, body map[string]any) {
		r.admin("POST", T("acme")+"/promises/"+p.ID+"/"+act, body).want(http.StatusOK)
	}
	for _, c := range []struct {
		status string
		settle func(r *fixture, p promiseJSON)
	}{
		{"resolved", func(r *fixture, p promiseJSON) { settle(r, p, "resolve", map[string]any{"value": 1}) }},
		{"rejected", func(r *fixture, p promiseJSON) { settle(r, p, "reject", map[string]any{"error": "x"}) }},
		{"resolved", func(r *fixture, p promiseJSON) {
			r.settle(r.event(), plannedPromise(effects.PromiseOutcome{Key: p.IdempotencyKey, Status: eventhook.PromiseResolved, Value: []byte(`1`)}))
		}},
		{"expired", func(r *fixture, _ promiseJSON) {
			r.clock.Advance(time.Hour)
			_, err := r.db.ExpirePromises(r.Context())
			r.must(err)
		}},
	} {
		for _, early := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, before it waits: %v", c.status, early), func(t *testing.T) {
				w := newObservedStore()
				r := setUp(t, w.wrap)
				var p promiseJSON
				r.admin("POST", T("acme")+"/promises", map[string]any{"idempotency_key": "k", "timeout_seconds": 3600}).want(http.StatusCreated).into(&p)
				if early {
					w.afterCheck = func() { c.settle(r, p) }
				}
				read := r.sendAsync(adminKey, "GET", T("acme")+"/promises/"+p.ID+"?wait_seconds=60", "")
				if !early {
					receive(t, "the read waits", w.waiting)
					c.settle(r, p)
				}
				if got := receive(t, "the read wakes", read).want(http.StatusOK).object(); got["status"] != c.status || got["settled_at"] == nil {
					t.Errorf("got %v, want the status %s", got, c.status)
				}
			})
		}
	}
}

// idleStore is a store without work until a given time. It needs synthetic time.
type idleStore struct {
	api.WorkStore
	next   time.Time       // when work is due; zero: never
	checks []time.Duration // times of the checks since the start
	began  time.Time
}

func (s *idleStore) WorkWake(eventhook.TenantID, string) <-chan struct{} { return nil }

func (s *idleStore) ClaimWork(context.Context, eventhook.WorkQuery) ([]eventhook.Execution, error) {
	s.checks = append(s.checks, time.Since(s.began))
	if !s.next.IsZero() && !time.Now().Before(s.next) {
		return []eventhook.Execution{{Input: []byte("1")}}, nil
	}
	return nil, nil
}

func (s *idleStore) NextWork(context.Context, eventhook.WorkQuery) (time.Time, error) {
	return s.next, nil
}

type oneTenant struct{ api.KeyStore }

func (oneTenant) Tenant(context.Context, string) (eventhook.Tenant, error) {
	return eventhook.Tenant{Slug: "acme"}, nil
}

func TestClaimChecksWhenWorkIsDueAndEndsAfterItsWait(t *testing.T) {
	for _, c := range []struct {
		claim string
		next  time.Duration // 0: never
		items int
		ends  time.Duration
	}{
		{"no work", 0, 0, 55 * time.Second},
		{"work is due during the wait", 25 * time.Second, 1, 25 * time.Second},
		{"work is due after the wait", 90 * time.Second, 0, 55 * time.Second},
	} {
		t.Run(c.claim, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &idleStore{began: time.Now()}
				if c.next > 0 {
					s.next = s.began.Add(c.next)
				}
				e := echo.New()
				api.Register(e, api.Deps{Work: s, Keys: oneTenant{}, AdminKeys: []eventhook.Secret{eventhook.NewSecret(adminKey)}, Now: time.Now, OnWorkerAct: func(string, int) {}})
				req := httptest.NewRequest("POST", T("acme")+"/work/claim", strings.NewReader(`{"wait_seconds":55}`))
				req.Header.Set("Authorization", "Bearer "+adminKey)
				a := httptest.NewRecorder()
				e.ServeHTTP(a, req)
				body, _ := io.ReadAll(bufio.NewReader(a.Body))
				if n := strings.Count(string(body), `"id"`); a.Code != http.StatusOK || n != c.items {
					t.Errorf("answered %d %s, want %d items", a.Code, body, c.items)
				}
				// At once, every ten seconds in case a wake-up was lost, and when work is due.
				const fallbackInterval = 10 * time.Second
				var want []time.Duration
				for at := time.Duration(0); at < c.ends; at += fallbackInterval {
					want = append(want, at)
				}
				if c.items > 0 {
					want = append(want, c.ends)
				}
				if diff := cmp.Diff(want, s.checks); diff != "" || time.Since(s.began) != c.ends {
					t.Errorf("ended after %s, want %s; checks after (-want +got):\n%s", time.Since(s.began), c.ends, diff)
				}
			})
		})
	}
}
