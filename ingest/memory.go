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

// Bounds of what one kind of requests may hold, as parts of Config.InFlightBytes.
const (
	sourceShare = 4 // a quarter
	clientShare = 4
	tenantShare = 2
	smallShare  = 8 // the last eighth is for small requests
)

// smallBody is the largest body of a small request, in bytes.
const smallBody = 64 << 10

// stepBytes is how much of a body must come to count as progress.
const stepBytes = 64 << 10

// safeAfterStep is how long a request is not evicted after progress. A sender
// that is slower than stepBytes in this time gives way to others.
const safeAfterStep = time.Second

// sweepEvery is how often the pace of bodies is checked.
const sweepEvery = time.Second

// memory counts the bytes that requests hold, in shares: all requests, those
// that are not small, and those of one source, one tenant and one client. A
// request that does not fit evicts the slowest requests of the full share
// whose bodies are still being read; if there are none, it is refused.
type memory struct {
	minRate int           // bytes of a body in a second
	grace   time.Duration // before minRate counts
	now     func() time.Time

	mu       sync.Mutex
	all      share
	large    share
	clients  map[netip.Addr]*share // those without requests until the next sweep
	slowest  *holding              // the ring of requests being read, by their last progress
	sweeping bool                  // a sweep is to come
}

// share is a part of the memory. memory.mu guards it.
type share struct {
	held, most int64
	requests   int
}

// newMemory returns the memory for a config that has been validated.
func newMemory(c Config, now func() time.Time) *memory {
	return &memory{minRate: c.MinBodyRate, grace: c.MinBodyRateAfter, now: now, clients: map[netip.Addr]*share{},
		all: share{most: c.InFlightBytes}, large: share{most: c.InFlightBytes - c.InFlightBytes/smallShare}}
}

// Held is the number of bytes that requests hold.
func (h *Handler) HeldBytes() int { return h.memory.heldBytes() }

func (m *memory) heldBytes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return int(m.all.held)
}

// begin starts to count a request, whose body is to be read through the holding.
// Every begin must be paired with an end.
func (m *memory) begin(w http.ResponseWriter, r *http.Request, l *limits, client netip.Addr, now time.Time) *holding {
	client = clients.Client(client)
	h, _ := holdings.Get().(*holding)
	h.memory, h.body, h.writer, h.startedAt, h.steppedAt = m, r.Body, w, now, now
	m.mu.Lock()
	defer m.mu.Unlock()
	own := m.clients[client]
	if own == nil {
		own = &share{most: m.all.most / clientShare}
		m.clients[client] = own
	}
	h.shares = append(h.room[:0], &m.all, own, &l.memory, l.tenant)
	for _, s := range h.shares {
		s.requests++
	}
	if r.ContentLength > smallBody {
		h.enlarge()
	}
	m.append(h)
	if !m.sweeping {
		m.sweeping = true
		time.AfterFunc(sweepEvery, m.sweep)
	}
	return h
}

// append makes h the request with the latest progress.
func (m *memory) append(h *holding) {
	if m.slowest == nil {
		m.slowest, h.next, h.previous = h, h, h
		return
	}
	h.next, h.previous = m.slowest, m.slowest.previous
	h.previous.next, h.next.previous = h, h
}

func (m *memory) remove(h *holding) {
	if h.next == h {
		m.slowest = nil
	} else {
		h.next.previous, h.previous.next = h.previous, h.next
		if m.slowest == h {
			m.slowest = h.next
		}
	}
	h.next, h.previous = nil, nil
}

// full returns a share of h that holds too much, or nil. One request alone in
// a share may hold more than it, but not more than all requests may.
func (m *memory) full(h *holding) *share {
	for _, s := range h.shares {
		if s.held > s.most && (s.requests > 1 || s == &m.all) {
			return s
		}
	}
	return nil
}

// victim is the slowest request of a share, apart from h, or nil if all of
// them have made progress just now.
func (m *memory) victim(of *share, h *holding) *holding {
	safe := m.now().Add(-safeAfterStep)
	for v := m.slowest; v != nil && !v.steppedAt.After(safe); v = v.next {
		if v != h && slices.Contains(v.shares, of) {
			return v
		}
		if v.next == m.slowest {
			break
		}
	}
	return nil
}

// sweep ends the requests whose bodies come too slowly, and forgets the clients
// that have no requests.
func (m *memory) sweep() {
	m.mu.Lock()
	var slow []*holding
	now := m.now()
	for v, n := m.slowest, m.reading(); n > 0; n-- {
		next := v.next
		if v.isTooSlow(now) {
			m.stop(v, OutcomeTooSlow)
			slow = append(slow, v)
		}
		v = next
	}
	maps.DeleteFunc(m.clients, func(_ netip.Addr, s *share) bool { return s.requests == 0 })
	if m.sweeping = len(m.clients) > 0; m.sweeping {
		time.AfterFunc(sweepEvery, m.sweep)
	}
	m.mu.Unlock()
	interruptAll(slow)
}

// reading is the number of requests whose bodies are being read.
func (m *memory) reading() (n int) {
	for v := m.slowest; v != nil; v = v.next {
		if n++; v.next == m.slowest {
			break
		}
	}
	return n
}

// stop releases what a request holds, which is being read. Interrupt it after
// mu is unlocked.
func (m *memory) stop(h *holding, why Outcome) {
	h.stopped, h.interrupted = why, make(chan struct{})
	h.release()
}

// interruptAll has requests that were stopped notice it.
func interruptAll(list []*holding) {
	for _, h := range list {
		h.interrupt()
		close(h.interrupted)
	}
}
