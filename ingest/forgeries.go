package ingest

import (
	"context"
	"errors"
	"net/netip"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/verify"
)

// The work of verifying a request that proves nothing is bounded twice: by the
// client's budget of forgeries, and by a share of the source and of its tenant.
// It is taken before the work and given back when the request is genuine
// (docs/adr/0007-forgeries.md). Work of less than one unit is always done.

// workShares are what requests to a source may use of this instance before they
// are verified, in units of verify.Verifier.Work.
type workShares struct{ source, tenant *rate.Limiter }

// take uses units of both shares, or neither. A client without a budget of its
// own finds only the upper half of each: the lower half is kept for the others.
func (s workShares) take(units int, hasBudget bool, now time.Time) bool {
	all := []*rate.Limiter{s.source, s.tenant}
	for _, l := range all {
		least := float64(clamp(units, l))
		if !hasBudget {
			least += float64(l.Burst()) / 2
		}
		if l.TokensAt(now) < min(least, float64(l.Burst())) {
			return false
		}
	}
	for _, l := range all {
		l.AllowN(now, clamp(units, l))
	}
	return true
}

// giveBack returns what take has used.
func (s workShares) giveBack(units int, now time.Time) {
	for _, l := range []*rate.Limiter{s.source, s.tenant} {
		l.AllowN(now, -clamp(units, l))
	}
}

// clamp is what a request of units uses of a limiter: one that costs more than
// half of it must still be possible.
func clamp(units int, l *rate.Limiter) int { return min(units, l.Burst()/2) }

// sharesKeeper keeps what is used of the shares when a source is loaded anew.
type sharesKeeper struct {
	perSecond int // units of a source; a tenant has twice as many
	sources   *lru.Cache[eventhook.SourceID, *rate.Limiter]
	tenants   *lru.Cache[eventhook.TenantID, *rate.Limiter]
}

func newSharesKeeper(config Config) sharesKeeper {
	sources, err := lru.New[eventhook.SourceID, *rate.Limiter](config.CachedSources)
	if err != nil {
		panic(err) // the config has been validated
	}
	tenants, _ := lru.New[eventhook.TenantID, *rate.Limiter](config.CachedSources)
	return sharesKeeper{config.UnverifiedWorkPerSec, sources, tenants}
}

func (k sharesKeeper) of(s eventhook.Source) workShares {
	const tenant = 2
	return workShares{kept(k.sources, s.ID, k.perSecond), kept(k.tenants, s.TenantID, tenant*k.perSecond)}
}

// kept is the limiter of a key: a new one, with the burst of one second, if
// there is none.
func kept[K comparable](all *lru.Cache[K, *rate.Limiter], key K, perSecond int) *rate.Limiter {
	fresh := rate.NewLimiter(rate.Limit(perSecond), perSecond)
	if l, ok, _ := all.PeekOrAdd(key, fresh); ok {
		all.Get(key) // in use
		return l
	}
	return fresh
}

// spent is what was taken before a request is verified.
type spent struct {
	units     int
	hasBudget bool // the client's budget had room for it
}

// spend takes the work of verifying a request from the client's budget and from
// the shares. A request for which there is no room is refused before the work.
func (h *Handler) spend(c challenge) (spent, *refused) {
	units := c.end.verifier.CPUCost(c.Request)
	if units == 0 {
		return spent{}, nil
	}
	now := h.now()
	s := spent{units, h.forgeries.TakeN(c.client, units, now)}
	if c.end.work.take(units, s.hasBudget, now) {
		return s, nil
	}
	if s.hasBudget {
		h.forgeries.ReturnN(c.client, units, now)
	}
	return spent{}, &refused{outcome: OutcomeForgeryLimit, retryAfter: time.Second}
}

// verify judges a request within what it may use.
func (h *Handler) verify(ctx context.Context, c challenge) *refused {
	s, no := h.spend(c)
	if no != nil {
		return no
	}
	if s.units > 0 && !s.hasBudget {
		ctx = verify.WithCachedKeysOnly(ctx)
	}
	err := c.end.verifier.Verify(ctx, c.Request)
	if err == nil {
		h.giveBack(s, c)
		return nil
	}
	if why, ok := errors.AsType[*verify.Error](err); ok && why.Reason == verify.ReasonUnavailable {
		return h.keysUnavailable(s, c, why)
	}
	if no = unverifiedBy(err); s.units == 0 {
		no = h.overdrawn(c.client, no)
	} else if !s.hasBudget {
		no.outcome, no.retryAfter = OutcomeForgeryLimit, time.Second
	}
	return no.having(c.Body)
}

func (h *Handler) giveBack(s spent, c challenge) {
	if s.units == 0 {
		return
	}
	now := h.now()
	c.end.work.giveBack(s.units, now)
	if s.hasBudget {
		h.forgeries.ReturnN(c.client, s.units, now)
	}
}

// keysUnavailable answers a request whose key cannot be fetched now. It may be
// genuine. The client stays charged, since the sender may have chosen what is
// fetched; a client without budget causes no fetch, and its requests are not
// listed.
func (h *Handler) keysUnavailable(s spent, c challenge, why *verify.Error) *refused {
	const retryAfter = 5 * time.Second
	c.end.work.giveBack(s.units, h.now())
	if !s.hasBudget {
		return &refused{outcome: OutcomeShed, reason: string(why.Reason), retryAfter: retryAfter}
	}
	no := &refused{outcome: OutcomeKeysUnavailable, reason: string(why.Reason), detail: why.Detail, retryAfter: retryAfter}
	return no.having(c.Body)
}

func unverifiedBy(err error) *refused {
	no := &refused{outcome: OutcomeUnverified, reason: "other"}
	if v, ok := errors.AsType[*verify.Error](err); ok {
		no.reason, no.detail = string(v.Reason), v.Detail
	}
	return no
}

// overdrawn counts a refusal against its client's budget, and says so where the
// budget is used up. It is asked after the refusal, so that a sender that shares
// an address with a forger is not refused with it. A failure of the gateway, and
// a lack of room, are not counted.
func (h *Handler) overdrawn(client netip.Addr, no *refused) *refused {
	if no.outcome != OutcomeFailed && no.outcome != OutcomeRateLimited && !h.forgeries.Take(client, h.now()) {
		no.outcome, no.retryAfter = OutcomeForgeryLimit, time.Second
	}
	return no
}
