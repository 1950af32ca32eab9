package ingest

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventhook/eventhook/internal/chunks"
)

// holding is what one request holds of the memory. The request's goroutine
// calls its methods. memory.mu guards the fields, apart from those that never
// change and received.
type holding struct {
	memory    *memory
	body      io.Reader
	writer    http.ResponseWriter
	startedAt time.Time
	received  atomic.Int64 // bytes of the body

	shares  []*share
	room    [5]*share // of shares
	bytes   int64
	isLarge bool

	steppedAt      time.Time // when the last stepBytes were complete
	stepped        int64     // bytes received then
	next, previous *holding  // in the ring of memory; nil: the body is not being read
	stopped        Outcome   // OutcomeEvicted or OutcomeTooSlow; "": it goes on
	interrupted    chan struct{}
}

var _ chunks.Account = (*holding)(nil)

// holdings are zero, and used again from one request to the next.
var holdings = sync.Pool{New: func() any { return &holding{} }}

// Take counts n more bytes, or returns errShed if there is no room for them,
// or if the request was stopped. It implements chunks.Account.
func (h *holding) Take(n int) error {
	if n == 0 {
		return nil
	}
	m := h.memory
	m.mu.Lock()
	if h.stopped != "" {
		m.mu.Unlock()
		return errShed
	}
	h.add(int64(n))
	var err error
	var evicted []*holding
	for s := m.full(h); s != nil; s = m.full(h) {
		v := m.victim(s, h)
		if v == nil {
			h.add(-int64(n))
			err = errShed
			break
		}
		m.stop(v, OutcomeEvicted)
		evicted = append(evicted, v)
	}
	m.mu.Unlock()
	interruptAll(evicted)
	return err
}

// Give returns n bytes. It implements chunks.Account.
func (h *holding) Return(n int) {
	if n == 0 {
		return
	}
	h.memory.mu.Lock()
	defer h.memory.mu.Unlock()
	if h.stopped == "" {
		h.add(-int64(n))
	}
}

func (h *holding) add(n int64) {
	h.bytes += n
	for _, s := range h.shares {
		s.held += n
	}
}

// enlarge counts the request among those that are not small.
func (h *holding) enlarge() {
	large := &h.memory.large
	h.isLarge, h.shares = true, append(h.shares, large)
	large.requests++
	large.held += h.bytes
}

// Read reads the request's body and counts what has come. It implements
// io.Reader.
func (h *holding) Read(b []byte) (int, error) {
	n, err := h.body.Read(b)
	h.receive(n)
	return n, err
}

// interrupt ends the pending Read of the body, and all later ones, at once. The
// servers of net/http can do that for every version of HTTP.
func (h *holding) interrupt() {
	_ = http.NewResponseController(h.writer).SetReadDeadline(time.Unix(1, 0))
}

func (h *holding) receive(n int) {
	received := h.received.Add(int64(n))
	if received < h.stepped+stepBytes {
		return
	}
	m := h.memory
	now := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if h.stopped != "" {
		return
	}
	if !h.isLarge && received > smallBody {
		h.enlarge()
	}
	h.stepped, h.steppedAt = received, now
	m.remove(h)
	m.append(h)
}

// arrive ends the reading of the body: from now on the request is not stopped.
// It returns why the request was stopped before, or "".
func (h *holding) arrive() Outcome {
	m := h.memory
	m.mu.Lock()
	stopped := h.stopped
	if stopped == "" && h.next != nil {
		m.remove(h)
	}
	m.mu.Unlock()
	if stopped != "" {
		<-h.interrupted // afterwards nothing touches the request's connection
	}
	return stopped
}

// end releases what the request holds. The holding must not be used afterwards.
func (h *holding) end() {
	m := h.memory
	m.mu.Lock()
	wasStopped := h.stopped != ""
	if !wasStopped {
		h.release()
	}
	m.mu.Unlock()
	if !wasStopped { // else another goroutine may still use it
		*h = holding{}
		holdings.Put(h)
	}
}

func (h *holding) release() {
	m := h.memory
	if h.next != nil {
		m.remove(h)
	}
	h.add(-h.bytes)
	for _, s := range h.shares {
		s.requests--
	}
}

// isTooSlow reports whether less of the body has come than the least rate asks for.
func (h *holding) isTooSlow(now time.Time) bool {
	counted := now.Sub(h.startedAt) - h.memory.grace
	return counted > 0 && float64(h.received.Load()) < counted.Seconds()*float64(h.memory.minRate)
}
