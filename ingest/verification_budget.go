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

// Verifying a request costs work, in units of about 50 µs (verify.Verifier.CPUCost). Requests
// that turn out to be forged use two budgets (docs/adr/0007-unverified-requests.md):
//
//   - the budget of the client, Config.ForgeriesPerSec and Config.ForgeriesBurst;
//   - the budgets of the source and of its tenant, Config.UnverifiedWorkPerSec.
//
// The units are reserved before the verification and returned if the request is genuine. A
// verification of less than one unit is always done.

// workBudget is the verification work that unverified requests to a source may use on this
// instance, in units.
type workBudget struct{ source, tenant *rate.Limiter }

// take takes units from both limiters, or from none. A client whose own budget is used up
// can only use the upper half of each limiter; the lower half is reserved for other
// clients.
func (b workBudget) take(units int, clientHasBudget bool, now time.Time) bool {
	limiters := []*rate.Limiter{b.source, b.tenant}
	for _, l := range limiters {
		burst := float64(l.Burst())
		needed := float64(cappedUnits(units, l))
		if !clientHasBudget {
			needed += burst / 2
		}
		if l.TokensAt(now) < min(needed, burst) {
			return false
		}
	}
	for _, l := range limiters {
		l.AllowN(now, cappedUnits(units, l))
	}
	return true
}

// returnUnits returns the units of a successful take to both limiters.
func (b workBudget) returnUnits(units int, now time.Time) {
	for _, l := range []*rate.Limiter{b.source, b.tenant} {
		l.AllowN(now, -cappedUnits(units, l))
	}
}

// cappedUnits returns the tokens that a request of the given units takes from a limiter: at
// most half of the burst, so that an expensive verification stays possible.
func cappedUnits(units int, l *rate.Limiter) int { return min(units, l.Burst()/2) }

// workBudgets caches the limiters of sources and tenants, so that a reload of a source does
// not refill them. It is safe for concurrent use.
type workBudgets struct {
	perSecond int // units of a source
	sources   *lru.Cache[eventhook.SourceID, *rate.Limiter]
	tenants   *lru.Cache[eventhook.TenantID, *rate.Limiter]
}

// tenantWorkFactor is how many times the work of one source a tenant may use.
const tenantWorkFactor = 2

func newWorkBudgets(config Config) workBudgets {
	return workBudgets{config.UnverifiedWorkPerSec,
		newLRU[eventhook.SourceID, *rate.Limiter](config.CachedSources), newLRU[eventhook.TenantID, *rate.Limiter](config.CachedSources)}
}

func (b workBudgets) ofSource(s eventhook.Source) workBudget {
	return workBudget{
		source: cached(b.sources, s.ID, newWorkLimiter(b.perSecond)),
		tenant: cached(b.tenants, s.TenantID, newWorkLimiter(tenantWorkFactor*b.perSecond)),
	}
}

// newWorkLimiter returns a limiter whose burst is the work of one second.
func newWorkLimiter(perSecond int) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(perSecond), perSecond)
}

// reservedWork is the work that was reserved to verify a request.
type reservedWork struct {
	units           int
	clientHasBudget bool // the units were taken from the client's budget, too
}

// reserveWork reserves the work of verifying a request in the budgets of the client, the
// source and the tenant. If a budget is used up, the request is refused unverified.
func (h *Handler) reserveWork(in received) (reservedWork, *refusal) {
	units := in.source.verifier.CPUCost(in.Request)
	if units == 0 {
		return reservedWork{}, nil
	}
	now := h.now()
	w := reservedWork{units, h.forgeries.TakeN(in.client, units, now)}
	if in.source.work.take(units, w.clientHasBudget, now) {
		return w, nil
	}
	if w.clientHasBudget {
		h.forgeries.ReturnN(in.client, units, now)
	}
	return reservedWork{}, &refusal{outcome: OutcomeForgeryLimit, retryAfter: time.Second}
}

// verify verifies a request within its budgets. If it is genuine, verify returns which secret
// matched. For a client whose budget is used up, no keys are fetched.
func (h *Handler) verify(ctx context.Context, in received) (verify.Match, *refusal) {
	work, refused := h.reserveWork(in)
	if refused != nil {
		return verify.Match{}, refused
	}
	if work.units > 0 && !work.clientHasBudget {
		ctx = verify.WithCachedKeysOnly(ctx)
	}
	match, err := verify.Identify(ctx, in.source.verifier, in.Request)
	if err == nil {
		h.returnWork(work, in)
		return match, nil
	}
	return verify.Match{}, h.refuseUnverified(work, in, err).withBody(in.Body)
}

// refuseUnverified charges a request that is not verified to the budget of its client.
func (h *Handler) refuseUnverified(work reservedWork, in received, err error) *refusal {
	if v, ok := errors.AsType[*verify.Error](err); ok && v.Reason == verify.ReasonUnavailable {
		return h.refuseWithoutKeys(work, in, v)
	}
	refused := unverified(err)
	if work.units == 0 {
		return h.chargeForgery(in.client, refused)
	}
	if !work.clientHasBudget {
		refused.outcome, refused.retryAfter = OutcomeForgeryLimit, time.Second
	}
	return refused
}

// returnWork returns the reserved work of a genuine request.
func (h *Handler) returnWork(w reservedWork, in received) {
	if w.units == 0 {
		return
	}
	now := h.now()
	in.source.work.returnUnits(w.units, now)
	if w.clientHasBudget {
		h.forgeries.ReturnN(in.client, w.units, now)
	}
}

// refuseWithoutKeys refuses a request whose keys cannot be fetched now. The request may be
// genuine, so the source gets its work back. The client does not, because a sender may have
// chosen the keys that are fetched. A client without budget has caused no fetch; its
// requests are shed and not listed as rejections.
func (h *Handler) refuseWithoutKeys(w reservedWork, in received, v *verify.Error) *refusal {
	const retryAfter = 5 * time.Second
	in.source.work.returnUnits(w.units, h.now())
	if !w.clientHasBudget {
		return &refusal{outcome: OutcomeShed, reason: string(v.Reason), retryAfter: retryAfter}
	}
	return &refusal{outcome: OutcomeKeysUnavailable, reason: string(v.Reason), detail: v.Detail, retryAfter: retryAfter}
}

func unverified(err error) *refusal {
	refused := &refusal{outcome: OutcomeUnverified, reason: reasonOther}
	if v, ok := errors.AsType[*verify.Error](err); ok {
		refused.reason, refused.detail = string(v.Reason), v.Detail
	}
	return refused
}

// chargeForgery charges a refused request to the budget of its client. If the budget is
// used up, the refusal becomes OutcomeForgeryLimit. Because the client is charged only
// after the refusal, a genuine sender behind the same address as a forger is not refused.
// Failures of the gateway and exceeded rate limits are not charged.
func (h *Handler) chargeForgery(client netip.Addr, refused *refusal) *refusal {
	if refused.outcome == OutcomeFailed || refused.outcome == OutcomeRateLimited {
		return refused
	}
	if !h.forgeries.Take(client, h.now()) {
		refused.outcome, refused.retryAfter = OutcomeForgeryLimit, time.Second
	}
	return refused
}
