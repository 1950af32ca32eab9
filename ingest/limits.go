package ingest

import (
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/eventhook/eventhook"
)

// limits are what requests to a source may use.
type limits struct {
	setting eventhook.RateLimit
	pace    // of what is genuine
	// unproven is the pace of handshakes that anybody may send. It is as large
	// and apart, so that who sends many does not lock out the provider's events.
	unproven pace
	memory   share  // of the source
	tenant   *share // of the source's tenant
}

// pace is how often something may happen.
type pace struct{ perSecond, perMinute *rate.Limiter }

func newPace(l eventhook.RateLimit) pace {
	return pace{
		perSecond: rate.NewLimiter(rate.Limit(l.RequestsPerSecond), l.BurstSize),
		perMinute: rate.NewLimiter(rate.Limit(float64(l.RequestsPerMinute)/60), l.RequestsPerMinute),
	}
}

// newLimits gives a source a share of the memory for requests, so that slow
// senders to one source do not shed the webhooks of the others.
func newLimits(s eventhook.Source, tenant *share, inFlightBytes int64) *limits {
	l := s.RateLimit.WithDefaults()
	return &limits{
		setting:  s.RateLimit,
		pace:     newPace(l),
		unproven: newPace(l),
		memory:   share{most: inFlightBytes / sourceShare},
		tenant:   tenant,
	}
}

// wait is how long the pace is used up, 0 if it is not. It uses nothing of it.
func (p pace) wait(now time.Time) time.Duration {
	return max(waitFor(p.perSecond, now), waitFor(p.perMinute, now))
}

func waitFor(l *rate.Limiter, now time.Time) time.Duration {
	missing := 1 - l.TokensAt(now)
	if missing <= 0 {
		return 0
	}
	return time.Duration(missing / float64(l.Limit()) * float64(time.Second))
}

// take uses one request of the pace, or says how long to wait. now must be the
// present: a limiter that is told an earlier moment counts the time since then
// twice.
func (p pace) take(now time.Time) time.Duration {
	if p.perSecond.AllowN(now, 1) && p.perMinute.AllowN(now, 1) {
		return 0
	}
	return max(p.wait(now), 1)
}

// limitsKeeper keeps what is used of the limits when a source is loaded anew.
type limitsKeeper struct {
	inFlightBytes int64
	bySource      *lru.Cache[eventhook.SourceID, *limits]
	byTenant      *lru.Cache[eventhook.TenantID, *share]
}

func newLimitsKeeper(size int, inFlightBytes int64) limitsKeeper {
	sources, err := lru.New[eventhook.SourceID, *limits](size)
	if err != nil {
		panic(err) // the size is a positive number of ours
	}
	tenants, err := lru.New[eventhook.TenantID, *share](size)
	if err != nil {
		panic(err)
	}
	return limitsKeeper{inFlightBytes, sources, tenants}
}

// of returns the limits of a source: new ones only if it is new or its
// settings have changed.
func (k limitsKeeper) of(s eventhook.Source) *limits {
	fresh := newLimits(s, k.tenant(s.TenantID), k.inFlightBytes)
	if l, ok, _ := k.bySource.PeekOrAdd(s.ID, fresh); ok {
		if l.setting == fresh.setting {
			k.bySource.Get(s.ID) // in use
			return l
		}
		k.bySource.Add(s.ID, fresh)
	}
	return fresh
}

// tenant returns the share of the memory that all sources of a tenant have.
func (k limitsKeeper) tenant(id eventhook.TenantID) *share {
	fresh := &share{most: k.inFlightBytes / tenantShare}
	if s, ok, _ := k.byTenant.PeekOrAdd(id, fresh); ok {
		k.byTenant.Get(id) // in use
		return s
	}
	return fresh
}
