package api_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/api"
	"github.com/eventhook/eventhook/internal/pg"
)

var _ api.KeyUseStore = (*pg.DB)(nil)

func TestKeyIsShownOnce(t *testing.T) {
	r := setUp(t)
	const keys = "/api/admin/tenants/acme/keys"
	made := r.admin("POST", keys, map[string]any{"name": "ci", "scopes": []string{"read", "work"}, "expires_at": "2026-03-11T00:00:00+02:00"}).
		want(http.StatusCreated).object()
	key, _ := made["key"].(string)
	if !strings.HasPrefix(key, api.KeyPrefix) || len(key) < 40 || !strings.HasPrefix(key, made["prefix"].(string)) || len(made["prefix"].(string)) > 12 {
		t.Errorf("got the key %q with the prefix %q", key, made["prefix"])
	}
	if made["expires_at"] != "2026-03-10T22:00:00Z" {
		t.Errorf("expires at %v, want it in UTC", made["expires_at"])
	}
	r.call(key, "GET", T("acme")+"/events", nil).want(http.StatusOK)
	listed := r.admin("GET", keys, nil).want(http.StatusOK)
	if strings.Contains(listed.Body.String(), key) {
		t.Error("a list shows the key")
	}
	delete(made, "key")
	var p page
	if listed.into(&p); len(p.Items) != 1 || !cmp.Equal(p.Items[0], made) {
		t.Errorf("listed %v, want %v", p.Items, made)
	}
	r.clock.Advance(12 * time.Hour)
	r.call(key, "GET", T("acme")+"/events", nil).want(http.StatusUnauthorized)
	id := made["id"].(string)
	r.admin("DELETE", keys+"/"+id, nil).want(http.StatusNoContent)
	r.admin("DELETE", keys+"/"+id, nil).want(http.StatusNotFound)
	r.admin("DELETE", keys+"/17", nil).want(http.StatusBadRequest)
}

func TestKeysAreRandom(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		key := api.NewKey()
		if seen[key] || !strings.HasPrefix(key, api.KeyPrefix) {
			t.Fatalf("NewKey returned %q, want a new key that starts with %s", key, api.KeyPrefix)
		}
		seen[key] = true
	}
}

func TestAllFaultsOfAKeyAreReportedAtOnce(t *testing.T) {
	r := setUp(t)
	for _, c := range []struct {
		claim, body string
		at          []string
	}{
		{"wrong types and broken rules", `{"expires_at":"soon","name":7,"scopes":["fly"],"scope":1}`, []string{"body.expires_at", "body.name", "body.scope", "body.scopes[0]"}},
		{"an invalid time", `{"expires_at":"soon","name":"ci","scopes":["read"]}`, []string{"body.expires_at"}},
		{"a text instead of a list", `{"name":"ci","scopes":"read"}`, []string{"body.scopes"}},
		{"null instead of a list", `{"name":"ci","scopes":null}`, []string{"body.scopes"}},
		{"the current time as expiry", `{"name":"ci","scopes":["read"],"expires_at":"2026-03-10T15:00:00Z"}`, []string{"body.expires_at"}},
		{"missing required members", `{}`, []string{"body.name", "body.scopes"}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := r.subtest(t)
			got := r.admin("POST", tenants+"/acme/keys", c.body).want(http.StatusUnprocessableEntity).problem()
			at := got.locations()
			slices.Sort(at)
			if diff := cmp.Diff(c.at, at); diff != "" {
				t.Errorf("%+v: locations (-want +got):\n%s", got, diff)
			}
		})
	}
	if keys := r.list(tenants + "/acme/keys").Items; len(keys) > 0 {
		t.Errorf("invalid requests created %v", keys)
	}
	r.admin("POST", tenants+"/acme/keys", `{"name":"ci","scopes":["read"],"expires_at":null}`).want(http.StatusCreated)
}

func TestKeyUseIsRecorded(t *testing.T) {
	uses := api.NewKeyUses()
	r := setUp(t, func(d *api.Deps) { d.KeyUses = uses })
	key, stored := r.key("acme", eventhook.ScopeRead)
	_, unused := r.key("acme", eventhook.ScopeRead)
	r.clock.Advance(time.Minute)
	r.call(key, "GET", T("acme")+"/events", nil).want(http.StatusOK)
	r.clock.Advance(time.Minute)
	r.call(key, "GET", tenants, nil).want(http.StatusForbidden) // counts as a use
	r.call(api.NewKey(), "GET", tenants, nil).want(http.StatusUnauthorized)
	r.admin("GET", T("acme")+"/events", nil).want(http.StatusOK)
	r.must(uses.Flush(t.Context(), r.db))
	got := map[string]any{}
	for _, k := range r.list(tenants + "/acme/keys").Items {
		got[k["id"].(string)] = k["last_used_at"]
	}
	if diff := cmp.Diff(map[string]any{stored.ID.String(): "2026-03-10T15:02:00Z", unused.ID.String(): nil}, got); diff != "" {
		t.Errorf("last used (-want +got):\n%s", diff)
	}
}

// useStore records the calls of RecordKeyUse, unless it fails.
type useStore struct {
	mu     sync.Mutex
	err    error
	writes []map[eventhook.KeyID]time.Time
}

func (s *useStore) RecordKeyUse(ctx context.Context, used map[eventhook.KeyID]time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := errors.Join(ctx.Err(), s.err); err != nil {
		return err
	}
	s.writes = append(s.writes, maps.Clone(used))
	return nil
}

func (s *useStore) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// TestKeyUsesAreFlushedPeriodicallyAndAtStop expects one write for many requests, no
// write without a request, and no lost use after a failed write or a stop.
func TestKeyUsesAreFlushedPeriodicallyAndAtStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		uses, store := api.NewKeyUses(), &useStore{}
		key, other := eventhook.NewID[eventhook.APIKey](noon), eventhook.NewID[eventhook.APIKey](noon)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- uses.Run(ctx, store, slog.New(slog.DiscardHandler)) }()
		wrote := func(claim string, want ...map[eventhook.KeyID]time.Time) {
			t.Helper()
			synctest.Wait()
			store.mu.Lock()
			defer store.mu.Unlock()
			if diff := cmp.Diff(want, store.writes); diff != "" {
				t.Errorf("%s: writes (-want +got):\n%s", claim, diff)
			}
			store.writes = nil
		}
		at := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
		for s := range 100 {
			api.RecordKeyUse(uses, key, at(s))
		}
		wrote("before the interval ends")
		time.Sleep(10 * time.Second)
		wrote("after it", map[eventhook.KeyID]time.Time{key: at(99)})
		time.Sleep(time.Minute)
		wrote("without a request")
		store.fail(errors.New("down"))
		api.RecordKeyUse(uses, key, at(200))
		api.RecordKeyUse(uses, other, at(200))
		time.Sleep(10 * time.Second)
		wrote("while the store fails")
		store.fail(nil)
		api.RecordKeyUse(uses, key, at(199)) // seen by a request that took longer
		api.RecordKeyUse(uses, other, at(201))
		time.Sleep(10 * time.Second)
		wrote("when the store has recovered", map[eventhook.KeyID]time.Time{key: at(200), other: at(201)})
		api.RecordKeyUse(uses, key, at(300))
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		wrote("at the stop", map[eventhook.KeyID]time.Time{key: at(300)})
	})
}

func TestKeyUsesAreBounded(t *testing.T) {
	uses, store := api.NewKeyUses(), &useStore{}
	for n := range 100_100 {
		api.RecordKeyUse(uses, eventhook.NewID[eventhook.APIKey](noon.Add(time.Duration(n))), noon)
	}
	if err := uses.Flush(t.Context(), store); err != nil || len(store.writes[0]) != 100_000 {
		t.Errorf("wrote %d uses (%v), want at most 100000", len(store.writes[0]), err)
	}
}
