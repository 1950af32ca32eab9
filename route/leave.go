package route

import (
	"context"
	"sync"
	"time"

	"github.com/eventhook/eventhook"
)

// tellEvery is how often the log tells of events that wait, for each reason:
// there may be as many as there are events.
const tellEvery = 10 * time.Second

// leaving counts events that wait outside of this instance. Safe for concurrent
// use.
type leaving struct {
	mu     sync.Mutex
	counts map[string]int
	told   map[string]time.Time
}

// leave notes that n events wait, and logs now and then how many they were since
// the last time, with more attributes about these.
func (p *Processor) leave(n int, why string, more ...any) {
	if n == 0 {
		return
	}
	l, now := &p.leaving, p.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counts == nil {
		l.counts, l.told = map[string]int{}, map[string]time.Time{}
	}
	l.counts[why] += n
	if told, ok := l.told[why]; ok && now.Sub(told) < tellEvery {
		return
	}
	p.Log.Warn("events wait: "+why, append([]any{"events", l.counts[why]}, more...)...)
	l.counts[why], l.told[why] = 0, now
}

// later has events wait as long as a lease would.
func (p *Processor) later(events []*eventhook.Event) []*eventhook.Event {
	at := p.Now().Add(p.Lease)
	for _, e := range events {
		e.NextRetryAt = &at
	}
	return events
}

// postpone gives events back until their NextRetryAt. So the lease does not
// count as lost. If that fails the leases run out, which does.
func (p *Processor) postpone(ctx context.Context, events []*eventhook.Event, why string, more ...any) {
	if len(events) == 0 {
		return
	}
	p.leave(len(events), why, more...)
	p.release(ctx, events)
}

// release gives events back.
func (p *Processor) release(ctx context.Context, events []*eventhook.Event) {
	if err := p.Queue.ReleaseEvents(ctx, events); err != nil {
		p.Log.Warn("events are given back only when their leases run out", "events", len(events), "error", err)
	}
}
