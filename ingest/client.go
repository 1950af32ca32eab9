package ingest

import (
	"net/http"
	"net/netip"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
)

// clientAddress is who sent a request: the peer, or, when the peer is a
// trusted proxy, the last address in X-Forwarded-For that is none.
func clientAddress(r *http.Request, trusted []netip.Prefix) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	client := peer.Addr().Unmap()
	if len(trusted) == 0 || !containsAddr(trusted, client) {
		return client
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		hop, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			break
		}
		client = hop.Unmap()
		if !containsAddr(trusted, client) {
			break
		}
	}
	return client
}

func containsAddr(prefixes []netip.Prefix, a netip.Addr) bool {
	for _, p := range prefixes {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// forgeries is the budget of refused requests that each client has. It is
// looked at only after a request was refused, so that who shares an address
// with a forger is not refused with him.
type forgeries struct {
	clients *lru.Cache[netip.Addr, *rate.Limiter]
	rate    rate.Limit
	burst   int
}

func newForgeries(config Config) *forgeries {
	const clients = 10_000
	cache, err := lru.New[netip.Addr, *rate.Limiter](clients)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return &forgeries{clients: cache, rate: rate.Limit(config.ForgeriesPerSec), burst: config.ForgeriesBurst}
}

// exceeded counts one refused request of a client, and reports whether it was
// one too many. An IPv6 client is its /64.
func (f *forgeries) exceeded(client netip.Addr, now time.Time) bool {
	if client.Is6() {
		if p, err := client.Prefix(64); err == nil {
			client = p.Addr()
		}
	}
	limiter, ok := f.clients.Get(client)
	if !ok {
		limiter = rate.NewLimiter(f.rate, f.burst)
		if earlier, had, _ := f.clients.PeekOrAdd(client, limiter); had {
			limiter = earlier
		}
	}
	return !limiter.AllowN(now, 1)
}
