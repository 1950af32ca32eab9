package ingest

import (
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/eventhook/eventhook/internal/clients"
)

// The limits of memory shares, as fractions of Config.InFlightBytes: a source can use
// 1/sourceFraction of it, and so on. The last 1/smallFraction is reserved for small
// requests.
const (
	sourceFraction = 4
	clientFraction = 4
	tenantFraction = 2
	smallFraction  = 8
)

// smallBody is the maximum body size of a small request, in bytes.
const smallBody = 64 << 10

// progressStep is the number of body bytes that must arrive to count as progress.
const progressStep = 64 << 10

// evictionGrace is how long after its last progress a request cannot be evicted. So only
// a sender that is slower than progressStep bytes in this time can be evicted.
const evictionGrace = time.Second

// sweepInterval is the time between two checks of the body rates.
const sweepInterval = time.Second

// memory limits the bytes of requests that are being read or stored. Every request counts
// in several shares: all requests, its source, its tenant, its client and, unless it is
// small, all large requests.
//
// When a share is full, memory evicts requests of that share whose bodies are still being
// read, the one without progress for the longest time first. A request that made progress
// within evictionGrace is not evicted. If no request can be evicted, the request that needs
// the memory is shed.
//
// A request counts in memory in these states:
//
//	reading   from reserve to finishReading; can be evicted, or stopped as too slow
//	complete  from finishReading to release; keeps its memory
//	stopped   evicted or too slow; its memory is released at once
type memory struct {
	minRate int           // minimum average rate of a body in bytes per second
	grace   time.Duration // time from the start of a request until minRate applies
	now     func() time.Time

	mu      sync.Mutex
	all     memoryShare
	large   memoryShare                 // of requests that are not small
	clients map[netip.Addr]*memoryShare // idle ones are deleted by the next sweep
	// slowest is the reading request whose last progress is the longest ago. The other
	// reading requests follow in a ring in the order of their last progress.
	slowest        *reservation
	sweepScheduled bool
}

// memoryShare is the memory of a group of requests. memory.mu guards it.
type memoryShare struct {
	used, max int64 // bytes
	requests  int
}

// newMemory returns the memory for a validated config.
func newMemory(c Config, now func() time.Time) *memory {
	return &memory{minRate: c.MinBodyRate, grace: c.MinBodyRateAfter, now: now, clients: map[netip.Addr]*memoryShare{},
		all: memoryShare{max: c.InFlightBytes}, large: memoryShare{max: c.InFlightBytes - c.InFlightBytes/smallFraction}}
}

// HeldBytes returns the bytes of memory that requests use now.
func (h *Handler) HeldBytes() int { return h.memory.usedBytes() }

func (m *memory) usedBytes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return int(m.all.used)
}

// reserve starts a reservation for a request, without any bytes. The body must be read
// through the reservation. Every reserve must be paired with a release.
func (m *memory) reserve(w http.ResponseWriter, r *http.Request, l *limits, client netip.Addr, now time.Time) *reservation {
	client = clients.Client(client)
	res, _ := reservationPool.Get().(*reservation)
	res.memory, res.body, res.writer, res.startedAt, res.progressAt = m, r.Body, w, now, now
	m.mu.Lock()
	defer m.mu.Unlock()
	clientShare := m.clients[client]
	if clientShare == nil {
		clientShare = &memoryShare{max: m.all.max / clientFraction}
		m.clients[client] = clientShare
	}
	res.shares = append(res.shareArray[:0], &m.all, clientShare, &l.memory, l.tenantMemory)
	for _, s := range res.shares {
		s.requests++
	}
	if r.ContentLength > smallBody {
		res.markLargeLocked()
	}
	m.appendLocked(res)
	if !m.sweepScheduled {
		m.sweepScheduled = true
		time.AfterFunc(sweepInterval, m.sweep)
	}
	return res
}

// appendLocked adds a request to the ring as the one with the latest progress.
func (m *memory) appendLocked(r *reservation) {
	if m.slowest == nil {
		m.slowest, r.next, r.previous = r, r, r
		return
	}
	r.next, r.previous = m.slowest, m.slowest.previous
	r.previous.next, r.next.previous = r, r
}

func (m *memory) removeLocked(r *reservation) {
	if r.next == r {
		m.slowest = nil
	} else {
		r.next.previous, r.previous.next = r.previous, r.next
		if m.slowest == r {
			m.slowest = r.next
		}
	}
	r.next, r.previous = nil, nil
}

// exceededShareLocked returns a share of r that exceeds its maximum, or nil. A request that
// is alone in a share may exceed it, so that a large body is accepted, but not the share of
// all requests.
func (m *memory) exceededShareLocked(r *reservation) *memoryShare {
	for _, s := range r.shares {
		if s.used > s.max && (s.requests > 1 || s == &m.all) {
			return s
		}
	}
	return nil
}

// evictionCandidateLocked returns the slowest reading request of a share other than r. It
// returns nil if all other requests of the share have made progress within evictionGrace.
func (m *memory) evictionCandidateLocked(share *memoryShare, r *reservation) *reservation {
	deadline := m.now().Add(-evictionGrace)
	for v := m.slowest; v != nil && !v.progressAt.After(deadline); v = v.next {
		if v != r && slices.Contains(v.shares, share) {
			return v
		}
		if v.next == m.slowest {
			break
		}
	}
	return nil
}

// sweep stops the requests whose bodies arrive too slowly and deletes the shares of
// clients without requests. It schedules the next sweep while there are clients.
func (m *memory) sweep() {
	m.mu.Lock()
	var slow []*reservation
	now := m.now()
	for r, n := m.slowest, m.readingLocked(); n > 0; n-- {
		next := r.next
		if r.isTooSlow(now) {
			m.stopLocked(r, OutcomeTooSlow)
			slow = append(slow, r)
		}
		r = next
	}
	maps.DeleteFunc(m.clients, func(_ netip.Addr, s *memoryShare) bool { return s.requests == 0 })
	if m.sweepScheduled = len(m.clients) > 0; m.sweepScheduled {
		time.AfterFunc(sweepInterval, m.sweep)
	}
	m.mu.Unlock()
	interruptAll(slow)
}

// readingLocked returns the number of requests whose bodies are being read.
func (m *memory) readingLocked() (n int) {
	for r := m.slowest; r != nil; r = r.next {
		if n++; r.next == m.slowest {
			break
		}
	}
	return n
}

// stopLocked releases the memory of a reading request and records why it was stopped. The
// caller must call interruptAll after it has unlocked mu.
func (m *memory) stopLocked(r *reservation, reason Outcome) {
	r.stopReason, r.interrupted = reason, make(chan struct{})
	r.releaseLocked()
}

// interruptAll ends the pending reads of stopped requests.
func interruptAll(list []*reservation) {
	for _, r := range list {
		r.interrupt()
		close(r.interrupted)
	}
}
