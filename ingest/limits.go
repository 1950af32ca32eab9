package ingest

import (
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/eventhook/eventhook"
)

// limits limits the requests to a source.
type limits struct {
	source   eventhook.SourceID
	setting  eventhook.RateLimit
	full     eventhook.RateLimit // setting with defaults: of all instances together
	shared   shared
	verified requestRate // of verified requests
	// unverified is the rate of handshakes that any sender can send. It is as high as
	// verified, but separate: a flood of handshakes must not refuse the provider's events.
	unverified   requestRate
	memory       memoryShare  // of the source
	tenantMemory *memoryShare // of all sources of the tenant
}

// requestRate limits requests per second and per minute.
type requestRate struct{ perSecond, perMinute *rate.Limiter }

func newRequestRate(l eventhook.RateLimit) requestRate {
	return requestRate{
		perSecond: rate.NewLimiter(rate.Limit(l.RequestsPerSecond), l.BurstSize),
		perMinute: rate.NewLimiter(rate.Limit(float64(l.RequestsPerMinute)/60), l.RequestsPerMinute),
	}
}

// newLimits returns the limits of a source. Its share of the memory prevents slow senders
// to one source from using the memory of other sources.
func newLimits(s eventhook.Source, tenantMemory *memoryShare, inFlightBytes int64) *limits {
	l := s.RateLimit.WithDefaults()
	return &limits{
		source:       s.ID,
		setting:      s.RateLimit,
		full:         l,
		shared:       shared{part: 1},
		verified:     newRequestRate(l),
		unverified:   newRequestRate(l),
		memory:       memoryShare{max: inFlightBytes / sourceFraction},
		tenantMemory: tenantMemory,
	}
}

// wait returns the time until a request is allowed, or 0 if a request is allowed now. It
// counts no request.
func (q requestRate) wait(now time.Time) time.Duration {
	return max(waitFor(q.perSecond, now), waitFor(q.perMinute, now))
}

func waitFor(l *rate.Limiter, now time.Time) time.Duration {
	missing := 1 - l.TokensAt(now)
	if missing <= 0 {
		return 0
	}
	return time.Duration(missing / float64(l.Limit()) * float64(time.Second))
}

// take counts a request and returns 0, or returns how long to wait. now must be the current
// time: a rate.Limiter that gets an earlier time counts the time since then twice.
func (q requestRate) take(now time.Time) time.Duration {
	if q.perSecond.AllowN(now, 1) && q.perMinute.AllowN(now, 1) {
		return 0
	}
	return max(q.wait(now), 1)
}

// limitsCache keeps the limits of a source when the source is reloaded, so that a reload
// does not refill them. It is safe for concurrent use.
type limitsCache struct {
	shared        *sharedLimits
	inFlightBytes int64
	bySource      *lru.Cache[eventhook.SourceID, *limits]
	byTenant      *lru.Cache[eventhook.TenantID, *memoryShare]
}

func newLimitsCache(size int, inFlightBytes int64, shared *sharedLimits) limitsCache {
	return limitsCache{shared, inFlightBytes, newLRU[eventhook.SourceID, *limits](size), newLRU[eventhook.TenantID, *memoryShare](size)}
}

// newLRU returns a cache of a validated size.
func newLRU[K comparable, V any](size int) *lru.Cache[K, V] {
	cache, err := lru.New[K, V](size)
	if err != nil {
		panic(err) // the config has been validated
	}
	return cache
}

// cached returns the value of a key. If the key is not cached, it stores fresh and returns it.
func cached[K comparable, V any](cache *lru.Cache[K, V], key K, fresh V) V {
	if v, ok, _ := cache.PeekOrAdd(key, fresh); ok {
		cache.Get(key) // marks it as recently used
		return v
	}
	return fresh
}

// ofSource returns the cached limits of a source, or new limits if the source is not cached
// or its settings have changed.
func (c limitsCache) ofSource(s eventhook.Source, now time.Time) *limits {
	tenantMemory := cached(c.byTenant, s.TenantID, &memoryShare{max: c.inFlightBytes / tenantFraction})
	fresh := newLimits(s, tenantMemory, c.inFlightBytes)
	fresh.setPart(c.shared.equalPart(), now)
	l := cached(c.bySource, s.ID, fresh)
	if l.setting != fresh.setting {
		c.bySource.Add(s.ID, fresh)
		return fresh
	}
	return l
}
