package ingest

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/batch"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/internal/panics"
)

// Store stores accepted events and the effects of their plans in one transaction. If Accept
// returns nil, it has set the Status of each event: EventDuplicate if its source had the
// same key before, empty if the database refused this event alone, otherwise the status of a
// stored event. A plan that Accept marked IsStale or refused was not stored; its event
// must be planned again. If Accept returns an error, no event counts as stored.
type Store interface {
	Accept(ctx context.Context, batch []*effects.Arrival) error
}

// Handoff is the processor of events on this instance.
//
// PlanArrival plans an event before it is stored. It returns nil if the processor must plan
// the event later. It does not block. Planned is called after a batch was stored.
//
// The processor also takes the events that were stored without a plan. Reserve reserves up
// to n slots for them and returns their number; each reserved slot must be used by Put or
// returned by Release. After Put, both sides read the event and must not change it.
// EventsLeft is called if events were stored for which no slot was free.
type Handoff interface {
	PlanArrival(e *eventhook.Event) *effects.Settlement
	Planned(batch []*effects.Arrival)
	Reserve(n int) int
	Release(n int)
	Put(events []*eventhook.Event)
	EventsLeft()
}

// BatchObserver is notified of each commit.
type BatchObserver interface {
	Committed(batch []*effects.Arrival, took time.Duration, err error)
}

// largeEvent is the size in bytes above which events are committed separately, by their
// own writer. PostgreSQL needs a considerable part of a second for a body of megabytes, and
// small events must not wait for that.
const largeEvent = 256 << 10

// effectsPerEvent is how many rows of effects count as one more event of a batch. So a batch
// has at most about effectsPerEvent * BatchEvents rows of effects, and events with few
// effects do not make a batch smaller.
const effectsPerEvent = 8

// Errors of Batcher.Accept.
var (
	errShed         = &eventhook.Error{Kind: eventhook.KindUnavailable, Message: "too many webhooks are waiting to be stored; send it again later", RetryAfter: time.Second}
	errStopping     = &eventhook.Error{Kind: eventhook.KindUnavailable, Message: "this instance is stopping; send it again", RetryAfter: time.Second}
	errEventRefused = errors.New("the database refused the event")
)

// notStoredError means that the database failed. It has no kind, and its text no cause, since its
// text may be shown to senders.
type notStoredError struct{ cause error }

func (e *notStoredError) Error() string { return "the event could not be stored" }

// Batcher stores events by group commit: events that arrive while a commit runs share the
// next one. Its queue is bounded by events and bytes, but an empty queue takes an event of
// any size. Batcher is safe for concurrent use.
type Batcher struct {
	commits  *batch.Committer[*effects.Arrival]
	large    *batch.Committer[*effects.Arrival] // for events over largeEvent
	timeout  time.Duration
	lease    time.Duration
	store    Store
	handoff  Handoff
	observer BatchObserver
	log      *slog.Logger
	logLimit *rate.Limiter // of log lines about failed commits; metrics count all of them
	now      func() time.Time
}

// NewBatcher returns a Batcher. Run starts it. lease is how long the processor of this
// instance has the exclusive right to process an event.
func NewBatcher(config Config, lease time.Duration, store Store, handoff Handoff, observer BatchObserver, log *slog.Logger, now func() time.Time) *Batcher {
	b := &Batcher{timeout: config.CommitTimeout, lease: lease, store: store, handoff: handoff, observer: observer, log: log, now: now,
		logLimit: newLogLimiter()}
	b.commits = batch.New(batch.Bounds{
		Writers: config.Writers, BatchRows: config.BatchEvents, BatchBytes: config.BatchBytes, OverlapRows: config.OverlapEvents,
		QueueRows: config.QueueEvents, QueueBytes: config.QueueBytes,
	}, b.commit)
	b.large = batch.New(batch.Bounds{
		Writers: 1, BatchRows: config.BatchEvents, BatchBytes: config.BatchBytes, OverlapRows: 1,
		QueueRows: config.QueueEvents, QueueBytes: config.QueueBytes,
	}, b.commit)
	return b
}

// Accept stores an event and waits for its commit. It returns nil if the event is on disk,
// as a duplicate or not; an error of KindUnavailable if the queue is full or the
// Batcher is stopping, so that storing was not attempted; or another error if storing failed.
func (b *Batcher) Accept(e *eventhook.Event) error {
	commits, size := b.commits, len(e.Body)+len(e.Headers)
	a, rows := &effects.Arrival{Event: e}, 1
	if size > largeEvent {
		commits = b.large
	} else if a.Plan = b.handoff.PlanArrival(e); a.Plan != nil {
		rows, size = rows+a.Plan.Rows()/effectsPerEvent, size+a.Plan.EffectBytes
	}
	switch err := commits.Do(a, rows, size); {
	case err == batch.ErrFull: //nolint:errorlint // never wrapped
		return errShed
	case err == batch.ErrStopping: //nolint:errorlint // never wrapped
		return errStopping
	case err == nil && e.Status == "":
		return errEventRefused
	default:
		return err
	}
}

// Store stores events that a log has delivered, in one commit, and passes them to the processor as
// Accept does. If it returns nil, each event has its Status; an empty one means that the database
// refused this event alone. The caller bounds the events and their bytes.
func (b *Batcher) Store(events []*eventhook.Event) error {
	arrivals := make([]*effects.Arrival, len(events))
	for i, e := range events {
		arrivals[i] = &effects.Arrival{Event: e}
		if len(e.Body)+len(e.Headers) <= largeEvent {
			arrivals[i].Plan = b.handoff.PlanArrival(e)
		}
	}
	return b.commit(arrivals)
}

// Waiting returns the number of events that are queued or being committed.
func (b *Batcher) Waiting() int { return b.commits.Waiting() + b.large.Waiting() }

// Run commits batches until ctx ends, then commits the rest of the queue. Later calls of
// Accept return an error of KindUnavailable. Stop the HTTP server before ctx ends, so that
// no sender gets that error. Call Run once.
func (b *Batcher) Run(ctx context.Context) error {
	var large sync.WaitGroup
	large.Go(panics.Guarded(func() { _ = b.large.Run(ctx) })) // its error is always nil
	defer large.Wait()
	return b.commits.Run(ctx)
}

// commit stores a batch. The end of a waiting request does not cancel it.
func (b *Batcher) commit(arrivals []*effects.Arrival) error {
	ctx, cancel := context.WithTimeout(context.Background(), b.timeout)
	defer cancel()
	began := b.now()
	granted := b.handoff.Reserve(len(arrivals))
	for i, a := range arrivals {
		a.Event.Lease = eventhook.Lease{} // a former attempt may have left one
		if i < granted {
			a.Event.Lease.Until = began.Add(b.lease)
		}
	}
	err := b.store.Accept(ctx, arrivals)
	b.observer.Committed(arrivals, b.now().Sub(began), err)
	if err != nil {
		if b.logLimit.AllowN(b.now(), 1) {
			b.log.Error("a batch of webhooks could not be stored", "events", len(arrivals), "error", err)
		}
		b.handoff.Release(granted)
		if errors.Is(err, eventhook.ErrNotReady) {
			return err
		}
		return &notStoredError{err}
	}
	b.handoff.Planned(arrivals)
	b.handOver(arrivals, granted)
	return nil
}

// handOver passes the events that this instance has leased to its processor and releases
// the slots that were not needed.
func (b *Batcher) handOver(arrivals []*effects.Arrival, granted int) {
	taken, left := make([]*eventhook.Event, 0, granted), false
	for _, a := range arrivals {
		switch e := a.Event; {
		case a.IsPlanned():
		case e.Status == eventhook.EventProcessing:
			taken = append(taken, e)
		case e.Status == eventhook.EventPending:
			left = true
		}
	}
	b.handoff.Release(granted - len(taken))
	b.handoff.Put(taken)
	if left {
		b.handoff.EventsLeft()
	}
}
