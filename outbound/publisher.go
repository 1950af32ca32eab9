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

// PublishStore stores published events.
type PublishStore interface {
	// Publish stores events with their deliveries in one transaction. Deliveries with a
	// lease are stored as acquired, and all other deliveries as due now. If the error is
	// nil, each item has one of these results:
	//
	//   - stored: the event's Status is EventDelivered.
	//   - not stored, because IsStale is set now.
	//   - not stored, because the key exists: the event's Status is EventDuplicate,
	//     DuplicateOf is the first event, and Count the number of its deliveries.
	//   - not stored, because the database refused this event: Status is empty.
	//
	// On an error no item counts as stored. The error is of KindUnavailable if the
	// database is down.
	Publish(ctx context.Context, batch []*PublishItem) error
}

// PublishObserver counts commits.
type PublishObserver interface {
	Published(events, deliveries int, took time.Duration, err error)
}

// PublisherDeps are the dependencies of a Publisher.
type PublisherDeps struct {
	Subscriptions *match.SubscriptionCache
	Catalogue     *match.Catalogue  // may be nil
	CPULimiter    *cpushare.Limiter // limits the time of each tenant for filters and schemas
	Store         PublishStore
	Dispatcher    LocalDispatcher
	Observer      PublishObserver
	Log           *slog.Logger
	Now           func() time.Time
}

// Publisher stores the events that tenants publish, with their deliveries. Events that are
// published while a commit runs share the next commit. The queue is bounded by rows and
// bytes, but an empty queue takes an event of any size. The large calls of one tenant are
// stored one after the other, so that other tenants wait for at most one of them. Safe for
// concurrent use.
type Publisher struct {
	PublisherDeps
	timeout time.Duration
	commits *batch.Committer[[]*queuedItem]
	bounds  batch.Bounds
	large   int // a call is large if it stores at least this many rows besides its first event
	queues  *roundrobin.Queues[eventhook.TenantID, struct{}]
}

// queuedItem is an event that waits to be stored.
type queuedItem struct {
	PublishItem
	matched eventDeliveries
	outcome *PublishOutcome
}

// Errors of Publish.
var (
	errPublishQueueFull = &eventhook.Error{Kind: eventhook.KindUnavailable, Message: "too many events are waiting to be stored; publish the event again later", RetryAfter: time.Second}
	errPublishStopping  = &eventhook.Error{Kind: eventhook.KindUnavailable, Message: "this instance is stopping; publish the event again", RetryAfter: time.Second}
	errPublishUnstable  = &eventhook.Error{Kind: eventhook.KindUnavailable, Message: "the tenant's subscriptions change too fast; publish the event again later", RetryAfter: time.Second}
	errStoreDown        = &eventhook.Error{Kind: eventhook.KindUnavailable, Message: "the event could not be stored; publish the event again later", RetryAfter: time.Second}
	errTooMuchMatching  = &eventhook.Error{Kind: eventhook.KindInvalid, Message: match.TooManySteps}
	errNotPublished     = errors.New("the event could not be stored")
	errPublishRefused   = errors.New("the database refused the event")
)

// NewPublisher returns a publisher. Run starts it.
func NewPublisher(config PublishConfig, deps PublisherDeps) *Publisher {
	p := &Publisher{PublisherDeps: deps, timeout: config.CommitTimeout, large: config.OverlapRows, queues: roundrobin.NewQueues[eventhook.TenantID, struct{}](1)}
	p.bounds = batch.Bounds{
		Writers: config.Writers, BatchRows: config.BatchRows, BatchBytes: config.BatchBytes, OverlapRows: config.OverlapRows,
		QueueRows: config.QueueRows, QueueBytes: config.QueueBytes,
	}
	p.commits = batch.New(p.bounds, p.commit)
	return p
}

// Run commits batches until ctx ends. Then it commits the events in the queue and returns,
// and Publish refuses new events. The caller stops the HTTP server first, so that no
// request is refused.
func (p *Publisher) Run(ctx context.Context) error { return p.commits.Run(ctx) }

// Waiting returns how many groups of events wait for a commit or are being committed.
func (p *Publisher) Waiting() int { return p.commits.Waiting() }

// maxMatches is how often an event is matched while the subscriptions keep changing.
const maxMatches = 10

// maxLargeCalls is how many large calls a tenant may have waiting.
const maxLargeCalls = 64

// Publish stores an event with a delivery for each subscription that matches it, and
// returns after the commit. The caller sets at least the tenant, the type, the body, which
// is the data, and the envelope. Publish sets the remaining fields. If the idempotency key
// exists, the event's Status is EventDuplicate and DuplicateOf the id of the first event.
//
// The error is of KindUnavailable if the event was not stored and should be published
// again later, of KindRateLimited if the tenant has used up its time for filters, and of
// KindInvalid if the filters take too many steps for this event. It is the error of ctx if
// ctx ended before the event was queued.
//
// The event must not be changed afterwards. Of the deliveries, callers may use only Count.
func (p *Publisher) Publish(ctx context.Context, e *eventhook.Event) (*PublishItem, error) {
	outcome := p.PublishBatch(ctx, e.TenantID, []*eventhook.Event{e})[0]
	if outcome.Err != nil {
		return nil, outcome.Err
	}
	return outcome.PublishItem, nil
}

// PublishOutcome is the result of publishing one event: the stored event, or an error of
// Publish.
type PublishOutcome struct {
	*PublishItem
	Err error
}

// match returns the subscriptions that receive an event, with the keys that order their
// deliveries. Its errors are errors of Publish.
func (p *Publisher) match(ctx context.Context, matcher *match.Matcher,
	e *eventhook.Event) (matched []*eventhook.Subscription, keys []eventhook.OrderKey, err error) {
	var tooSlow []*eventhook.Subscription
	err = p.CPULimiter.Evaluate(ctx, e.TenantID, cpushare.Subscriptions, func(m *meter.Meter) {
		matched, tooSlow = matcher.Match(m, e)
		keys = match.OrderKeys(m, e, matched)
	})
	if errors.Is(err, meter.ErrLimit) {
		return nil, nil, errTooMuchMatching
	}
	if err == nil {
		match.LogTooSlow(p.Log, p.CPULimiter, e, tooSlow)
	}
	return matched, keys, err
}

// complete sets the fields of an event that its caller left empty, and checks the event
// against the catalogue. Its errors are errors of Publish.
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
	err := p.CPULimiter.Evaluate(ctx, e.TenantID, cpushare.Schemas, func(m *meter.Meter) { category, _ = p.Catalogue.Check(ctx, m, e) })
	if errors.Is(err, meter.ErrLimit) { // the catalogue never rejects an event
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

// commit stores groups of events in one transaction. It does not end with the requests
// that wait for it.
func (p *Publisher) commit(groups [][]*queuedItem) error {
	ctx, cancel := context.WithTimeout(context.Background(), p.timeout)
	defer cancel()
	began, rows, list := p.Now(), 0, make([]*PublishItem, 0, len(groups))
	for _, group := range groups {
		for _, x := range group {
			x.matched.reserve(p.Dispatcher)
			list = append(list, &x.PublishItem)
			rows += len(x.Deliveries)
		}
	}
	err := p.Store.Publish(ctx, list)
	p.Observer.Published(len(list), rows, p.Now().Sub(began), err)
	if err != nil {
		p.Log.Error("a batch of events could not be stored; their publishers get an error", "events", len(list), "error", err)
		for _, group := range groups {
			for _, x := range group {
				x.matched.release(p.Dispatcher)
			}
		}
		if eventhook.KindOf(err) == eventhook.KindUnavailable {
			return errStoreDown
		}
		return errNotPublished
	}
	p.finish(groups)
	return nil
}

// finish enqueues the deliveries of stored events, and releases all other deliveries.
func (p *Publisher) finish(groups [][]*queuedItem) {
	stored := make([]eventDeliveries, 0, len(groups))
	for _, group := range groups {
		for _, x := range group {
			if x.IsStale || x.Event.Status != eventhook.EventDelivered {
				x.matched.release(p.Dispatcher)
				continue
			}
			x.Count = x.matched.visible()
			stored = append(stored, x.matched)
		}
	}
	enqueueStored(p.Dispatcher, stored, nil)
}
