// Package batch is group commit: what comes while a commit runs shares the next
// one, so that the more there is to do, the cheaper each is. It knows nothing of
// what is committed, and keeps nothing.
package batch

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/eventhook/eventhook/internal/wake"
)

// Bounds are those of a Committer. Rows are whatever an item costs beside its
// bytes; most items have one.
type Bounds struct {
	Writers     int // commits at once
	BatchRows   int // of one commit, at most; one item alone may have more
	BatchBytes  int // and their bytes
	OverlapRows int // so many must wait for a commit to begin beside another
	QueueRows   int // that wait for a commit; one item always may
	QueueBytes  int // and their bytes
}

// Errors of Do and Add: the item was not even tried.
var (
	ErrFull     = errors.New("too much is waiting")
	ErrStopping = errors.New("it is stopping")
)

// Committer commits items in batches, in the order in which they came. What
// waits is bounded by rows and bytes; one item always may, whatever its size.
type Committer[T any] struct {
	bounds Bounds
	commit func(items []T) error

	mu         sync.Mutex
	open       []*group[T] // the last one still grows
	rows       int         // of what waits
	bytes      int
	committing int
	unanswered int  // items that wait or are being committed
	slow       bool // the last commit to begin takes long
	closed     bool
	ready      wake.Signal
}

// group is a batch in the making; done is closed when its outcome is known.
type group[T any] struct {
	items []T
	rows  int
	bytes int
	done  chan struct{}
	err   error
}

// New makes a committer over commit, which several writers call at once and
// which must end in time; Run starts it.
func New[T any](bounds Bounds, commit func(items []T) error) *Committer[T] {
	return &Committer[T]{bounds: bounds, commit: commit, ready: wake.New(bounds.Writers)}
}

// Do waits until an item was committed and returns the error of that commit,
// or ErrFull or ErrStopping at once.
func (c *Committer[T]) Do(item T, rows, bytes int) error {
	g, err := c.join(item, rows, bytes)
	if err != nil {
		return err
	}
	<-g.done
	return g.err
}

// Add is Do without the wait: commit handles its errors itself. Add returns ErrFull or
// ErrStopping; a caller that bounds its items otherwise sets QueueRows and QueueBytes to
// math.MaxInt.
func (c *Committer[T]) Add(item T, rows, bytes int) error {
	_, err := c.join(item, rows, bytes)
	return err
}

// join adds an item to the batch in the making, and wakes a writer if a commit should
// begin.
func (c *Committer[T]) join(item T, rows, bytes int) (*group[T], error) {
	g, due, err := c.append(item, rows, bytes)
	if due {
		c.ready.Notify()
	}
	return g, err
}

// append adds an item to the batch in the making, and reports whether a writer should
// look at it now.
func (c *Committer[T]) append(item T, rows, bytes int) (g *group[T], due bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, false, ErrStopping
	}
	if c.rows > 0 && (rows > c.bounds.QueueRows-c.rows || bytes > c.bounds.QueueBytes-c.bytes) {
		return nil, false, ErrFull
	}
	c.unanswered++
	c.rows += rows
	c.bytes += bytes
	if n := len(c.open); n > 0 {
		if g := c.open[n-1]; g.rows+rows <= c.bounds.BatchRows && g.bytes+bytes <= c.bounds.BatchBytes {
			g.items = append(g.items, item)
			g.rows += rows
			g.bytes += bytes
			return g, c.dueLocked(), nil
		}
	}
	const usual = 64
	g = &group[T]{items: make([]T, 1, usual), rows: rows, bytes: bytes, done: make(chan struct{})}
	g.items[0] = item
	c.open = append(c.open, g)
	return g, c.dueLocked(), nil
}

// dueLocked reports whether a commit should begin. One commit at a time makes
// the largest batches and so the cheapest items; a further one begins beside it
// only when enough is waiting to make a good batch of its own, a batch is full,
// or the commit that runs takes long: it may wait for another instance.
func (c *Committer[T]) dueLocked() bool {
	return len(c.open) > 1 || len(c.open) > 0 && (c.committing == 0 || c.slow || c.rows >= c.bounds.OverlapRows)
}

// slowCommit is when a commit no longer makes others wait.
const slowCommit = 25 * time.Millisecond

func (c *Committer[T]) commitIsSlow() {
	c.mu.Lock()
	c.slow = true
	c.mu.Unlock()
	c.ready.Notify()
}

// take removes the oldest group to commit it, nil if none is due. Say
// committed afterwards.
func (c *Committer[T]) take() *group[T] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.dueLocked() {
		return nil
	}
	c.committing++
	c.slow = false
	g := c.open[0]
	c.open[0] = nil
	c.open = c.open[1:]
	c.rows -= g.rows
	c.bytes -= g.bytes
	return g
}

func (c *Committer[T]) committed(g *group[T]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.committing--
	c.unanswered -= len(g.items)
}

// Waiting is how many items wait for a commit or are being committed.
func (c *Committer[T]) Waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unanswered
}

// Run commits until ctx ends, then what still waits, and refuses what comes
// after. Nobody is left waiting.
func (c *Committer[T]) Run(ctx context.Context) error {
	var writers sync.WaitGroup
	for range c.bounds.Writers {
		writers.Go(func() { c.write(ctx) })
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
	slow := time.AfterFunc(slowCommit, c.commitIsSlow)
	defer slow.Stop()
	g.err = c.commit(g.items)
}
