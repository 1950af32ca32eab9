package ingest

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/eventhook/eventhook"
)

// The rate limits of a source hold over all instances together. Once a second the instances exchange
// how many requests each source sent to them, and each takes its share of the limit for the next
// second:
//
//   - If all requests fit into the limit, an instance gets what it needs, and an equal part of the rest.
//   - Otherwise it gets a part in proportion to its requests.
//
// A request never waits for the exchange. Without an exchange, because a source sends few requests, an
// instance gets an equal part. If the exchange fails, the shares stay as they are. With one instance,
// its share is the whole limit.

// RateDemand is the number of requests per second that a source sends to this instance.
type RateDemand struct {
	SourceID  eventhook.SourceID
	PerSecond float64
}

// RateStore exchanges demands between the instances.
type RateStore interface {
	// ExchangeRates stores the demands of this instance, and returns the number of instances that
	// have exchanged demands within the last seconds, with this one, and the sums of the demands that
	// the other instances have stored for the same sources.
	ExchangeRates(ctx context.Context, own []RateDemand) (instances int, others map[eventhook.SourceID]float64, err error)
}

const (
	exchangeEvery = time.Second
	// exchangeFrom is the part of its equal share from which an instance exchanges the demand of a
	// source. Smaller demands of all instances together exceed a limit by this part at most.
	exchangeFrom = 0.05
	// minShare is the part of a limit that every instance has, so that a source can begin to send to it. All
	// instances together have minShares at most: their parts exceed the limit by that.
	minShare, minShares = 0.02, 0.05
	// idleExchanges is the number of exchanges without a demand after which an instance has an equal
	// share again.
	idleExchanges = 3
)

// shared is the part of the limits of a source that the exchange reads and changes.
type shared struct {
	taken, refused atomic.Int64 // requests since the last exchange
	isListed       atomic.Bool  // in sharedLimits.due
	idle           int          // exchanges without a demand; used by the exchange only
	part           float64      // of the limits that this instance may use; likewise
}

// sharedLimits are the limits with requests since the last exchange. Safe for concurrent use.
type sharedLimits struct {
	instances atomic.Int64 // at the last exchange; 0 before

	mu     sync.Mutex
	due    []*limits
	active map[*limits]bool // used by the exchange only
}

// note counts a request that was taken or refused by the limits.
func (s *sharedLimits) note(l *limits, isTaken bool) {
	if isTaken {
		l.shared.taken.Add(1)
	} else {
		l.shared.refused.Add(1)
	}
	if l.shared.isListed.Load() || l.shared.isListed.Swap(true) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due = append(s.due, l)
}

// equalPart is the part of an instance without an exchange.
func (s *sharedLimits) equalPart() float64 { return 1 / float64(max(s.instances.Load(), 1)) }

// takeDue moves the limits with new requests to active.
func (s *sharedLimits) takeDue() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.due {
		l.shared.isListed.Store(false)
		s.active[l] = true
	}
	s.due = nil
}

// demand returns the requests per second since the last exchange. Refused requests count up to the
// current share only: forged ones must not draw the whole limit to one instance.
func (l *limits) demand(took time.Duration) float64 {
	seconds := max(took.Seconds(), exchangeEvery.Seconds()/2)
	share := l.shared.part * l.perSecond()
	return float64(l.shared.taken.Swap(0))/seconds + min(float64(l.shared.refused.Swap(0))/seconds, max(share, 1))
}

// perSecond is the limit in requests per second over longer times: the lower one of both limits.
func (l *limits) perSecond() float64 {
	return min(float64(l.full.RequestsPerSecond), float64(l.full.RequestsPerMinute)/secondsPerMinute)
}

const secondsPerMinute = 60

// partOf returns the part of a limit for an instance, from its demand, the demand of the others, and
// the number of instances.
func partOf(limit, own, others float64, instances int) float64 {
	total := own + others
	part := own / max(total, limit)
	if total <= limit {
		part += (limit - total) / float64(instances) / limit
	}
	return min(max(part, min(minShare, minShares/float64(instances))), 1)
}

// setPart changes the limiters to a part of the limits.
func (l *limits) setPart(part float64, now time.Time) {
	if part == l.shared.part {
		return
	}
	l.shared.part = part
	for _, q := range []requestRate{l.verified, l.unverified} {
		q.setPart(l.full, part, now)
	}
}

func (q requestRate) setPart(of eventhook.RateLimit, part float64, now time.Time) {
	set := func(l *rate.Limiter, perSecond float64, burst int) {
		l.SetLimitAt(now, rate.Limit(perSecond*part))
		l.SetBurstAt(now, max(1, int(float64(burst)*part+0.5)))
	}
	set(q.perSecond, float64(of.RequestsPerSecond), of.BurstSize)
	set(q.perMinute, float64(of.RequestsPerMinute)/secondsPerMinute, of.RequestsPerMinute)
}

// ShareLimits exchanges demands with the other instances until ctx ends.
func (h *Handler) ShareLimits(ctx context.Context, store RateStore) error {
	tick := time.NewTicker(exchangeEvery)
	defer tick.Stop()
	last, isFailing := h.now(), false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now := h.now()
		err := h.shared.exchange(ctx, store, now.Sub(last), now)
		last = now
		if err != nil && !isFailing && ctx.Err() == nil {
			h.log.Warn("rate limits cannot be shared with the other instances now; their shares stay as they are", "error", err)
		}
		isFailing = err != nil
	}
}

// exchange exchanges the demands of the time since the last exchange, and sets the shares.
func (s *sharedLimits) exchange(ctx context.Context, store RateStore, took time.Duration, now time.Time) error {
	s.takeDue()
	demands := make(map[*limits]float64, len(s.active))
	var own []RateDemand
	for l := range s.active {
		d := l.demand(took)
		demands[l] = d
		if d >= l.perSecond()*s.equalPart()*exchangeFrom {
			own = append(own, RateDemand{l.source, d})
		}
	}
	ctx, cancel := context.WithTimeout(ctx, exchangeEvery)
	defer cancel()
	instances, others, err := store.ExchangeRates(ctx, own)
	if err != nil {
		return err
	}
	s.instances.Store(int64(instances))
	for l, d := range demands {
		if d == 0 {
			l.shared.idle++
		} else {
			l.shared.idle = 0
		}
		if l.shared.idle >= idleExchanges {
			l.setPart(s.equalPart(), now)
			delete(s.active, l)
			continue
		}
		l.setPart(partOf(l.perSecond(), d, others[l.source], instances), now)
	}
	return nil
}
