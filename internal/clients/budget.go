package clients

import (
	"net/netip"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
)

// Client is the one that an address stands for: of IPv6 its /64, which is the
// least that a network hands out.
func Client(a netip.Addr) netip.Addr {
	const network = 64
	if a.Is6() {
		if p, err := a.Prefix(network); err == nil {
			return p.Addr()
		}
	}
	return a
}

// Budget bounds how often each client may be wrong: a burst, and then so many
// times a second. Those without an address share one. It remembers the ten
// thousand clients that were wrong last; whoever is forgotten starts anew. Safe
// for concurrent use.
type Budget struct {
	limiters *lru.Cache[netip.Addr, *rate.Limiter]
	rate     rate.Limit
	burst    int
}

// NewBudget gives each client a budget of its own. Both numbers are positive.
func NewBudget(perSecond float64, burst int) *Budget {
	const clients = 10_000
	cache, err := lru.New[netip.Addr, *rate.Limiter](clients)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return &Budget{limiters: cache, rate: rate.Limit(perSecond), burst: burst}
}

// Take counts one fault of a client, and reports whether its budget had room
// for it. now must be the present: a limiter that is told an earlier moment
// counts the time since then twice.
func (b *Budget) Take(address netip.Addr, now time.Time) bool { return b.TakeN(address, 1, now) }

// TakeN counts n faults at once, though no more than a burst.
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

// Return gives back what a Take that had room has counted: it was no fault.
func (b *Budget) Return(address netip.Addr, now time.Time) { b.ReturnN(address, 1, now) }

// ReturnN gives back what a TakeN that had room has counted.
func (b *Budget) ReturnN(address netip.Addr, n int, now time.Time) {
	if limiter, ok := b.limiters.Get(Client(address)); ok {
		limiter.AllowN(now, -min(n, b.burst)) // the burst bounds it when it is looked at next
	}
}

// Wait is how long a client's budget is used up, 0 if it is not. It draws
// nothing.
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
