package api_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/api"
)

// countingKeys counts the lookups of keys.
type countingKeys struct {
	api.KeyStore
	lookups *atomic.Int64
}

func (c countingKeys) KeyByHash(ctx context.Context, hash []byte) (eventhook.APIKey, eventhook.Tenant, error) {
	c.lookups.Add(1)
	return c.KeyStore.KeyByHash(ctx, hash)
}

// from lists the events of acme from a client address.
func (r *fixture) from(address, key string) *answer {
	r.Helper()
	req := httptest.NewRequestWithContext(r.Context(), "GET", T("acme")+"/events", nil)
	req.RemoteAddr = address
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	return r.do(req)
}

const (
	attacker = "198.51.100.7:1"
	burst    = 20
	slots    = 2
)

// exhaust uses up the budget of a client address.
func (r *fixture) exhaust(address string) {
	r.Helper()
	for n := range burst {
		if a := r.from(address, fmt.Sprint("ehk_guess-", n)); a.Code != http.StatusUnauthorized {
			r.Fatalf("wrong key %d was answered %d, want 401", n, a.Code)
		}
	}
}

func TestWrongKeysUseUpTheBudgetOfTheirAddress(t *testing.T) {
	var lookups atomic.Int64
	reasons := map[string]int{}
	r := setUp(t, peer, func(d *api.Deps) {
		d.Keys = countingKeys{d.Keys, &lookups}
		d.OnRefusal = func(reason string) { reasons[reason]++ }
	})
	good, _ := r.key("acme", eventhook.ScopeRead)
	r.exhaust(attacker)
	for _, key := range []string{"ehk_another", "not-a-key", "ehk_another"} {
		a := r.from(attacker, key).want(http.StatusTooManyRequests)
		if got := a.Header().Get("Retry-After"); got != "1" {
			t.Errorf("Retry-After is %q, want a second", got)
		}
	}
	if n := lookups.Load(); n > 0 {
		t.Errorf("%d lookups of tokens without the form of a key, want none", n)
	}
	made := api.NewKey()
	for range 10 {
		r.from(attacker, made).want(http.StatusTooManyRequests)
	}
	if n := lookups.Load(); n != 1 {
		t.Errorf("%d lookups of one wrong key, want one", n)
	}
	r.from(attacker, "").want(http.StatusUnauthorized) // not a guess
	r.from("198.51.100.8:1", good).want(http.StatusOK)
	r.from("198.51.100.8:1", "ehk_wrong").want(http.StatusUnauthorized)

	r.clock.Advance(time.Second)
	r.from(attacker, adminKey).want(http.StatusOK)
	r.from(attacker, api.NewKey()).want(http.StatusUnauthorized)
	r.from(attacker, api.NewKey()).want(http.StatusTooManyRequests)
	if diff := cmp.Diff(map[string]int{"key_wrong": burst + 2, "too_many_wrong_keys": 14, "key_missing": 1}, reasons); diff != "" {
		t.Errorf("refusals (-want +got):\n%s", diff)
	}
}

func TestValidKeysAreNotRefusedForWrongKeys(t *testing.T) {
	r := setUp(t, peer)
	fresh, _ := r.key("acme", eventhook.ScopeRead)
	revoked, stored := r.key("acme", eventhook.ScopeRead)
	r.exhaust(attacker) // before any valid key from this address
	for range 2 * burst {
		r.from(attacker, api.NewKey()).want(http.StatusTooManyRequests)
		for _, key := range []string{adminKey, fresh, revoked} {
			r.from(attacker, key).want(http.StatusOK)
		}
	}
	r.must(r.db.DeleteKey(t.Context(), operator, r.acme, stored.ID))
	r.clock.Advance(time.Second) // the budget grows by one
	r.from(attacker, revoked).want(http.StatusUnauthorized)
	r.from(attacker, revoked).want(http.StatusTooManyRequests)
	r.from(attacker, fresh).want(http.StatusOK)
}

// slowKeys blocks each lookup until the test releases it, and records the highest
// number of concurrent lookups.
type slowKeys struct {
	api.KeyStore
	began   chan struct{}
	answer  chan struct{}
	running atomic.Int64
	maximum atomic.Int64 // of running
}

func newSlowKeys() *slowKeys {
	return &slowKeys{began: make(chan struct{}, 1000), answer: make(chan struct{})}
}

func (s *slowKeys) wrap(d *api.Deps) { s.KeyStore, d.Keys = d.Keys, s }

func (s *slowKeys) KeyByHash(context.Context, []byte) (eventhook.APIKey, eventhook.Tenant, error) {
	now := s.running.Add(1)
	defer s.running.Add(-1)
	for m := s.maximum.Load(); now > m && !s.maximum.CompareAndSwap(m, now); m = s.maximum.Load() {
	}
	s.began <- struct{}{}
	<-s.answer
	return eventhook.APIKey{}, eventhook.Tenant{}, &eventhook.Error{Kind: eventhook.KindUnauthorized}
}

// guess sends n requests with different wrong keys at the same time. statuses waits
// for the responses and counts them.
func (r *fixture) guess(ctx context.Context, address string, n int) (statuses func() map[int]int) {
	var all sync.WaitGroup
	answers := make([]int, n)
	for i := range n {
		all.Go(func() {
			req := httptest.NewRequestWithContext(ctx, "GET", T("acme")+"/events", nil)
			req.RemoteAddr = address
			req.Header.Set("Authorization", "Bearer "+api.NewKey())
			answers[i] = r.do(req).Code
		})
	}
	return func() map[int]int {
		all.Wait()
		waitCounts := map[int]int{}
		for _, status := range answers {
			waitCounts[status]++
		}
		return waitCounts
	}
}

func TestConcurrentGuessesDoNotExceedTheBudget(t *testing.T) {
	store := newSlowKeys()
	r := setUp(t, peer, store.wrap)
	statuses := r.guess(t.Context(), attacker, 3*burst)
	for range burst + slots {
		<-store.began
	}
	close(store.answer)
	if diff := cmp.Diff(map[int]int{http.StatusUnauthorized: burst, http.StatusTooManyRequests: 2 * burst}, statuses()); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
	if got := store.maximum.Load(); got > burst+slots {
		t.Errorf("%d concurrent lookups, want at most %d", got, burst+slots)
	}
}

func TestLookupsBeyondTheBudgetAreLimited(t *testing.T) {
	store := newSlowKeys()
	r := setUp(t, peer, store.wrap)
	r.exhaust(attacker)
	r.exhaust("198.51.100.8:1")
	cancelable, disconnect := context.WithCancel(t.Context())
	gone := r.guess(cancelable, attacker, slots)
	for range slots {
		<-store.began
	}
	disconnect() // ends no lookup and frees no slot
	const flood = 50
	first, second := r.guess(t.Context(), attacker, flood), r.guess(t.Context(), "198.51.100.8:1", flood)
	r.from(attacker, adminKey).want(http.StatusOK) // needs no lookup
	for range slots + 2*flood {
		store.answer <- struct{}{}
	}
	gone()
	for _, statuses := range []func() map[int]int{first, second} {
		if diff := cmp.Diff(map[int]int{http.StatusTooManyRequests: flood}, statuses()); diff != "" {
			t.Errorf("statuses (-want +got):\n%s", diff)
		}
	}
	if got := store.maximum.Load(); got != slots {
		t.Errorf("%d concurrent lookups, want %d", got, slots)
	}
}

func TestDisconnectedGuessesCount(t *testing.T) {
	store := newSlowKeys()
	r := setUp(t, peer, store.wrap)
	cancelable, disconnect := context.WithCancel(t.Context())
	all := r.guess(cancelable, attacker, burst)
	for range burst {
		<-store.began
	}
	disconnect()
	close(store.answer)
	all()
	r.from(attacker, "ehk_wrong").want(http.StatusTooManyRequests)
}

func TestDisconnectedRequestsDoNotWaitForASlot(t *testing.T) {
	store := newSlowKeys()
	r := setUp(t, peer, store.wrap)
	r.exhaust(attacker)
	all := r.guess(t.Context(), attacker, slots)
	for range slots {
		<-store.began
	}
	cancelable, disconnect := context.WithCancel(t.Context())
	waiting := r.guess(cancelable, attacker, 5)
	disconnect()
	waiting()
	close(store.answer)
	all()
	if n := len(store.began); n > 0 {
		t.Errorf("%d lookups for disconnected clients, want none", n)
	}
}

func TestOtherRefusalsDoNotUseTheBudget(t *testing.T) {
	r := setUp(t, peer)
	good, _ := r.key("acme", eventhook.ScopeRead)
	for range 3 * burst {
		fresh, _ := r.key("acme", eventhook.ScopeRead)
		r.from(attacker, fresh).want(http.StatusOK)
		r.from(attacker, "").want(http.StatusUnauthorized)
		r.withAuthorization("Basic dTpw", "GET", T("acme")+"/events").want(http.StatusUnauthorized)
		r.call(good, "GET", T("umbrella")+"/events", nil).want(http.StatusNotFound)
		r.call(good, "GET", "/api/admin/tenants", nil).want(http.StatusForbidden)
	}
	r.exhaust(attacker) // the budget is full
	r.from(attacker, "ehk_wrong").want(http.StatusTooManyRequests)
}

func TestDatabaseErrorsDoNotUseTheBudget(t *testing.T) {
	var isUp atomic.Bool
	r := setUp(t, peer, func(d *api.Deps) { d.Keys = flakyKeys{d.Keys, &isUp} })
	for range 3 * burst {
		r.from(attacker, api.NewKey()).want(http.StatusInternalServerError)
	}
	isUp.Store(true)
	r.from(attacker, api.NewKey()).want(http.StatusUnauthorized)
}

// flakyKeys fails while isUp is false.
type flakyKeys struct {
	api.KeyStore
	isUp *atomic.Bool
}

func (f flakyKeys) KeyByHash(ctx context.Context, hash []byte) (eventhook.APIKey, eventhook.Tenant, error) {
	if !f.isUp.Load() {
		return brokenKeys{}.KeyByHash(ctx, hash)
	}
	return f.KeyStore.KeyByHash(ctx, hash)
}

func TestIPv6BudgetIsPerNetwork(t *testing.T) {
	r := setUp(t, peer)
	good, _ := r.key("acme", eventhook.ScopeRead)
	r.exhaust("[2001:db8::1]:1")
	r.from("[2001:db8::ffff:0:0:1]:1", "ehk_wrong").want(http.StatusTooManyRequests)
	r.from("[2001:db8::6]:1", good).want(http.StatusOK)
	r.from("[2001:db8:0:1::1]:1", "ehk_wrong").want(http.StatusUnauthorized)
}
