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
)

// Store keeps accepted events, and the effects of their plans. When Accept returns nil
// each event of the batch has its Status: EventDuplicate if its source had seen its
// key, empty if the database refused that one event, else stored. A plan that is
// IsStale or was set to nil was not stored, and its event is to be planned again. On an
// error none counts as stored.
type Store interface {
	Accept(ctx context.Context, batch []*effects.Arrival) error
}

// Handoff is this instance's processor of events.
//
// PlanArrival plans an event before it is stored, or returns nil if the processor is to
// plan it. It waits for nothing. Planned hears how each event of a batch was stored;
// plans are those that PlanArrival has made, in the order of the batch.
//
// The processor takes the events that are stored without a plan. Reserve grants room
// for some of n; each granted place is then Put to or Released. EventsLeft hears that
// events were stored that no processor here takes. Once Put, an event is read on both
// sides and must not be changed.
type Handoff interface {
	PlanArrival(e *eventhook.Event) *effects.Settlement
	Planned(batch []*effects.Arrival, plans []*effects.Settlement)
	Reserve(n int) int
	Release(n int)
	Put(events []*eventhook.Event)
	EventsLeft()
}

// BatchObserver hears of each commit.
type BatchObserver interface {
	Committed(events int, took time.Duration, err error)
}

// largeEvent is the size in bytes from which events are committed apart, by a
// writer of their own: a body of megabytes takes PostgreSQL a part of a second, for
// which small events must not wait.
const largeEvent = 256 << 10

// effectsPerEvent is how many rows of effects count as one more event of a batch. So a
// batch of BatchEvents has at most about eight times as many rows of effects, and
// events with few effects still share a commit with as many as events without.
const effectsPerEvent = 8

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
	commits  *batch.Committer[*effects.Arrival]
	large    *batch.Committer[*effects.Arrival] // of events over largeEvent
	timeout  time.Duration
	lease    time.Duration
	store    Store
	handoff  Handoff
	observer BatchObserver
	log      *slog.Logger
	faults   *rate.Limiter // of log lines about failed commits; the metrics count all
	now      func() time.Time
}

// NewBatcher makes a batcher; Run starts it.
func NewBatcher(config Config, lease time.Duration, store Store, handoff Handoff, observer BatchObserver, log *slog.Logger, now func() time.Time) *Batcher {
	b := &Batcher{timeout: config.CommitTimeout, lease: lease, store: store, handoff: handoff, observer: observer, log: log, now: now,
		faults: rate.NewLimiter(linesPerSecond, linesAtOnce)}
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

// Accept waits until e is on disk, or known not to be. It returns nil when it
// is stored or marked as a duplicate, a KindUnavailable error when it was not
// even tried, and any other error when storing failed.
func (b *Batcher) Accept(e *eventhook.Event) error {
	commits, size := b.commits, len(e.Body)+len(e.Headers)
	a, rows := &effects.Arrival{Event: e}, 1
	if size > largeEvent {
		commits = b.large
	} else if a.Plan = b.handoff.PlanArrival(e); a.Plan != nil {
		rows, size = rows+a.Plan.Rows()/effectsPerEvent, size+a.Plan.EffectBytes
	}
	switch err := commits.Do(a, rows, size); {
	case err == batch.ErrFull: //nolint:errorlint // as it is
		return errShed
	case err == batch.ErrStopping: //nolint:errorlint // as it is
		return errStopping
	case err == nil && e.Status == "":
		return errOneRefused
	default:
		return err
	}
}

// Waiting is how many events wait for a commit or are being committed.
func (b *Batcher) Waiting() int { return b.commits.Waiting() + b.large.Waiting() }

// Run commits batches until ctx ends, then what still waits, and refuses
// what comes after. Stop the HTTP server first: nobody is left waiting.
func (b *Batcher) Run(ctx context.Context) error {
	var large sync.WaitGroup
	large.Go(func() { _ = b.large.Run(ctx) }) // its error is always nil
	defer large.Wait()
	return b.commits.Run(ctx)
}

// commit stores a batch whatever becomes of the requests that wait for it.
func (b *Batcher) commit(arrivals []*effects.Arrival) error {
	ctx, cancel := context.WithTimeout(context.Background(), b.timeout)
	defer cancel()
	began := b.now()
	granted := b.handoff.Reserve(len(arrivals))
	for _, a := range arrivals[:granted] {
		a.Event.Lease.Until = began.Add(b.lease)
	}
	plans := make([]*effects.Settlement, len(arrivals))
	for i, a := range arrivals {
		plans[i] = a.Plan
	}
	err := b.store.Accept(ctx, arrivals)
	b.observer.Committed(len(arrivals), b.now().Sub(began), err)
	if err != nil {
		if b.faults.AllowN(b.now(), 1) {
			b.log.Error("a batch of webhooks could not be stored; its senders are told 500", "events", len(arrivals), "error", err)
		}
		b.handoff.Release(granted)
		return errNotStored
	}
	b.handoff.Planned(arrivals, plans)
	b.handOver(arrivals, granted)
	return nil
}

// handOver passes the events that are leased to this instance to its processor.
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
