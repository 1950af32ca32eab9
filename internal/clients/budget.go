package clients

import (
	"net/netip"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
)

// Client returns the address by which a client is limited: an IPv4 address itself, or the /64
// network of an IPv6 address, which is the smallest network that a provider assigns to a
// customer.
func Client(a netip.Addr) netip.Addr {
	const networkBits = 64
	if a.Is6() {
		if p, err := a.Prefix(networkBits); err == nil {
			return p.Addr()
		}
	}
	return a
}

// Budget limits the failures of each client with a token bucket: a burst, and then a number of
// failures per second. All requests without an address share one bucket. Budget caches the
// 10,000 most recently used buckets; an evicted client starts with a full bucket. Budget is
// safe for concurrent use.
//
// now must be the current time in all methods: a rate.Limiter that gets an earlier time counts
// the time since then twice.
type Budget struct {
	limiters *lru.Cache[netip.Addr, *rate.Limiter]
	rate     rate.Limit
	burst    int
}

// NewBudget returns a Budget that refills at perSecond tokens, up to burst tokens. Both
// numbers must be positive.
func NewBudget(perSecond float64, burst int) *Budget {
	const maxClients = 10_000
	cache, err := lru.New[netip.Addr, *rate.Limiter](maxClients)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return &Budget{limiters: cache, rate: rate.Limit(perSecond), burst: burst}
}

// Take counts one failure of a client and reports whether the bucket had a token for it. If
// not, nothing is counted.
func (b *Budget) Take(address netip.Addr, now time.Time) bool { return b.TakeN(address, 1, now) }

// TakeN takes n tokens, or the whole burst if n is larger, and reports whether the bucket had
// them. If not, it takes none.
func (b *Budget) TakeN(address netip.Addr, n int, now time.Time) bool {
	client := Client(address)
	limiter, ok := b.limiters.Get(client)
	if !ok {
		limiter = rate.NewLimiter(b.rate, b.burst)
		if earlier, had, _ := b.limiters.PeekOrAdd(client, limiter); had {
			limiter = earlier
		}
	}
	return limiter.AllowN(now, min(n, b.burst))
}

// Return undoes a successful Take for a request that was not a failure.
func (b *Budget) Return(address netip.Addr, now time.Time) { b.ReturnN(address, 1, now) }

// ReturnN undoes a successful TakeN with the same n.
func (b *Budget) ReturnN(address netip.Addr, n int, now time.Time) {
	if limiter, ok := b.limiters.Get(Client(address)); ok {
		limiter.AllowN(now, -min(n, b.burst)) // the limiter caps the tokens at its burst
	}
}

// Wait returns the time until the bucket of a client has a token, or 0 if it has one. Wait
// takes no token.
func (b *Budget) Wait(address netip.Addr, now time.Time) time.Duration {
	limiter, ok := b.limiters.Get(Client(address))
	if !ok {
		return 0
	}
	missing := 1 - limiter.TokensAt(now)
	if missing <= 0 {
		return 0
	}
	return max(time.Duration(missing/float64(b.rate)*float64(time.Second)), 1)
}
