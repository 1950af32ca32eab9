package outbound

import (
	"context"
	"time"

	"github.com/eventhook/eventhook"
)

// Judge is what becomes of a delivery after an attempt.
func Judge(now time.Time, maxAge time.Duration, chance float64, s *eventhook.Subscription, d *eventhook.Delivery, a *eventhook.Attempt) *DeliverySettlement {
	return judgement{now, maxAge, chance}.settle(s, d, a)
}

// Breaker is a breaker by itself.
type Breaker struct{ breaker }

// NewBreaker makes a breaker of a subscription that allows so many at once.
func NewBreaker(most int) *Breaker { return &Breaker{newBreaker(most)} }

// Epoch is what a send that is begun now belongs to.
func (b *Breaker) Epoch() int { return b.epoch }

// Succeeded notes a success.
func (b *Breaker) Succeeded(epoch, most int) { b.succeeded(epoch, most) }

// Failed notes a failure.
func (b *Breaker) Failed(epoch int) bool { return b.failed(epoch) }

// Wait is how long until the next probe.
func (b *Breaker) Wait(chance float64) time.Duration { return b.wait(chance) }

// State is its state, and how many may be sent at once.
func (b *Breaker) State() (BreakerState, int) { return b.state, b.slots }

// Pace is when a subscription of so many a second may be sent to.
type Pace struct{ pace }

// NewPace makes a pace without times.
func NewPace(perSecond int) *Pace {
	p := &Pace{}
	p.set(perSecond)
	return p
}

// IsSpent reports whether times are to be reserved.
func (p *Pace) IsSpent(now time.Time) bool { return p.isSpent(now) }

// Grant gives times.
func (p *Pace) Grant(first time.Time, n int) { p.grant(first, n) }

// Take uses one.
func (p *Pace) Take(now time.Time) { p.take(now) }

// Next is when the next may be sent.
func (p *Pace) Next() time.Time { return p.next }

// IsTrouble reports whether an attempt speaks against its endpoint.
var IsTrouble = isTrouble

// Age is a duration in words.
var Age = age

// Fifo is a queue of numbers.
type Fifo = fifo[int]

// Push adds to it.
func (q *fifo[T]) Push(x T) { q.push(x) }

// Pop removes the oldest.
func (q *fifo[T]) Pop() T { return q.pop() }

// Len is how many there are.
func (q *fifo[T]) Len() int { return q.len() }

// ClaimAround claims what is due of a subscription, which asks for it before
// something happens and after that.
func (d *Dispatcher) ClaimAround(ctx context.Context, s *eventhook.Subscription, happens func()) {
	c := d.newClaiming()
	c.add(ctx, s)
	happens()
	c.add(ctx, s)
	c.do(ctx)
}

// Match returns the subscriptions that get an event, without a limit, and the
// generation against which it was matched.
func (r *Rosters) Match(ctx context.Context, e *eventhook.Event) (generation int64, matched []*eventhook.Subscription, err error) {
	roster, err := r.of(ctx, e.TenantID)
	if err != nil {
		return 0, nil, err
	}
	matched, _ = roster.Match(nil, e)
	return roster.generation, matched, nil
}

// Wants returns the subscriptions that get an event, without a limit.
func (r *Roster) Wants(e *eventhook.Event) []*eventhook.Subscription {
	matched, _ := r.Match(nil, e)
	return matched
}
