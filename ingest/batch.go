package ingest

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/eventhook/eventhook"
)

// Store keeps accepted events. When Accept returns nil each event of the batch
// has its Status: EventDuplicate if its source had seen its key, empty if the
// database refused that one event, else stored. On an error none counts as
// stored.
type Store interface {
	Accept(ctx context.Context, batch []*eventhook.Event) error
}

// Handoff takes stored events straight to this instance's processor. Reserve
// grants room for some of n; each granted place is then Put to or Released.
// EventsLeft hears that events were stored which nobody here takes. Once Put,
// an event is read on both sides and must not be changed.
type Handoff interface {
	Reserve(n int) int
	Release(n int)
	Put(events []*eventhook.Event)
	EventsLeft()
}

// BatchObserver hears of each commit.
type BatchObserver interface {
	Committed(events int, took time.Duration, err error)
}

// Errors of Batcher.Accept.
var (
	errShed       = &eventhook.Error{Kind: eventhook.KindUnavailable, Message: "too many webhooks are waiting to be stored; send it again later", RetryAfter: time.Second}
	errStopping   = &eventhook.Error{Kind: eventhook.KindUnavailable, Message: "this instance is stopping; send it again", RetryAfter: time.Second}
	errNotStored  = errors.New("the event could not be stored")
	errOneRefused = errors.New("the database refused the event")
)

// Batcher is the group commit: events that arrive while a commit runs share
// the next one. What waits is bounded by number and bytes; one event always
// may, whatever its size.
type Batcher struct {
	config   Config
	lease    time.Duration
	store    Store
	handoff  Handoff
	observer BatchObserver
	log      *slog.Logger
	now      func() time.Time

	mu         sync.Mutex
	open       []*group // the last one still grows
	events     int
	bytes      int
	committing int
	unanswered int  // events that wait or are being committed
	slow       bool // the last commit to begin takes long
	closed     bool
	ready      chan struct{}
}

// group is a batch in the making; done is closed when its outcome is known.
type group struct {
	events []*eventhook.Event
	bytes  int
	done   chan struct{}
	err    error
}

// NewBatcher makes a batcher; Run starts it.
func NewBatcher(config Config, lease time.Duration, store Store, handoff Handoff, observer BatchObserver, log *slog.Logger, now func() time.Time) *Batcher {
	return &Batcher{config: config, lease: lease, store: store, handoff: handoff, observer: observer, log: log, now: now,
		ready: make(chan struct{}, config.Writers)}
}

// Accept waits until e is on disk, or known not to be. It returns nil when it
// is stored or marked as a duplicate, a KindUnavailable error when it was not
// even tried, and any other error when storing failed.
func (b *Batcher) Accept(e *eventhook.Event) error {
	g, due, err := b.join(e)
	if err != nil {
		return err
	}
	if due {
		b.signal()
	}
	<-g.done
	if g.err == nil && e.Status == "" {
		return errOneRefused
	}
	return g.err
}

func (b *Batcher) signal() {
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

// join adds an event to the batch in the making, and reports whether a writer
// should look at it now.
func (b *Batcher) join(e *eventhook.Event) (g *group, due bool, err error) {
	size := len(e.Body) + len(e.Headers)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, false, errStopping
	}
	if b.events >= b.config.QueueEvents || b.events > 0 && b.bytes+size > b.config.QueueBytes {
		return nil, false, errShed
	}
	b.events++
	b.unanswered++
	b.bytes += size
	if n := len(b.open); n > 0 {
		if g := b.open[n-1]; len(g.events) < b.config.BatchEvents && g.bytes+size <= b.config.BatchBytes {
			g.events = append(g.events, e)
			g.bytes += size
			return g, b.dueLocked(), nil
		}
	}
	const usual = 64
	g = &group{events: make([]*eventhook.Event, 1, usual), bytes: size, done: make(chan struct{})}
	g.events[0] = e
	b.open = append(b.open, g)
	return g, b.dueLocked(), nil
}

// dueLocked reports whether a commit should begin. One commit at a time makes
// the largest batches and so the cheapest events; a further one begins beside
// it only when enough is waiting to make a good batch of its own, a batch is
// full, or the commit that runs takes long: it may wait for another instance.
func (b *Batcher) dueLocked() bool {
	return len(b.open) > 1 || len(b.open) > 0 && (b.committing == 0 || b.slow || b.events >= b.config.OverlapEvents)
}

// slowCommit is when a commit no longer makes others wait.
const slowCommit = 25 * time.Millisecond

func (b *Batcher) commitIsSlow() {
	b.mu.Lock()
	b.slow = true
	b.mu.Unlock()
	b.signal()
}

// take removes the oldest group to commit it, nil if none is due. Say
// committed afterwards.
func (b *Batcher) take() *group {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.dueLocked() {
		return nil
	}
	b.committing++
	b.slow = false
	g := b.open[0]
	b.open[0] = nil
	b.open = b.open[1:]
	b.events -= len(g.events)
	b.bytes -= g.bytes
	return g
}

func (b *Batcher) committed(g *group) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.committing--
	b.unanswered -= len(g.events)
}

// Waiting is how many events wait for a commit or are being committed.
func (b *Batcher) Waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.unanswered
}

// Run commits batches until ctx ends, then what still waits, and refuses
// what comes after. Stop the HTTP server first: nobody is left waiting.
func (b *Batcher) Run(ctx context.Context) error {
	var writers sync.WaitGroup
	for range b.config.Writers {
		writers.Go(func() { b.write(ctx) })
	}
	writers.Wait()
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	for g := b.take(); g != nil; g = b.take() {
		b.commit(g)
	}
	return nil
}

func (b *Batcher) write(ctx context.Context) {
	for {
		if g := b.take(); g != nil {
			b.commit(g)
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-b.ready:
		}
	}
}

// commit stores a group whatever becomes of the requests that wait for it.
func (b *Batcher) commit(g *group) {
	defer close(g.done)
	defer b.committed(g)
	slow := time.AfterFunc(slowCommit, b.commitIsSlow)
	defer slow.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), b.config.CommitTimeout)
	defer cancel()
	began := b.now()
	granted := b.handoff.Reserve(len(g.events))
	for _, e := range g.events[:granted] {
		e.Lease.Until = began.Add(b.lease)
	}
	err := b.store.Accept(ctx, g.events)
	b.observer.Committed(len(g.events), b.now().Sub(began), err)
	if err != nil {
		b.log.Error("a batch of webhooks could not be stored; its senders are told 500", "events", len(g.events), "error", err)
		b.handoff.Release(granted)
		g.err = errNotStored
		return
	}
	b.handOver(g.events, granted)
}

func (b *Batcher) handOver(events []*eventhook.Event, granted int) {
	taken := make([]*eventhook.Event, 0, granted)
	for _, e := range events[:granted] {
		if e.Status == eventhook.EventProcessing {
			taken = append(taken, e)
		}
	}
	b.handoff.Release(granted - len(taken))
	b.handoff.Put(taken)
	if granted < len(events) {
		b.handoff.EventsLeft()
	}
}
