package keyset_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/keyset"
	"github.com/eventhook/eventhook/verify"
)

func newTenant() eventhook.TenantID { return eventhook.NewID[eventhook.Tenant](time.Now()) }
func newSource() eventhook.SourceID { return eventhook.NewID[eventhook.Source](time.Now()) }

// flood requests documents in the background until the web's gate opens.
func flood(t *testing.T, all *sync.WaitGroup, k verify.Keys, n int, url func(int) string) {
	for i := range n {
		all.Go(func() { _, _ = k.Keys(t.Context(), url(i), "") })
	}
	synctest.Wait()
}

func (w *web) wantRunning(t *testing.T, want int) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running != want {
		t.Errorf("%d fetches run, want %d", w.running, want)
	}
}

// The attack: forged requests with URLs of invented certificates.
func TestInventedDocumentsOfTenantDelayNoOtherTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWeb()
		w.gate, w.bodies[url] = make(chan struct{}), jwks("a")
		c, forged := w.cache(1000), newTenant()
		var all sync.WaitGroup
		for s := range 50 {
			flood(t, &all, c.ForSource(forged, newSource()), 50, func(i int) string { return fmt.Sprintf("https://host-%d.example/%d", i, s) })
		}
		w.wantRunning(t, 4) // the tenant's limit
		all.Go(func() {
			if keys, err := c.ForSource(newTenant(), newSource()).Keys(t.Context(), url, "a"); err != nil || len(keys) != 1 {
				t.Errorf("the other tenant: got %v, %v; want its key", keys, err)
			}
		})
		synctest.Wait()
		w.wantRunning(t, 5)
		wantFetches(t, w, url, 1)
		close(w.gate)
		all.Wait()
	})
}

func TestFetchesPerSourceAndHostAreBounded(t *testing.T) {
	for _, c := range []struct {
		claim string
		fill  func(t *testing.T, all *sync.WaitGroup, c *keyset.Cache)
		want  int
	}{
		{"one source", func(t *testing.T, all *sync.WaitGroup, c *keyset.Cache) {
			flood(t, all, c.ForSource(newTenant(), newSource()), 10, server)
		}, 2},
		{"one tenant", func(t *testing.T, all *sync.WaitGroup, c *keyset.Cache) {
			tenant := newTenant()
			for s := range 5 {
				flood(t, all, c.ForSource(tenant, newSource()), 10, func(i int) string { return server(10*s + i) })
			}
		}, 4},
		{"one host", func(t *testing.T, all *sync.WaitGroup, c *keyset.Cache) {
			for s := range 10 {
				flood(t, all, c.ForSource(newTenant(), newSource()), 2, func(i int) string { return page(10*s + i) })
			}
		}, 8},
		{"all", func(t *testing.T, all *sync.WaitGroup, c *keyset.Cache) {
			for s := range 20 {
				flood(t, all, c.ForSource(newTenant(), newSource()), 2, func(i int) string { return server(10*s + i) })
			}
		}, 32},
	} {
		t.Run(c.claim, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWeb()
				w.gate = make(chan struct{})
				var all sync.WaitGroup
				c.fill(t, &all, w.cache(1000))
				w.wantRunning(t, c.want)
				close(w.gate)
				all.Wait()
				if w.maxRunning != c.want {
					t.Errorf("%d fetches ran at a time, want at most %d", w.maxRunning, c.want)
				}
			})
		})
	}
}

// A fetch that waits for the capacity of one tenant runs with the capacity of another
// tenant that needs the same document.
func TestSharedFetchDoesNotWaitForBusyTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWeb()
		w.gate, w.bodies[url] = make(chan struct{}), jwks("a")
		c := w.cache(1000)
		busy := c.ForSource(newTenant(), newSource())
		var all sync.WaitGroup
		flood(t, &all, busy, 8, server)
		flood(t, &all, busy, 1, func(int) string { return url })
		wantFetches(t, w, url, 0)
		flood(t, &all, c.ForSource(newTenant(), newSource()), 1, func(int) string { return url })
		wantFetches(t, w, url, 1)
		close(w.gate)
		all.Wait()
		wantFetches(t, w, url, 1)
	})
}

// When a fetch ends, the next belongs to the tenant whose last fetch started the
// longest time ago.
func TestRoundRobinBetweenTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWeb()
		w.gate = make(chan struct{})
		c := w.cache(1000)
		var all sync.WaitGroup
		many := newTenant()
		for s := range 2 { // 4 of the 8 fetches that the host allows run, and 16 wait
			flood(t, &all, c.ForSource(many, newSource()), 10, func(i int) string { return page(10*s + i) })
		}
		for s := range 4 {
			flood(t, &all, c.ForSource(newTenant(), newSource()), 1, func(int) string { return page(100 + s) })
		}
		w.wantRunning(t, 8)
		flood(t, &all, c.ForSource(newTenant(), newSource()), 1, func(int) string { return page(200) })
		wantFetches(t, w, page(200), 0)
		w.gate <- struct{}{}
		synctest.Wait()
		wantFetches(t, w, page(200), 1)
		close(w.gate)
		all.Wait()
	})
}

func TestSourceWithTooManyFetchesIsRefusedImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWeb()
		w.gate = make(chan struct{})
		c, tenant, source := w.cache(1000), newTenant(), newSource()
		var all sync.WaitGroup
		flood(t, &all, c.ForSource(tenant, source), 16, server)
		began := time.Now()
		_, err := c.ForSource(tenant, source).Keys(t.Context(), url, "")
		if e, ok := errors.AsType[*eventhook.Error](err); !ok || e.Kind != eventhook.KindUnavailable || time.Since(began) != 0 {
			t.Errorf("got %v after %s, want unavailable immediately", err, time.Since(began))
		}
		close(w.gate)
		all.Wait()
	})
}

// A tenant with too many documents evicts its own documents.
func TestTenantEvictsItsOwnDocuments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWeb()
		w.bodies[url] = jwks("a")
		c, many := w.cache(16), newTenant()
		_, _ = c.ForSource(newTenant(), newSource()).Keys(t.Context(), url, "a")
		for i := range 100 {
			w.bodies[server(i)] = jwks("a")
			_, _ = c.ForSource(many, newSource()).Keys(t.Context(), server(i), "a")
		}
		wantKeys(t, c, url, "a", "a")
		wantFetches(t, w, url, 1)
		wantKeys(t, c, server(98), "a", "a") // two are the tenant's share
		wantKeys(t, c, server(99), "a", "a")
		wantFetches(t, w, server(98), 1)
	})
}

func TestCachedKeysOnlyCausesNoFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWeb()
		w.bodies[url] = jwks("a")
		c := w.cache(10)
		ctx := verify.WithCachedKeysOnly(t.Context())
		if _, err := c.Keys(ctx, url, "a"); eventhook.KindOf(err) != eventhook.KindUnavailable {
			t.Errorf("got %v, want unavailable", err)
		}
		wantFetches(t, w, url, 0)
		wantKeys(t, c, url, "a", "a")
		if keys, err := c.Keys(ctx, url, "a"); err != nil || len(keys) != 1 {
			t.Errorf("got %v, %v; want the cached key", keys, err)
		}
		time.Sleep(time.Minute)
		if _, err := c.Keys(ctx, url, "new"); eventhook.KindOf(err) != eventhook.KindUnavailable {
			t.Errorf("an unknown key: got %v, want unavailable", err)
		}
	})
}

// If no fetch is possible, an unknown key is unavailable, because it can be a new key.
func TestUnknownKeyIsUnavailableWithoutCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWeb()
		w.bodies[url] = jwks("a")
		c, tenant, source := w.cache(100), newTenant(), newSource()
		wantKeys(t, c, url, "a", "a")
		time.Sleep(time.Minute)
		w.gate = make(chan struct{})
		var all sync.WaitGroup
		flood(t, &all, c.ForSource(tenant, source), 16, server)
		if _, err := c.ForSource(tenant, source).Keys(t.Context(), url, "new"); eventhook.KindOf(err) != eventhook.KindUnavailable {
			t.Errorf("got %v, want unavailable", err)
		}
		if keys, err := c.ForSource(tenant, source).Keys(t.Context(), url, "a"); err != nil || len(keys) != 1 {
			t.Errorf("got %v, %v; want the known key", keys, err)
		}
		close(w.gate)
		all.Wait()
	})
}

func TestNotFoundIsCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fetches := 0
		c := keyset.New(10, time.Now, func(context.Context, string) ([]byte, time.Duration, error) {
			fetches++
			return nil, 0, eventhook.NotFound("document")
		})
		for range 10 {
			if _, err := c.Keys(t.Context(), url, ""); eventhook.KindOf(err) != eventhook.KindNotFound {
				t.Errorf("got %v, want not found", err)
			}
		}
		if fetches != 1 {
			t.Errorf("%d fetches, want 1", fetches)
		}
	})
}
