// Package snapshot caches configuration in memory for the hot paths. A value is loaded at
// the first Get and stays cached until it is invalidated, evicted or too old, so that the
// steady state reads no database. If the database fails, a cached value outlives its
// maximum age; an invalidated one does not.
package snapshot

import (
	"context"
	"errors"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/panics"
)

// Cache is an LRU cache of values by key. It also caches that a key was not found, in a
// second LRU of the same size, so that a scan of made-up keys cannot evict values in use.
// Callers that miss the same key share one load. Cache is safe for concurrent use.
type Cache[K comparable, V any] struct {
	load      func(context.Context, K) (V, error)
	maxAge    time.Duration
	ageOf     func(V) time.Duration // nil if all results have maxAge
	now       func() time.Time
	weigh     func(V) int // nil if only the number of values is limited
	maxWeight int         // of all values together

	mu     sync.Mutex
	weight int                     // of the values in found
	found  *lru.Cache[K, entry[V]] // values
	absent *lru.Cache[K, entry[V]] // keys that were not found
	loads  map[K]*loading[V]       // that run and were not invalidated
}

// entry is a value, or the KindNotFound error of a key without one.
type entry[V any] struct {
	value    V
	err      error
	loadedAt time.Time
	maxAge   time.Duration
	weight   int
}

// loading is a call of the load function. value and err are set before done is closed.
type loading[V any] struct {
	done        chan struct{}
	value       V
	err         error
	invalidated bool // the key was invalidated after the load began; guarded by Cache.mu
}

// retryAfter is how long a value beyond its maximum age is used after a failed load,
// before it is loaded again.
const retryAfter = time.Second

// loadTimeout limits a load. A load does not end with the caller that began it.
const loadTimeout = 5 * time.Second

// New returns a cache of up to size values that come from load; it panics if size is below 1.
// An error of KindNotFound is cached like a value; other errors are not. A value older than
// maxAge is loaded again, in case the notification of its change was lost, and stays in use if
// that load fails.
func New[K comparable, V any](size int, maxAge time.Duration, now func() time.Time, load func(context.Context, K) (V, error)) *Cache[K, V] {
	c := &Cache[K, V]{load: load, maxAge: maxAge, now: now, loads: map[K]*loading[V]{}}
	var err error
	c.found, err = lru.NewWithEvict(size, func(_ K, e entry[V]) { c.weight -= e.weight })
	if err != nil {
		panic(err) // callers pass a validated, positive size
	}
	c.absent, _ = lru.New[K, entry[V]](size)
	return c
}

// NewWeighed returns a cache like New whose values have a total weight of up to size. A
// weight below 1 counts as 1. A single value that weighs more than size is cached alone.
func NewWeighed[K comparable, V any](size int, weigh func(V) int, maxAge time.Duration, now func() time.Time, load func(context.Context, K) (V, error)) *Cache[K, V] {
	c := New(size, maxAge, now, load)
	c.weigh, c.maxWeight = weigh, size
	return c
}

// LimitAge makes the maximum age of a result that of ageOf, or that of New if it is lower. ageOf gets
// the value that the load returned, also with an error of KindNotFound. Call LimitAge before the first
// Get.
func (c *Cache[K, V]) LimitAge(ageOf func(V) time.Duration) { c.ageOf = ageOf }

// Get returns the value of a key from the cache, or loads it. If the load fails, Get returns
// the cached value, however old, or else the error of the load. It returns the error of ctx if
// ctx ends first.
func (c *Cache[K, V]) Get(ctx context.Context, key K) (V, error) {
	if e, ok := c.fresh(key); ok {
		return e.value, e.err
	}
	load := c.startLoad(ctx, key)
	select {
	case <-load.done:
		return load.value, load.err
	case <-ctx.Done():
		var zero V
		return zero, ctx.Err()
	}
}

// ErrNotInMemory is the error of Peek for a key that is not cached.
var ErrNotInMemory = errors.New("not in memory")

// Peek returns the cached result for a key, or ErrNotInMemory if Get would have to load it.
func (c *Cache[K, V]) Peek(key K) (V, error) {
	e, ok := c.fresh(key)
	if !ok {
		return e.value, ErrNotInMemory
	}
	return e.value, e.err
}

// IsKnown reports whether the cache has a value for the key, of any age, or knows that the
// key was not found within the maximum age. It loads nothing.
func (c *Cache[K, V]) IsKnown(key K) bool {
	if c.found.Contains(key) {
		return true
	}
	_, ok := c.fresh(key)
	return ok
}

// fresh returns the entry of a key if it is younger than its maximum age.
func (c *Cache[K, V]) fresh(key K) (entry[V], bool) {
	for _, cache := range []*lru.Cache[K, entry[V]]{c.found, c.absent} {
		if e, ok := cache.Get(key); ok && c.now().Sub(e.loadedAt) < e.maxAge {
			return e, true
		}
	}
	return entry[V]{}, false
}

// startLoad returns the running load of a key or starts one. If a load ended after the
// caller found no entry, startLoad returns its result.
func (c *Cache[K, V]) startLoad(ctx context.Context, key K) *loading[V] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if running, ok := c.loads[key]; ok {
		return running
	}
	if e, ok := c.fresh(key); ok {
		ended := &loading[V]{done: make(chan struct{}), value: e.value, err: e.err}
		close(ended.done)
		return ended
	}
	started := &loading[V]{done: make(chan struct{})}
	c.loads[key] = started
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadTimeout)
		defer cancel()
		started.value, started.err = c.loadSafely(ctx, key)
		c.finish(key, started)
		close(started.done)
	}()
	return started
}

// loadSafely calls load. A panic, such as one of a tenant's configuration, is an error of this key
// alone.
func (c *Cache[K, V]) loadSafely(ctx context.Context, key K) (value V, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = panics.Recovered(panics.Load, reason)
		}
	}()
	return c.load(ctx, key)
}

// finish stores the result of a load, unless the key was invalidated meanwhile. If the load
// failed and an old value is cached, the callers get that value.
func (c *Cache[K, V]) finish(key K, done *loading[V]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loads[key] == done {
		delete(c.loads, key)
	}
	old, known := c.found.Peek(key)
	absent := eventhook.KindOf(done.err) == eventhook.KindNotFound
	switch {
	case done.err != nil && !absent && known:
		done.value, done.err = old.value, nil
		old.loadedAt, old.maxAge = c.now(), min(retryAfter, c.maxAge)
		c.store(key, old)
	case done.invalidated:
		// The load may have read the state before the change, so it is not stored.
	case absent:
		c.found.Remove(key)
		c.absent.Add(key, entry[V]{err: done.err, loadedAt: c.now(), maxAge: c.maxAgeOf(done.value)})
	case done.err == nil:
		c.absent.Remove(key)
		c.store(key, entry[V]{value: done.value, loadedAt: c.now(), maxAge: c.maxAgeOf(done.value)})
	}
}

func (c *Cache[K, V]) maxAgeOf(v V) time.Duration {
	if c.ageOf == nil {
		return c.maxAge
	}
	return min(c.ageOf(v), c.maxAge)
}

// store caches a value. If values have weights, it evicts the least recently used ones until
// their total weight fits.
func (c *Cache[K, V]) store(key K, e entry[V]) {
	if c.weigh != nil {
		c.found.Remove(key) // subtracts the weight of the old value
		e.weight = max(1, c.weigh(e.value))
	}
	c.found.Add(key, e)
	c.weight += e.weight
	for c.weigh != nil && c.weight > c.maxWeight && c.found.Len() > 1 {
		c.found.RemoveOldest()
	}
}

// InvalidateFunc drops the keys that match, as Invalidate does.
func (c *Cache[K, V]) InvalidateFunc(match func(K) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.loads {
		if match(key) {
			c.invalidateLoad(key)
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

// Invalidate drops a key. A Get that begins afterwards loads it again. A load that is running
// answers the callers that wait for it, but its result is not stored.
func (c *Cache[K, V]) Invalidate(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.invalidateLoad(key)
	c.found.Remove(key)
	c.absent.Remove(key)
}

// invalidateLoad detaches a running load, so that later callers start a new one.
func (c *Cache[K, V]) invalidateLoad(key K) {
	if running := c.loads[key]; running != nil {
		running.invalidated = true
		delete(c.loads, key)
	}
}

// Clear drops all keys, as Invalidate does.
func (c *Cache[K, V]) Clear() { c.InvalidateFunc(func(K) bool { return true }) }
