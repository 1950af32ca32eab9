package api_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/api"
)

// countingKeys counts what the database is asked for.
type countingKeys struct {
	api.KeyStore
	asked *atomic.Int64
}

func (c countingKeys) KeyByHash(ctx context.Context, hash []byte) (eventhook.APIKey, eventhook.Tenant, error) {
	c.asked.Add(1)
	return c.KeyStore.KeyByHash(ctx, hash)
}

// from calls for acme's events from an address.
func (r *rig) from(address, key string) *answer {
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
)

// wrong uses an address's budget up.
func (r *rig) wrong(address string) {
	r.Helper()
	for n := range burst {
		if a := r.from(address, fmt.Sprint("ehk_guess-", n)); a.Code != http.StatusUnauthorized {
			r.Fatalf("wrong key %d was answered %d, want 401", n, a.Code)
		}
	}
}

func TestWrongKeysUseUpTheirAddresssBudget(t *testing.T) {
	var asked atomic.Int64
	reasons := map[string]int{}
	r := setUp(t, peer, func(d *api.Deps) {
		d.Keys = countingKeys{d.Keys, &asked}
		d.Refused = func(reason string) { reasons[reason]++ }
	})
	good, _ := r.key("acme", eventhook.ScopeRead)
	r.wrong(attacker)
	for _, key := range []string{"ehk_another", api.NewKey(), good, adminKey} {
		a := r.from(attacker, key).want(http.StatusTooManyRequests)
		if got := a.Header().Get("Retry-After"); got != "1" {
			t.Errorf("Retry-After is %q, want a second", got)
		}
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("the database was asked %d times, want never", n)
	}
	r.from(attacker, "").want(http.StatusUnauthorized) // tries nothing
	r.from("198.51.100.8:1", good).want(http.StatusOK)
	r.from("198.51.100.8:1", "ehk_wrong").want(http.StatusUnauthorized)

	r.clock.advance(time.Second)
	r.from(attacker, adminKey).want(http.StatusOK)
	r.from(attacker, api.NewKey()).want(http.StatusUnauthorized)
	r.from(attacker, api.NewKey()).want(http.StatusTooManyRequests)
	r.from(attacker, adminKey).want(http.StatusOK) // was good from there
	if diff := cmp.Diff(map[string]int{"key_wrong": burst + 2, "too_many_wrong_keys": 5, "key_missing": 1}, reasons); diff != "" {
		t.Errorf("refusals (-want +got):\n%s", diff)
	}
}

func TestNeighboursOfAnAttackerGoOn(t *testing.T) {
	r := setUp(t, peer)
	tenants, _ := r.key("acme", eventhook.ScopeRead)
	short, stored := r.key("acme", eventhook.ScopeRead)
	for _, key := range []string{tenants, short, adminKey} {
		r.from(attacker, key).want(http.StatusOK)
	}
	r.wrong(attacker)
	for range 2 * burst {
		r.from(attacker, "ehk_guess").want(http.StatusTooManyRequests)
		for _, key := range []string{tenants, short, adminKey} {
			r.from(attacker, key).want(http.StatusOK)
		}
	}
	r.must(r.db.DeleteKey(t.Context(), operator, r.acme, stored.ID))
	r.clock.advance(time.Second) // in which the budget grows by one
	r.from(attacker, short).want(http.StatusUnauthorized)
	r.from(attacker, short).want(http.StatusTooManyRequests) // no longer a good one
	r.from(attacker, tenants).want(http.StatusOK)
}

func TestWhatIsNoGuessCostsNothing(t *testing.T) {
	r := setUp(t, peer)
	good, _ := r.key("acme", eventhook.ScopeRead)
	for range 3 * burst {
		r.from(attacker, "").want(http.StatusUnauthorized)
		r.withAuthorization("Basic dTpw", "GET", T("acme")+"/events").want(http.StatusUnauthorized)
		r.call(good, "GET", T("umbrella")+"/events", nil).want(http.StatusNotFound)
		r.call(good, "GET", "/api/admin/tenants", nil).want(http.StatusForbidden)
	}
	r.from(attacker, good).want(http.StatusOK)
	r.call(adminKey, "GET", T("acme")+"/events", nil).want(http.StatusOK)
}

func TestAFailingDatabaseIsNoGuess(t *testing.T) {
	r := setUp(t, peer, func(d *api.Deps) { d.Keys = brokenKeys{} })
	for range 3 * burst {
		r.from(attacker, api.NewKey()).want(http.StatusInternalServerError)
	}
}

func TestAnIPv6ClientIsItsNetwork(t *testing.T) {
	r := setUp(t, peer)
	good, _ := r.key("acme", eventhook.ScopeRead)
	r.from("[2001:db8::5]:1", good).want(http.StatusOK)
	r.wrong("[2001:db8::1]:1")
	r.from("[2001:db8::ffff:0:0:1]:1", adminKey).want(http.StatusTooManyRequests)
	r.from("[2001:db8::6]:1", good).want(http.StatusOK)
	r.from("[2001:db8:0:1::1]:1", adminKey).want(http.StatusOK)
}
