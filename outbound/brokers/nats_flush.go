package brokers

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// natsFlusher tells when a server has read the messages that a connection has published. Calls at the same time share
// the ping that asks the server. It is safe for concurrent use.
type natsFlusher struct {
	conn *nats.Conn

	mu        sync.Mutex
	next      *flushRound // its ping is not sent yet; nil without a caller that waits for it
	isRunning bool
}

// flushRound is one ping for the messages that were published before.
type flushRound struct {
	answered chan struct{}
	err      error // valid when answered is closed
}

// maxFlush is how long a ping waits for its answer: the longest timeout of a target.
const maxFlush = time.Minute

// flush returns when the server has read all messages that were published before the call, or the error of the
// connection or of ctx.
func (f *natsFlusher) flush(ctx context.Context) error {
	round := f.join()
	select {
	case <-round.answered:
		return round.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// join returns the next round.
func (f *natsFlusher) join() *flushRound {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next == nil {
		f.next = &flushRound{answered: make(chan struct{})}
	}
	if !f.isRunning {
		f.isRunning = true
		go f.run()
	}
	return f.next
}

// run sends pings, one after another, while callers wait. It ends soon after the connection is closed.
func (f *natsFlusher) run() {
	for round := f.begin(); round != nil; round = f.begin() {
		round.err = f.conn.FlushTimeout(maxFlush)
		close(round.answered)
	}
}

// begin returns the round whose ping is sent now, nil if no caller waits for one.
func (f *natsFlusher) begin() *flushRound {
	f.mu.Lock()
	defer f.mu.Unlock()
	round := f.next
	f.next, f.isRunning = nil, round != nil
	return round
}
