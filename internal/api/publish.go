package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/snapshot"
	"github.com/eventhook/eventhook/internal/usage"
)

// Publisher stores published events of a tenant with their deliveries.
type Publisher interface {
	// Publish stores events with their deliveries and returns when the outcome of
	// each event is known. The outcomes are in the order of the events. A failure of
	// one event does not affect the other events. The caller must not change the
	// events afterwards.
	Publish(ctx context.Context, tenant eventhook.TenantID, events []*eventhook.Event) []PublishResult
}

// PublishResult is the outcome of publishing one event.
type PublishResult struct {
	EventID     eventhook.EventID // for a duplicate, of the first event
	Deliveries  int               // for a duplicate, of the first event
	IsDuplicate bool              // the idempotency key was published before; nothing was stored
	Err         error             // why nothing was stored; the other fields are zero
}

// Quotas opens the accounts that count published events.
type Quotas interface {
	OpenTenant(ctx context.Context, t eventhook.Tenant) (*usage.Account, error)
}

// newAccounts returns a cache of the accounts of tenants. Entries live as long as
// those of the keyring.
func newAccounts(tenants KeyStore, quotas Quotas, now func() time.Time) *snapshot.Cache[string, *usage.Account] {
	const size = 10_000
	return snapshot.New(size, keyAge, now, func(ctx context.Context, slug string) (*usage.Account, error) {
		if quotas == nil {
			return nil, nil //nolint:nilnil // a nil account counts nothing
		}
		t, err := tenants.Tenant(ctx, slug)
		if err != nil {
			return nil, err
		}
		return quotas.OpenTenant(ctx, t)
	})
}

// MaxData is the limit of the data of a published event in bytes.
const MaxData = 1 << 20

const (
	maxBesideData     = 128 << 10 // of a request without its data
	maxEnvelopeMember = 16 << 10  // of each of scope, actor and metadata
	maxCategory       = 200       // as of an event type
)

// EventPublish is an event to publish.
type EventPublish struct {
	EventType      string          `json:"event_type" minLength:"1" maxLength:"255" example:"payment.succeeded" doc:"Event type. Prefixes of the gateway's own events, such as webhook. or tenant., are reserved."`
	Data           json.RawMessage `json:"data" doc:"Any JSON value up to 1 MiB. Subscribers receive exactly these bytes."`
	IdempotencyKey string          `json:"idempotency_key,omitempty" nullable:"true" maxLength:"255" doc:"A second event with the same key is not stored, for as long as events are retained. Can also be sent as the header Idempotency-Key."`
	Scope          json.RawMessage `json:"scope,omitempty" doc:"Scope of the event, such as customer-42. Any JSON value, passed on to subscribers."`
	Actor          json.RawMessage `json:"actor,omitempty" doc:"Actor that caused the event. Any JSON value, passed on to subscribers."`
	CorrelationID  string          `json:"correlation_id,omitempty" nullable:"true" maxLength:"255" doc:"Identifier shared by related events, passed on to subscribers."`
	Metadata       jsonObject      `json:"metadata,omitempty" nullable:"true" doc:"Additional members, passed on to subscribers."`
	Source         string          `json:"source,omitempty" nullable:"true" maxLength:"255" example:"billing" doc:"System from which the event comes, passed on to subscribers. One line of text."`
	Category       string          `json:"category,omitempty" nullable:"true" maxLength:"200" example:"payments" doc:"Category of the event, passed on to subscribers. One line of text. The default is the category of the event type in the catalogue."`
}

// EventPublished is the outcome of publishing an event.
type EventPublished struct {
	EventID    string `json:"event_id" format:"uuid" doc:"Id of the stored event; for a duplicate, the id of the first event."`
	Deliveries int    `json:"deliveries" doc:"Number of deliveries created."`
	Duplicate  bool   `json:"duplicate,omitempty" doc:"True if an event with this idempotency key was published earlier. Nothing is stored then."`
}

func (s *server) registerPublish(api huma.API) {
	op := operation{id: "publish-event", method: http.MethodPost, path: base + "/events", scope: eventhook.ScopePublish, tag: "events",
		status: http.StatusAccepted, skipsShape: true, isFlat: true, class: ownLimits, maxBody: maxBatchBody, cost: publishCost,
		alsoFails: http.StatusLoopDetected,
		summary:   "Publish an event or a batch of events",
		about: "202 if the event is stored; it is delivered, signed, to each subscription that matches. A traceparent header is continued. " +
			"Events that do not match their type in the catalogue are delivered, too, and counted in a metric. " +
			"429 if the tenant's quota or its share of time for subscription filters is exhausted. " +
			"422 also if the subscription filters need too many steps for the event. " +
			"508 if the request went through more than 8 gateways (X-Eventhook-Hops). " + aboutBatches}
	op.instead = func(ctx huma.Context, next func(huma.Context)) { s.publish(api, op, ctx, next) }
	register(s, api, op, s.publishEvent)
	s.describeBatches(api.OpenAPI().Paths[op.path].Post)
}

type publishInput struct {
	TenantPath
	IdempotencyKey string `header:"Idempotency-Key" doc:"Same as the member idempotency_key."`
	// Traceparent documents the header. The caller has its trace.
	Traceparent string `header:"traceparent" doc:"W3C trace context, continued by the deliveries of the event."`
	Body        document[EventPublish]
}

type publishOutput struct{ Body EventPublished }

// publishEvent publishes the event of a request that publish passes to the
// framework. Most of these requests have a fault.
func (s *server) publishEvent(ctx context.Context, by caller, in *publishInput) (*publishOutput, error) {
	body, err := s.readPublish(in.Body, in.IdempotencyKey)
	if err != nil {
		return nil, err
	}
	x := parsedEvent{EventPublish: body}
	x.IdempotencyKey = cmp.Or(x.IdempotencyKey, in.IdempotencyKey)
	p, err := s.publishOne(ctx, by, in.Tenant, x)
	if err != nil {
		return nil, err
	}
	return &publishOutput{EventPublished{p.EventID.String(), p.Deliveries, p.IsDuplicate}}, nil
}

// publishOne publishes one event within the quota of the tenant.
func (s *server) publishOne(ctx context.Context, by caller, tenant string, x parsedEvent) (PublishResult, error) {
	account, err := s.accounts.Get(ctx, tenant)
	if err != nil {
		return PublishResult{}, err
	}
	p := s.publishWithinQuota(ctx, account, by.tenant, []*eventhook.Event{s.newEvent(by, x)})[0]
	return p, p.Err
}

// publishWithinQuota publishes the events that fit into the quota of the tenant, in
// order. Duplicates and failed events do not count.
func (s *server) publishWithinQuota(ctx context.Context, account *usage.Account, tenant eventhook.TenantID, events []*eventhook.Event) []PublishResult {
	now, outcomes, accepted := s.Now(), make([]PublishResult, len(events)), events[:0:0]
	for i, e := range events {
		if excess := account.Take(e.BodySize, now); excess != nil {
			outcomes[i].Err = quotaError(excess, now)
			continue
		}
		accepted = append(accepted, e)
	}
	stored := s.Publisher.Publish(ctx, tenant, accepted)
	next := 0
	for i := range outcomes {
		if outcomes[i].Err != nil {
			continue
		}
		outcomes[i] = stored[next]
		if stored[next].Err != nil || stored[next].IsDuplicate {
			account.Return(accepted[next].BodySize, now)
		}
		next++
	}
	return outcomes
}

// quotaError returns the error of a request for an event or an execution beyond a quota.
func quotaError(excess *usage.Excess, now time.Time) error {
	return &eventhook.Error{Kind: eventhook.KindRateLimited, RetryAfter: excess.ResetsAt.Sub(now),
		Message: fmt.Sprintf("The request exceeds the quota %s of the tenant; send the request again when the quota is reset, at %s.",
			excess.Quota, excess.ResetsAt.UTC().Format(time.RFC3339))}
}

// parsedEvent is an event of a request: the document, and the trace context of a CloudEvent.
type parsedEvent struct {
	EventPublish
	traceparent string // the request's if empty
}

// newEvent returns the event to store.
func (s *server) newEvent(by caller, x parsedEvent) *eventhook.Event {
	trace, flags := by.trace, by.traceFlags
	if x.traceparent != "" {
		trace, _, flags = eventhook.ParseTraceparent(x.traceparent)
	}
	e := &eventhook.Event{
		ID: eventhook.NewID[eventhook.Event](s.Now()), TenantID: by.tenant, Origin: eventhook.OriginAPI, Status: eventhook.EventDelivered,
		EventType: x.EventType, IdempotencyKey: x.IdempotencyKey, ContentType: "application/json",
		BodySize: len(x.Data), TraceID: trace, RequestID: by.requestID, CorrelationID: x.CorrelationID,
		Envelope: &eventhook.Envelope{Source: x.Source, Category: x.Category, Scope: unlessNull(x.Scope), Actor: unlessNull(x.Actor),
			Metadata: json.RawMessage(x.Metadata), TraceFlags: flags, Hops: by.hops},
		Payload: eventhook.Payload{Headers: publishedHeaders, Body: x.Data},
	}
	if by.address.IsValid() {
		e.SourceIP = by.address.String()
	}
	return e
}

// publishedHeaders are the headers of every published event. They are shared and
// must not be changed.
var publishedHeaders = []byte("Content-Type: application/json")

func unlessNull(raw json.RawMessage) json.RawMessage {
	if string(raw) == "null" {
		return nil
	}
	return raw
}

// check returns the faults of the event. header is the value of the header
// Idempotency-Key.
func (b EventPublish) check(header string) (rules eventhook.Faults) {
	if wrong := eventhook.CheckPublishedEventType(b.EventType); wrong != "" {
		rules.Add("body.event_type", "%s", wrong)
	}
	if b.Data != nil && !utf8.Valid(b.Data) {
		rules.Add("body.data", "is not UTF-8")
	}
	for _, text := range []struct{ at, value string }{
		{"body.idempotency_key", b.IdempotencyKey}, {"header.Idempotency-Key", header}, {"body.correlation_id", b.CorrelationID},
	} {
		if eventhook.NormalizeKey(text.value) != text.value {
			rules.Add(text.at, "must be at most %d bytes of text without NUL", eventhook.MaxKeyBytes)
		}
	}
	if !eventhook.IsLine(b.Source) {
		rules.Add("body.source", "must be one line of text, without leading or trailing space")
	}
	if !eventhook.IsLine(b.Category) || len(b.Category) > maxCategory {
		rules.Add("body.category", "must be one line of at most %d bytes of text, without leading or trailing space", maxCategory)
	}
	if header != "" && b.IdempotencyKey != "" && header != b.IdempotencyKey {
		rules.Add("header.Idempotency-Key", "differs from the idempotency_key of the body")
	}
	for _, part := range []struct {
		at  string
		raw []byte
	}{{"body.scope", b.Scope}, {"body.actor", b.Actor}, {"body.metadata", b.Metadata}} {
		if len(part.raw) > maxEnvelopeMember {
			rules.Add(part.at, "has %d bytes, at most %d are allowed", len(part.raw), maxEnvelopeMember)
		}
	}
	return rules
}
