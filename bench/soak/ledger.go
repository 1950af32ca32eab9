package soak

import (
	"slices"
	"sync"
	"time"
)

// ledger records the events of a run by their number, from 0. It may be used concurrently.
type ledger struct {
	mu       sync.Mutex
	sent     int
	complete int             // events below are accepted, processed and delivered everywhere
	sentAt   []time.Duration // since began
	accepted []bool
	audited  []bool    // seen stored and settled before their day passed
	runs     []uint8   // calls of the handler
	received [][]uint8 // by subscriber: requests answered with success
	first    [][]time.Duration
	began    time.Time

	counts  counts
	windows windows
}

// counts are totals since the start.
type counts struct {
	accepted, runs int
	refused        int // requests that were not accepted, and sent again
	received       []int
}

// windows are the latencies since the last sample.
type windows struct {
	answer  []time.Duration // from the first request of a webhook until it was accepted
	arrival []time.Duration // from there until the first subscriber received the event
}

func newLedger(events, subscribers int) *ledger {
	l := &ledger{
		sentAt: make([]time.Duration, events), accepted: make([]bool, events), audited: make([]bool, events),
		runs: make([]uint8, events), began: time.Now(), counts: counts{received: make([]int, subscribers)},
	}
	for range subscribers {
		l.received = append(l.received, make([]uint8, events))
		l.first = append(l.first, make([]time.Duration, events))
	}
	return l
}

// next returns the number of the next event, or false if the ledger is full.
func (l *ledger) next() (n int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sent == len(l.accepted) {
		return 0, false
	}
	l.sentAt[l.sent] = time.Since(l.began)
	l.sent++
	return l.sent - 1, true
}

func (l *ledger) accept(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.accepted[n] {
		l.accepted[n] = true
		l.counts.accepted++
		l.windows.answer = append(l.windows.answer, time.Since(l.began)-l.sentAt[n])
	}
}

func (l *ledger) refuse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts.refused++
}

// receive records a delivery of event n. An unknown event is ignored: it was not sent by this run.
func (l *ledger) receive(subscriber, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n < 0 || n >= l.sent {
		return
	}
	l.counts.received[subscriber]++
	seen := &l.received[subscriber][n]
	if *seen == 0 {
		l.first[subscriber][n] = time.Since(l.began)
		if subscriber == 0 {
			l.windows.arrival = append(l.windows.arrival, time.Since(l.began)-l.sentAt[n])
		}
	}
	*seen = saturated(*seen)
}

// handle records a call of the worker's handler.
func (l *ledger) handle(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n >= 0 && n < l.sent {
		l.counts.runs++
		l.runs[n] = saturated(l.runs[n])
	}
}

func saturated(n uint8) uint8 { return min(n, 254) + 1 }

// audit records that the events were found stored and settled.
func (l *ledger) audit(numbers []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range numbers {
		if n >= 0 && n < l.sent {
			l.audited[n] = true
		}
	}
}

// watermark returns the number below which all events are accepted, processed and delivered.
func (l *ledger) watermark() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.complete < l.sent && l.isDone(l.complete) {
		l.complete++
	}
	return l.complete
}

func (l *ledger) isDone(n int) bool {
	return l.accepted[n] && l.runs[n] > 0 && !slices.ContainsFunc(l.received, func(of []uint8) bool { return of[n] == 0 })
}

func (l *ledger) isComplete() bool {
	return l.backlog() == 0
}

// backlog returns the number of events from the oldest one that is not done everywhere.
func (l *ledger) backlog() int {
	mark := l.watermark()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent - mark
}

// window returns the totals, and the latencies since the last call.
func (l *ledger) window() (counts, windows) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, w := l.counts, l.windows
	c.received = slices.Clone(c.received)
	l.windows = windows{}
	return c, w
}
