// Package snapshot keeps configuration in memory for the hot paths: bounded,
// loaded when first asked for, and forgotten when it changes, so that the
// steady state reads no database.
package snapshot

import (
	"context"
	"errors"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/eventhook/eventhook"
)

// Cache holds up to size values and, apart from them, as many notes that a key
// has none, so that a scan of made-up keys cannot push out what is in use.
// Safe for concurrent use; callers that miss the same key share one load.
type Cache[K comparable, V any] struct {
	load   func(context.Context, K) (V, error)
	maxAge time.Duration
	now    func() time.Time
	weigh  func(V) int // nil: by number alone
	most   int         // of all weights

	mu      sync.Mutex
	weight  int // of what was found
	found   *lru.Cache[K, entry[V]]
	absent  *lru.Cache[K, entry[V]]
	loading map[K]*call[V]
}

type entry[V any] struct {
	value    V
	err      error
	loadedAt time.Time
	weight   int
}

type call[V any] struct {
	done  chan struct{}
	value V
	err   error
	isOld bool // the key was forgotten since the load began; the cache's lock guards it
}

// retryAfter is how long an old value is believed when it could not be loaded
// again, before that is tried once more.
const retryAfter = time.Second

// loadTimeout bounds a load, which outlives the caller that began it.
const loadTimeout = 5 * time.Second

// New makes a cache over load. An error of KindNotFound is kept like a value;
// any other is not. A value older than maxAge is loaded again, in case its
// change was never told, and kept if that fails.
func New[K comparable, V any](size int, maxAge time.Duration, now func() time.Time, load func(context.Context, K) (V, error)) *Cache[K, V] {
	c := &Cache[K, V]{load: load, maxAge: maxAge, now: now, loading: map[K]*call[V]{}}
	var err error
	c.found, err = lru.NewWithEvict(size, func(_ K, e entry[V]) { c.weight -= e.weight })
	if err != nil {
		panic(err) // the size is a positive number of ours
	}
	c.absent, _ = lru.New[K, entry[V]](size)
	return c
}

// NewWeighed makes a cache whose values weigh up to size together, but for one
// that alone weighs more. Each weighs at least 1.
func NewWeighed[K comparable, V any](size int, weigh func(V) int, maxAge time.Duration, now func() time.Time, load func(context.Context, K) (V, error)) *Cache[K, V] {
	c := New(size, maxAge, now, load)
	c.weigh, c.most = weigh, size
	return c
}

// Get returns the value of a key, from memory if it is there.
func (c *Cache[K, V]) Get(ctx context.Context, key K) (V, error) {
	if e, ok := c.fresh(key); ok {
		return e.value, e.err
	}
	call := c.begin(ctx, key)
	select {
	case <-call.done:
		return call.value, call.err
	case <-ctx.Done():
		var zero V
		return zero, ctx.Err()
	}
}

// ErrNotInMemory is the error of Peek for a key that must be loaded.
var ErrNotInMemory = errors.New("not in memory")

// Peek returns what Get would return if it had nothing to load, else ErrNotInMemory.
func (c *Cache[K, V]) Peek(key K) (V, error) {
	e, ok := c.fresh(key)
	if !ok {
		return e.value, ErrNotInMemory
	}
	return e.value, e.err
}

// Knows reports whether a key is known to have a value, however old, or was
// just found to have none. It loads nothing.
func (c *Cache[K, V]) IsKnown(key K) bool {
	if c.found.Contains(key) {
		return true
	}
	_, ok := c.fresh(key)
	return ok
}

// fresh is what is kept about a key, if it is young enough.
func (c *Cache[K, V]) fresh(key K) (entry[V], bool) {
	for _, cache := range []*lru.Cache[K, entry[V]]{c.found, c.absent} {
		if e, ok := cache.Get(key); ok && c.now().Sub(e.loadedAt) < c.maxAge {
			return e, true
		}
	}
	return entry[V]{}, false
}

// begin joins the load of a key, or starts one, unless one has ended since
// the caller looked.
func (c *Cache[K, V]) begin(ctx context.Context, key K) *call[V] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if running, ok := c.loading[key]; ok {
		return running
	}
	if e, ok := c.fresh(key); ok {
		ended := &call[V]{done: make(chan struct{}), value: e.value, err: e.err}
		close(ended.done)
		return ended
	}
	started := &call[V]{done: make(chan struct{})}
	c.loading[key] = started
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadTimeout)
		defer cancel()
		started.value, started.err = c.load(ctx, key)
		c.finish(key, started)
		close(started.done)
	}()
	return started
}

func (c *Cache[K, V]) finish(key K, done *call[V]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loading[key] == done {
		delete(c.loading, key)
	}
	old, known := c.found.Peek(key)
	absent := eventhook.KindOf(done.err) == eventhook.KindNotFound
	switch {
	case done.err != nil && !absent && known:
		done.value, done.err = old.value, nil
		old.loadedAt = c.now().Add(min(retryAfter, c.maxAge) - c.maxAge)
		c.keep(key, old)
	case done.isOld:
		// What was read may be older than the change that was told meanwhile.
	case absent:
		c.found.Remove(key)
		c.absent.Add(key, entry[V]{err: done.err, loadedAt: c.now()})
	case done.err == nil:
		c.absent.Remove(key)
		c.keep(key, entry[V]{value: done.value, loadedAt: c.now()})
	}
}

// keep adds a value that was found, and drops those that nobody has asked for
// the longest until all together weigh little enough.
func (c *Cache[K, V]) keep(key K, e entry[V]) {
	if c.weigh != nil {
		c.found.Remove(key) // with its weight
		e.weight = max(1, c.weigh(e.value))
	}
	c.found.Add(key, e)
	c.weight += e.weight
	for c.weigh != nil && c.weight > c.most && c.found.Len() > 1 {
		c.found.RemoveOldest()
	}
}

// InvalidateFunc drops the keys that match, and keeps no load of them that is under way.
func (c *Cache[K, V]) InvalidateFunc(match func(K) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.loading {
		if match(key) {
			c.forgetLoad(key)
		}
	}
	for _, cache := range []*lru.Cache[K, entry[V]]{c.found, c.absent} {
		for _, key := range cache.Keys() {
			if match(key) {
				cache.Remove(key)
			}
		}
	}
}

// Invalidate drops one key, and keeps no load of it that is under way.
func (c *Cache[K, V]) Invalidate(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgetLoad(key)
	c.found.Remove(key)
	c.absent.Remove(key)
}

// forgetLoad makes callers from now on load the key anew.
func (c *Cache[K, V]) forgetLoad(key K) {
	if running := c.loading[key]; running != nil {
		running.isOld = true
		delete(c.loading, key)
	}
}

// Clear drops everything.
func (c *Cache[K, V]) Clear() { c.InvalidateFunc(func(K) bool { return true }) }
