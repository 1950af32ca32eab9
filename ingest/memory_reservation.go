package ingest

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventhook/eventhook/internal/chunks"
)

// reservation is the memory that one request uses. Only the goroutine of the request
// may call the exported methods, finishReading and release. Until finishReading
// returns, another request or the sweep can stop the reservation. memory.mu guards
// the fields, except received and the fields that never change.
type reservation struct {
	memory    *memory
	body      io.Reader
	writer    http.ResponseWriter
	startedAt time.Time
	received  atomic.Int64 // bytes of the body

	shares     []*memoryShare
	shareArray [5]*memoryShare // backs shares
	bytes      int64
	isLarge    bool

	progressAt     time.Time    // when the last progressStep bytes were complete
	progressBytes  int64        // received at progressAt
	next, previous *reservation // in the ring of memory; nil if the body is not being read
	stopReason     Outcome      // OutcomeEvicted, OutcomeTooSlow or, if not stopped, ""
	interrupted    chan struct{}
}

var _ chunks.Account = (*reservation)(nil)

// reservationPool reuses reservations. A pooled reservation is the zero value.
var reservationPool = sync.Pool{New: func() any { return &reservation{} }}

// Take implements chunks.Account: it reserves n more bytes and evicts other requests if
// that is needed. It returns errShed if there is no space, or if r was stopped.
func (r *reservation) Take(n int) error {
	if n == 0 {
		return nil
	}
	m := r.memory
	m.mu.Lock()
	if r.stopReason != "" {
		m.mu.Unlock()
		return errShed
	}
	r.addLocked(int64(n))
	var err error
	var evicted []*reservation
	for s := m.exceededShareLocked(r); s != nil; s = m.exceededShareLocked(r) {
		v := m.evictionCandidateLocked(s, r)
		if v == nil {
			r.addLocked(-int64(n))
			err = errShed
			break
		}
		m.stopLocked(v, OutcomeEvicted)
		evicted = append(evicted, v)
	}
	m.mu.Unlock()
	interruptAll(evicted)
	return err
}

// Return implements chunks.Account: it releases n bytes.
func (r *reservation) Return(n int) {
	if n == 0 {
		return
	}
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	if r.stopReason == "" {
		r.addLocked(-int64(n))
	}
}

func (r *reservation) addLocked(n int64) {
	r.bytes += n
	for _, s := range r.shares {
		s.used += n
	}
}

// markLargeLocked counts the request in the share of large requests, too.
func (r *reservation) markLargeLocked() {
	large := &r.memory.large
	r.isLarge, r.shares = true, append(r.shares, large)
	large.requests++
	large.used += r.bytes
}

// Read implements io.Reader: it reads the body of the request and records the progress.
func (r *reservation) Read(b []byte) (int, error) {
	n, err := r.body.Read(b)
	r.recordProgress(n)
	return n, err
}

// interrupt ends the pending Read of the body and all later ones at once. The servers of
// net/http support this for every version of HTTP.
func (r *reservation) interrupt() {
	_ = http.NewResponseController(r.writer).SetReadDeadline(time.Unix(1, 0))
}

func (r *reservation) recordProgress(n int) {
	received := r.received.Add(int64(n))
	if received < r.progressBytes+progressStep {
		return
	}
	m := r.memory
	now := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.stopReason != "" {
		return
	}
	if !r.isLarge && received > smallBody {
		r.markLargeLocked()
	}
	r.progressBytes, r.progressAt = received, now
	m.removeLocked(r)
	m.appendLocked(r)
}

// finishReading ends the reading of the body. Afterwards the request cannot be stopped. If
// it was stopped before, finishReading returns the reason, else "".
func (r *reservation) finishReading() Outcome {
	m := r.memory
	m.mu.Lock()
	stopReason := r.stopReason
	if stopReason == "" && r.next != nil {
		m.removeLocked(r)
	}
	m.mu.Unlock()
	if stopReason != "" {
		<-r.interrupted // afterwards no other goroutine uses the connection
	}
	return stopReason
}

// release ends the reservation. It must not be used afterwards.
func (r *reservation) release() {
	m := r.memory
	m.mu.Lock()
	wasStopped := r.stopReason != ""
	if !wasStopped {
		r.releaseLocked()
	}
	m.mu.Unlock()
	if !wasStopped { // a stopped one may still be in use by interruptAll
		*r = reservation{}
		reservationPool.Put(r)
	}
}

func (r *reservation) releaseLocked() {
	m := r.memory
	if r.next != nil {
		m.removeLocked(r)
	}
	r.addLocked(-r.bytes)
	for _, s := range r.shares {
		s.requests--
	}
}

// isTooSlow reports whether fewer bytes of the body have arrived than the minimum rate
// requires since the end of the grace period.
func (r *reservation) isTooSlow(now time.Time) bool {
	counted := now.Sub(r.startedAt) - r.memory.grace
	return counted > 0 && float64(r.received.Load()) < counted.Seconds()*float64(r.memory.minRate)
}
