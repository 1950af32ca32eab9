// Package batch implements group commit: items that arrive while a commit runs are
// committed together in the next one, so the cost of an item falls as the load rises.
//
// A Committer queues items in memory, within bounds. It passes each item to the commit
// function once and never retries: after a failed commit every waiting caller gets the
// error of its batch.
package batch

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/eventhook/eventhook/internal/panics"
	"github.com/eventhook/eventhook/internal/wake"
)

// Bounds limits a Committer. The size of an item is a number of rows, usually 1, and a
// number of bytes.
type Bounds struct {
	Writers     int // maximum number of concurrent commits
	BatchRows   int // maximum rows of a commit; a single item may exceed it
	BatchBytes  int // maximum bytes of a commit; a single item may exceed it
	OverlapRows int // minimum rows in the queue for a commit to begin while another one runs
	QueueRows   int // maximum rows in the queue; an empty queue takes an item of any size
	QueueBytes  int // maximum bytes in the queue; an empty queue takes an item of any size
}

// Errors of Do and Add. The item was not passed to the commit function.
var (
	ErrFull     = errors.New("the queue is full")
	ErrStopping = errors.New("the committer is stopping")
)

// Committer commits items in batches, in the order of arrival. It is safe for concurrent
// use.
type Committer[T any] struct {
	bounds Bounds
	commit func(items []T) error

	mu         sync.Mutex
	queue      []*group[T] // oldest first; new items join the last one
	rows       int         // in queue
	bytes      int         // in queue
	committing int         // commits that run
	unfinished int         // items in queue or being committed
	slow       bool        // the commit that began last has run for slowCommit
	closed     bool
	ready      wake.Signal // wakes writers
}

// group is the items of one commit. done is closed when err is set.
type group[T any] struct {
	items []T
	rows  int
	bytes int
	done  chan struct{}
	err   error
}

// New returns a Committer. Run starts it. Up to bounds.Writers goroutines call commit at
// once. commit needs a timeout of its own: Run waits for it.
func New[T any](bounds Bounds, commit func(items []T) error) *Committer[T] {
	return &Committer[T]{bounds: bounds, commit: commit, ready: wake.New(bounds.Writers)}
}

// Do queues an item of the given size, waits until it has been committed and returns the
// error of that commit. It returns ErrFull or ErrStopping at once.
func (c *Committer[T]) Do(item T, rows, bytes int) error {
	g, err := c.enqueue(item, rows, bytes)
	if err != nil {
		return err
	}
	<-g.done
	return g.err
}

// Add queues an item like Do but does not wait; the commit function must handle its own
// errors. Add returns ErrFull or ErrStopping. A caller that limits the number of its items
// elsewhere sets QueueRows and QueueBytes to math.MaxInt.
func (c *Committer[T]) Add(item T, rows, bytes int) error {
	_, err := c.enqueue(item, rows, bytes)
	return err
}

// wakeWriter wakes an idle writer. If Writers wake-ups are pending already, it does nothing,
// because all writers will check the queue.
func (c *Committer[T]) wakeWriter() {
	c.ready.Notify()
}

// enqueue adds an item to the queue and wakes a writer if a commit should begin.
func (c *Committer[T]) enqueue(item T, rows, bytes int) (*group[T], error) {
	g, due, err := c.append(item, rows, bytes)
	if due {
		c.wakeWriter()
	}
	return g, err
}

// append adds an item to the last group of the queue, or to a new group if the item does
// not fit, and reports whether a commit should begin.
func (c *Committer[T]) append(item T, rows, bytes int) (g *group[T], due bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, false, ErrStopping
	}
	if c.rows > 0 && (rows > c.bounds.QueueRows-c.rows || bytes > c.bounds.QueueBytes-c.bytes) {
		return nil, false, ErrFull
	}
	c.unfinished++
	c.rows += rows
	c.bytes += bytes
	if n := len(c.queue); n > 0 {
		if g := c.queue[n-1]; g.rows+rows <= c.bounds.BatchRows && g.bytes+bytes <= c.bounds.BatchBytes {
			g.items = append(g.items, item)
			g.rows += rows
			g.bytes += bytes
			return g, c.dueLocked(), nil
		}
	}
	const usualItems = 64
	g = &group[T]{items: make([]T, 1, usualItems), rows: rows, bytes: bytes, done: make(chan struct{})}
	g.items[0] = item
	c.queue = append(c.queue, g)
	return g, c.dueLocked(), nil
}

// dueLocked reports whether a commit should begin. One commit at a time gives the largest
// batches and so the lowest cost per item. While a commit runs, a further one begins only
// if the queue holds a full batch or OverlapRows rows, or if the running commit is slow: it
// may be waiting for a lock of another instance.
func (c *Committer[T]) dueLocked() bool {
	if len(c.queue) == 0 {
		return false
	}
	isFull := len(c.queue) > 1
	return isFull || c.committing == 0 || c.slow || c.rows >= c.bounds.OverlapRows
}

// slowCommit is the duration after which a running commit no longer delays the next one.
const slowCommit = 25 * time.Millisecond

func (c *Committer[T]) markSlow() {
	c.mu.Lock()
	c.slow = true
	c.mu.Unlock()
	c.wakeWriter()
}

// take removes the oldest group from the queue, or returns nil if no commit is due. The
// caller must commit the group and then call committed.
func (c *Committer[T]) take() *group[T] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.dueLocked() {
		return nil
	}
	c.committing++
	c.slow = false
	g := c.queue[0]
	c.queue[0] = nil
	c.queue = c.queue[1:]
	c.rows -= g.rows
	c.bytes -= g.bytes
	return g
}

func (c *Committer[T]) committed(g *group[T]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.committing--
	c.unfinished -= len(g.items)
}

// Waiting returns the number of items that are queued or being committed.
func (c *Committer[T]) Waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unfinished
}

// Run commits items until ctx ends. It then commits the rest of the queue, so that every
// Do returns, and lets later calls of Do and Add return ErrStopping. Its error is always
// nil. Call Run once.
func (c *Committer[T]) Run(ctx context.Context) error {
	var writers sync.WaitGroup
	for range c.bounds.Writers {
		writers.Go(panics.Guarded(func() { c.write(ctx) }))
	}
	writers.Wait()
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	for g := c.take(); g != nil; g = c.take() {
		c.run(g)
	}
	return nil
}

func (c *Committer[T]) write(ctx context.Context) {
	for {
		if g := c.take(); g != nil {
			c.run(g)
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-c.ready:
		}
	}
}

func (c *Committer[T]) run(g *group[T]) {
	defer close(g.done)
	defer c.committed(g)
	slow := time.AfterFunc(slowCommit, c.markSlow)
	defer slow.Stop()
	g.err = c.commit(g.items)
}
