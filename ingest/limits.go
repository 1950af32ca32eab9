package ingest

import (
	"sync/atomic"
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
	inFlight atomic.Int64 // bytes of memory that its requests hold
	most     int64
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
// senders to one do not shed the webhooks of the others, and always enough
// for one webhook.
func newLimits(s eventhook.Source, inFlightBytes int64) *limits {
	const share, headers = 4, 512 << 10
	l := s.RateLimit.WithDefaults()
	return &limits{
		setting:  s.RateLimit,
		pace:     newPace(l),
		unproven: newPace(l),
		most:     max(inFlightBytes/share, int64(s.BodyLimit()+headers)),
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
	bySource *lru.Cache[eventhook.SourceID, *limits]
}

func newLimitsKeeper(size int) limitsKeeper {
	cache, err := lru.New[eventhook.SourceID, *limits](size)
	if err != nil {
		panic(err) // the size is a positive number of ours
	}
	return limitsKeeper{cache}
}

// of returns the limits of a source: new ones only if it is new or its
// settings have changed.
func (k limitsKeeper) of(s eventhook.Source, inFlightBytes int64) *limits {
	fresh := newLimits(s, inFlightBytes)
	if l, ok, _ := k.bySource.PeekOrAdd(s.ID, fresh); ok {
		if l.setting == fresh.setting && l.most == fresh.most {
			k.bySource.Get(s.ID) // in use
			return l
		}
		k.bySource.Add(s.ID, fresh)
	}
	return fresh
}
