package outbound

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/batch"
	"github.com/eventhook/eventhook/internal/cpushare"
	"github.com/eventhook/eventhook/internal/meter"
	"github.com/eventhook/eventhook/internal/roundrobin"
	"github.com/eventhook/eventhook/outbound/match"
)

// PublishStore stores events with their deliveries, in one transaction. When it
// returns nil, each of the batch is one of these: IsStale, and nothing of it was
// stored; or its event is an EventDuplicate, of which nothing was stored, with
// DuplicateOf and the Count of the first's deliveries; or its event's Status is
// empty as before, since the database refused that one; or it is stored, and its
// event EventDelivered. On an error none counts as stored; it is of
// KindUnavailable when the database is down. Deliveries with a lease are stored
// as acquired under it, the others as due now.
type PublishStore interface {
	Publish(ctx context.Context, batch []*PublishItem) error
}

// PublishObserver hears of each commit.
type PublishObserver interface {
	Published(events, deliveries int, took time.Duration, err error)
}

// PublisherDeps are what a publisher works with.
type PublisherDeps struct {
	Subscriptions *match.SubscriptionCache
	Catalogue     *match.Catalogue  // may be nil
	Shares        *cpushare.Limiter // of each tenant, of the time for its filters and schemas
	Store         PublishStore
	Dispatcher    LocalDispatcher
	Observer      PublishObserver
	Log           *slog.Logger
	Now           func() time.Time
}

// Publisher stores the events that tenants publish, with their deliveries. It
// is a group commit: what is published while a commit runs shares the next one.
// What waits is bounded by rows and bytes; one event always may, however many
// get it. Of the events that are for many, those of a tenant wait for each other,
// so that other tenants wait for one of them at most.
type Publisher struct {
	PublisherDeps
	timeout time.Duration
	commits *batch.Committer[[]*publication]
	bounds  batch.Bounds
	many    int // rows that make a good batch of their own
	lines   *roundrobin.Queues[eventhook.TenantID, struct{}]
}

// publication is an event on its way into the store.
type publication struct {
	PublishItem
	to      addressees
	outcome *PublishOutcome
}

// Errors of Publish.
var (
	errPublishShed     = &eventhook.Error{Kind: eventhook.KindUnavailable, Message: "too many events are waiting to be stored; publish it again later", RetryAfter: time.Second}
	errPublishStopping = &eventhook.Error{Kind: eventhook.KindUnavailable, Message: "this instance is stopping; publish it again", RetryAfter: time.Second}
	errUnsettled       = &eventhook.Error{Kind: eventhook.KindUnavailable, Message: "the tenant's subscriptions change too fast; publish it again later", RetryAfter: time.Second}
	errStoreDown       = &eventhook.Error{Kind: eventhook.KindUnavailable, Message: "the event could not be stored; publish it again later", RetryAfter: time.Second}
	errTooMuchMatching = &eventhook.Error{Kind: eventhook.KindInvalid, Message: match.TooManySteps}
	errNotPublished    = errors.New("the event could not be stored")
	errPublishRefused  = errors.New("the database refused the event")
)

// NewPublisher makes a publisher; Run starts it.
func NewPublisher(config PublishConfig, deps PublisherDeps) *Publisher {
	p := &Publisher{PublisherDeps: deps, timeout: config.CommitTimeout, many: config.OverlapRows, lines: roundrobin.NewQueues[eventhook.TenantID, struct{}](1)}
	p.bounds = batch.Bounds{
		Writers: config.Writers, BatchRows: config.BatchRows, BatchBytes: config.BatchBytes, OverlapRows: config.OverlapRows,
		QueueRows: config.QueueRows, QueueBytes: config.QueueBytes,
	}
	p.commits = batch.New(p.bounds, p.commit)
	return p
}

// Run commits batches until ctx ends, then what still waits, and refuses what
// comes after. Stop the HTTP server first: nobody is left waiting.
func (p *Publisher) Run(ctx context.Context) error { return p.commits.Run(ctx) }

// Waiting is how many calls wait for a commit or are being committed; one call may
// wait with several events.
func (p *Publisher) Waiting() int { return p.commits.Waiting() }

// mostMatches is how often an event is matched when the subscriptions change
// meanwhile.
const mostMatches = 10

// mostInLine is how many events for many a tenant may have waiting.
const mostInLine = 64

// Publish waits until an event of a tenant's is on disk, with a delivery for
// each subscription that wants it, or known not to be. Of the event its tenant,
// type, body, which is the data, and envelope are given, and what else the
// caller knows; the rest it fills in. When its key was seen before, the Status
// is EventDuplicate and DuplicateOf the first's id. The error is of
// KindUnavailable when the event was not stored and should be sent again later;
// of KindRateLimited when the tenant's share of time for filters is used up; of
// KindInvalid when the filters take too many steps for this event; it is ctx's
// when that ended before the event was tried. The event must not be
// changed afterwards, and of the deliveries only Count is for the caller.
func (p *Publisher) Publish(ctx context.Context, e *eventhook.Event) (*PublishItem, error) {
	outcome := p.PublishBatch(ctx, e.TenantID, []*eventhook.Event{e})[0]
	if outcome.Err != nil {
		return nil, outcome.Err
	}
	return outcome.PublishItem, nil
}

// PublishOutcome is the outcome of publishing an event: an error of Publish, or
// the event as it was stored.
type PublishOutcome struct {
	*PublishItem
	Err error
}

// match finds the subscriptions that get an event.
func (p *Publisher) match(ctx context.Context, roster *match.Matcher, e *eventhook.Event) (matched []*eventhook.Subscription, err error) {
	var tooSlow []*eventhook.Subscription
	err = p.Shares.Evaluate(ctx, e.TenantID, cpushare.Subscriptions, func(m *meter.Meter) { matched, tooSlow = roster.Match(m, e) })
	if errors.Is(err, meter.ErrLimit) {
		return nil, errTooMuchMatching
	}
	if err == nil {
		match.LogTooSlow(p.Log, p.Shares, e, tooSlow)
	}
	return matched, err
}

// complete fills in what every published event has.
func (p *Publisher) complete(ctx context.Context, e *eventhook.Event) error {
	if e.ID.IsZero() {
		e.ID = eventhook.NewID[eventhook.Event](p.Now())
	}
	if e.Origin == "" {
		e.Origin = eventhook.OriginAPI
	}
	if e.TraceID == "" {
		e.TraceID = eventhook.NewTraceID()
	}
	if len(e.Headers) == 0 {
		e.Headers = []byte("Content-Type: application/json")
	}
	e.ContentType, e.BodySize = "application/json", len(e.Body)
	envelope := eventhook.Envelope{}
	if e.Envelope != nil {
		envelope = *e.Envelope
	}
	var category string
	err := p.Shares.Evaluate(ctx, e.TenantID, cpushare.Schemas, func(m *meter.Meter) { category, _ = p.Catalogue.Check(ctx, m, e) })
	if errors.Is(err, meter.ErrLimit) { // a catalogue refuses nothing
		p.Catalogue.Unchecked(e)
	} else if err != nil {
		return err
	}
	if envelope.Category == "" {
		envelope.Category = category
	}
	e.Envelope = &envelope
	return nil
}

// commit stores batches in one transaction, whatever becomes of the requests that
// wait for it.
func (p *Publisher) commit(groups [][]*publication) error {
	ctx, cancel := context.WithTimeout(context.Background(), p.timeout)
	defer cancel()
	began, rows, list := p.Now(), 0, make([]*PublishItem, 0, len(groups))
	for _, group := range groups {
		for _, x := range group {
			x.to.reserve(p.Dispatcher)
			list = append(list, &x.PublishItem)
			rows += len(x.Deliveries)
		}
	}
	err := p.Store.Publish(ctx, list)
	p.Observer.Published(len(list), rows, p.Now().Sub(began), err)
	if err != nil {
		p.Log.Error("a batch of events could not be stored; their publishers are told", "events", len(list), "error", err)
		for _, group := range groups {
			for _, x := range group {
				x.to.release(p.Dispatcher)
			}
		}
		if eventhook.KindOf(err) == eventhook.KindUnavailable {
			return errStoreDown
		}
		return errNotPublished
	}
	p.handOver(groups)
	return nil
}

// handOver passes on the deliveries of events that were stored.
func (p *Publisher) handOver(groups [][]*publication) {
	stored := make([]addressees, 0, len(groups))
	for _, group := range groups {
		for _, x := range group {
			if x.IsStale || x.Event.Status != eventhook.EventDelivered {
				x.to.release(p.Dispatcher)
				continue
			}
			x.Count = len(x.Deliveries)
			stored = append(stored, x.to)
		}
	}
	handOver(p.Dispatcher, stored, nil)
}
