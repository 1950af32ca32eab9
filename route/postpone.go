package route

import (
	"context"
	"sync"
	"time"

	"github.com/eventhook/eventhook"
)

// postponedLogInterval is the pause between two log lines about postponed events for one reason.
// There can be as many postponements as events.
const postponedLogInterval = 10 * time.Second

// postponedLog counts postponed events by reason. It is safe for concurrent use.
type postponedLog struct {
	mu       sync.Mutex
	counts   map[string]int
	loggedAt map[string]time.Time
}

// logPostponed counts n postponed events. It logs their number since the last line for this reason,
// at most once in postponedLogInterval, with the attributes in more.
func (p *Processor) logPostponed(n int, why string, more ...any) {
	if n == 0 {
		return
	}
	l, now := &p.postponed, p.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counts == nil {
		l.counts, l.loggedAt = map[string]int{}, map[string]time.Time{}
	}
	l.counts[why] += n
	if last, ok := l.loggedAt[why]; ok && now.Sub(last) < postponedLogInterval {
		return
	}
	p.Log.Warn("events are postponed: "+why, append([]any{"events", l.counts[why]}, more...)...)
	l.counts[why], l.loggedAt[why] = 0, now
}

// retryAfterLease sets NextRetryAt of each event to one lease period from now.
func (p *Processor) retryAfterLease(events []*eventhook.Event) []*eventhook.Event {
	at := p.Now().Add(p.Lease)
	for _, e := range events {
		e.NextRetryAt = &at
	}
	return events
}

// postpone returns events to the queue until their NextRetryAt. Their leases do not count as lost.
// If the release fails, the leases expire and count as lost.
func (p *Processor) postpone(ctx context.Context, events []*eventhook.Event, why string, more ...any) {
	if len(events) == 0 {
		return
	}
	p.logPostponed(len(events), why, more...)
	p.releaseEvents(ctx, events)
}

// releaseEvents returns events to the queue.
func (p *Processor) releaseEvents(ctx context.Context, events []*eventhook.Event) {
	if err := p.Queue.ReleaseEvents(ctx, events); err != nil {
		p.Log.Warn("cannot release events; they are claimed again when their leases expire", "events", len(events), "error", err)
	}
}
