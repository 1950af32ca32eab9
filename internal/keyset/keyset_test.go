package keyset_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/keyset"
	"github.com/eventhook/eventhook/verify"
)

var _ verify.Keys = (*keyset.Cache)(nil)

const url = "https://keys.example/jwks?token=hunter2"

var errDown = errors.New("status 503")

// web is a fake of the web: documents by URL, and the number of fetches of each.
// Tests modify it only while no fetch runs, or while all fetches wait at the gate.
type web struct {
	mu         sync.Mutex
	bodies     map[string]string
	age        time.Duration
	down       error
	fetches    map[string]int
	running    int
	maxRunning int           // concurrent fetches
	gate       chan struct{} // nil: open
}

func newWeb() *web { return &web{bodies: map[string]string{}, fetches: map[string]int{}} }

// jwks returns a JWK Set with a key for each id.
func jwks(ids ...string) string {
	var all []string
	for i, id := range ids {
		x := base64.RawURLEncoding.EncodeToString([]byte(fmt.Sprintf("%-32d", i)))
		all = append(all, fmt.Sprintf(`{"kty":"OKP","crv":"Ed25519","kid":%q,"x":%q}`, id, x))
	}
	return `{"keys":[` + strings.Join(all, ",") + `]}`
}

// fetch reads the document before it waits at the gate, like a slow response.
func (w *web) fetch(ctx context.Context, url string) ([]byte, time.Duration, error) {
	w.mu.Lock()
	w.fetches[url]++
	w.running++
	w.maxRunning = max(w.maxRunning, w.running)
	body, found := w.bodies[url]
	down, age, gate := w.down, w.age, w.gate
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		w.running--
		w.mu.Unlock()
	}()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
	switch {
	case down != nil:
		return nil, 0, down
	case !found:
		return nil, 0, errors.New("status 404")
	}
	return []byte(body), age, nil
}

func (w *web) cache(size int) *keyset.Cache { return keyset.New(size, time.Now, w.fetch) }

// wantKeys requests the key id and checks the ids of all returned keys, such as "a b".
func wantKeys(t *testing.T, c *keyset.Cache, url, id, want string) {
	t.Helper()
	keys, err := c.Keys(t.Context(), url, id)
	var got []string
	for _, k := range keys {
		got = append(got, k.ID)
	}
	if err != nil || !slices.Equal(got, strings.Fields(want)) {
		t.Errorf("Keys(%q, %q): got %v, %v; want %s", url, id, got, err, want)
	}
}

func wantError(t *testing.T, c *keyset.Cache, url, id string, want error) {
	t.Helper()
	keys, err := c.Keys(t.Context(), url, id)
	if !errors.Is(err, want) || eventhook.KindOf(err) != eventhook.KindUnavailable || keys != nil {
		t.Errorf("Keys(%q): got %v, %v; want %v", url, keys, err, want)
	}
}

func wantFetches(t *testing.T, w *web, url string, want int) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := w.fetches[url]; got != want {
		t.Errorf("fetches of %q: got %d, want %d", url, got, want)
	}
}

func TestDocumentIsCachedForItsAge(t *testing.T) {
	for _, c := range []struct {
		claim     string
		age, want time.Duration
	}{
		{"no lifetime", 0, time.Hour},
		{"too short", time.Second, 5 * time.Minute},
		{"within the limits", 2 * time.Hour, 2 * time.Hour},
		{"too long", 1000 * time.Hour, 24 * time.Hour},
	} {
		t.Run(c.claim, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWeb()
				w.bodies[url], w.age = jwks("a"), c.age
				cache := w.cache(10)
				wantKeys(t, cache, url, "a", "a")
				w.bodies[url] = jwks("b")
				time.Sleep(c.want - time.Nanosecond)
				wantKeys(t, cache, url, "a", "a")
				wantKeys(t, cache, url, "", "a")
				wantFetches(t, w, url, 1)
				time.Sleep(time.Nanosecond)
				wantKeys(t, cache, url, "", "b")
				wantKeys(t, cache, url, "b", "b")
				wantFetches(t, w, url, 2)
			})
		})
	}
}

func TestExpiredKeysAreUsedIfFetchFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWeb()
		w.bodies[url] = jwks("a")
		c := w.cache(10)
		wantKeys(t, c, url, "a", "a")
		w.down = errDown
		time.Sleep(time.Hour)
		wantKeys(t, c, url, "a", "a")
		wantFetches(t, w, url, 2)
		time.Sleep(30*time.Second - time.Nanosecond)
		wantKeys(t, c, url, "a", "a")
		wantError(t, c, url, "unknown", errDown) // it can be a new key
		wantFetches(t, w, url, 2)                // not fetched again yet
		time.Sleep(time.Nanosecond)
		wantKeys(t, c, url, "a", "a")
		wantFetches(t, w, url, 3)
		w.down, w.bodies[url] = nil, jwks("b")
		time.Sleep(30 * time.Second)
		wantKeys(t, c, url, "a", "b")
		wantFetches(t, w, url, 4)
	})
}

func TestKeysOlderThanADayAreNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWeb()
		w.bodies[url] = jwks("a")
		c := w.cache(10)
		wantKeys(t, c, url, "a", "a")
		w.down = errDown
		time.Sleep(24*time.Hour - time.Nanosecond)
		wantKeys(t, c, url, "a", "a")
		time.Sleep(time.Nanosecond)
		wantError(t, c, url, "", errDown)
		wantFetches(t, w, url, 2)
		w.down = nil
		time.Sleep(30 * time.Second)
		wantKeys(t, c, url, "a", "a")
	})
}

func TestFailureIsCached(t *testing.T) {
	for _, c := range []struct {
		claim  string
		change func(*web)
	}{
		{"the server is down", func(w *web) { w.down = errDown }},
		{"the document contains no keys", func(w *web) { w.bodies[url] = "<html>hunter2</html>" }},
	} {
		t.Run(c.claim, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWeb()
				c.change(w)
				cache := w.cache(10)
				for range 100 {
					_, err := cache.Keys(t.Context(), url, "a")
					e, ok := errors.AsType[*eventhook.Error](err)
					if !ok || e.Kind != eventhook.KindUnavailable || e.Message != "the keys of keys.example could not be fetched" || e.RetryAfter != 30*time.Second {
						t.Fatalf("got %v, want that the keys of keys.example could not be fetched", err)
					}
					if strings.Contains(err.Error(), "hunter2") {
						t.Fatalf("the error contains the URL or the document: %v", err)
					}
				}
				wantFetches(t, w, url, 1)
				w.down, w.bodies[url] = nil, jwks("a")
				time.Sleep(30*time.Second - time.Nanosecond)
				if _, err := cache.Keys(t.Context(), url, "a"); err == nil {
					t.Error("before 30s: got keys, want the error")
				}
				time.Sleep(time.Nanosecond)
				wantKeys(t, cache, url, "a", "a")
				wantFetches(t, w, url, 2)
			})
		})
	}
}

func TestUnknownKeyIsFetchedOncePerMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWeb()
		w.bodies[url] = jwks("a")
		c := w.cache(10)
		wantKeys(t, c, url, "b", "a") // just fetched
		time.Sleep(time.Minute - time.Nanosecond)
		w.bodies[url] = jwks("a", "b")
		wantKeys(t, c, url, "b", "a")
		wantFetches(t, w, url, 1)
		time.Sleep(time.Nanosecond)
		wantKeys(t, c, url, "a", "a") // a known key
		wantKeys(t, c, url, "", "a")
		wantFetches(t, w, url, 1)
		wantKeys(t, c, url, "b", "a b")
		for range 59 {
			wantKeys(t, c, url, "forged", "a b")
			time.Sleep(time.Second)
		}
		wantFetches(t, w, url, 2)
		time.Sleep(time.Second)
		w.down = errDown
		wantError(t, c, url, "forged", errDown)
		wantFetches(t, w, url, 3)
		time.Sleep(30*time.Second - time.Nanosecond)
		wantError(t, c, url, "forged", errDown)
		wantFetches(t, w, url, 3)
	})
}

func TestInvalidURLIsNotFetched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWeb()
		c := w.cache(10)
		for _, u := range []string{"", "keys", "https://", "https://[::1", "https:keys.example", "https://keys.example/" + strings.Repeat("a", 2048)} {
			if _, err := c.Keys(t.Context(), u, ""); eventhook.KindOf(err) != eventhook.KindInvalid {
				t.Errorf("%.40q: got %v, want a %s error", u, err, eventhook.KindInvalid)
			}
		}
		if len(w.fetches) > 0 {
			t.Errorf("fetched %v, want nothing", w.fetches)
		}
	})
}

func TestDocumentsAndFailuresHaveSeparateLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWeb()
		c := w.cache(3)
		good := func(i int) string { return fmt.Sprintf("https://good.example/%d", i) }
		bad := func(i int) string { return fmt.Sprintf("https://bad.example/%d", i) }
		for i := range 4 {
			w.bodies[good(i)] = jwks("a")
		}
		for i := range 3 {
			wantKeys(t, c, good(i), "a", "a")
		}
		for i := range 100 {
			_, _ = c.Keys(t.Context(), bad(i), "")
		}
		for i := range 3 {
			wantKeys(t, c, good(i), "a", "a")
			wantFetches(t, w, good(i), 1)
		}
		_, _ = c.Keys(t.Context(), bad(99), "")
		wantFetches(t, w, bad(99), 1)
		_, _ = c.Keys(t.Context(), bad(0), "")
		wantFetches(t, w, bad(0), 2)
		wantKeys(t, c, good(0), "a", "a")
		wantKeys(t, c, good(3), "a", "a") // evicts the least recently used
		wantKeys(t, c, good(0), "a", "a")
		wantFetches(t, w, good(0), 1)
		wantKeys(t, c, good(1), "a", "a")
		wantFetches(t, w, good(1), 2)
	})
}
