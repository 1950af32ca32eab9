package ingest

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
)

// clientAddress is who sent a request: the peer, or, when the peer is a
// trusted proxy, the last address in X-Forwarded-For that is none. It is read
// from its end, no further than needed: its beginning is the sender's to write.
func clientAddress(r *http.Request, trusted []netip.Prefix) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	client := plain(peer.Addr())
	if !containsAddr(trusted, client) {
		return client
	}
	for _, line := range slices.Backward(r.Header["X-Forwarded-For"]) {
		for more := true; more; {
			var text string
			text, line, more = cutLast(line)
			hop, err := netip.ParseAddr(strings.TrimSpace(text))
			if err != nil {
				return client
			}
			if client = plain(hop); !containsAddr(trusted, client) {
				return client
			}
		}
	}
	return client
}

// cutLast cuts the last element off a list with commas.
func cutLast(list string) (last, rest string, more bool) {
	i := strings.LastIndexByte(list, ',')
	if i < 0 {
		return list, "", false
	}
	return list[i+1:], list[:i], true
}

// plain is an address as we compare and store it: IPv4 as such, and without a
// zone, which may be any text.
func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// plainPrefix is a range that plain addresses can be in.
func plainPrefix(p netip.Prefix) netip.Prefix {
	const mapped = 96 // bits before an IPv4 address in an IPv6 one
	if p.Addr().Is4In6() && p.Bits() >= mapped {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mapped)
	}
	return p.Masked()
}

// addrText is an address as it is stored, "" if it is unknown.
func addrText(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
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
