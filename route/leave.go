package route

import (
	"sync"
	"time"
)

// tellEvery is how often the log tells of events that are left to their leases,
// for each reason: there may be as many as there are events.
const tellEvery = 10 * time.Second

// leaving counts events that are left to their leases. Safe for concurrent use.
type leaving struct {
	mu     sync.Mutex
	counts map[string]int
	told   map[string]time.Time
}

// leave notes that n events wait for their leases to end, and logs now and then
// how many it were since the last time, with what else there is to say of these.
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
	p.Log.Warn("events wait for their leases to end: "+why, append([]any{"events", l.counts[why]}, more...)...)
	l.counts[why], l.told[why] = 0, now
}
