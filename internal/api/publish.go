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
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/snapshot"
	"github.com/eventhook/eventhook/internal/usage"
	"github.com/eventhook/eventhook/outbound"
)

// Publisher stores what tenants publish, and has their subscribers get it.
type Publisher interface {
	// Publish returns when the event is stored with its deliveries, in one act.
	// An event whose key has been there is EventDuplicate, and nothing is stored
	// of it: DuplicateOf is the first, whose deliveries are counted.
	Publish(ctx context.Context, e *eventhook.Event) (*outbound.Publishing, error)
}

// Quotas opens the accounts on which published events are counted.
type Quotas interface {
	OpenTenant(ctx context.Context, t eventhook.Tenant) (*usage.Account, error)
}

// newAccounts keeps tenants' accounts for as long as tenants are believed.
func newAccounts(tenants KeyStore, quotas Quotas, now func() time.Time) *snapshot.Cache[string, *usage.Account] {
	const size = 10_000
	return snapshot.New(size, keyAge, now, func(ctx context.Context, slug string) (*usage.Account, error) {
		if quotas == nil {
			return nil, nil //nolint:nilnil // an account that counts nothing
		}
		t, err := tenants.Tenant(ctx, slug)
		if err != nil {
			return nil, err
		}
		return quotas.OpenTenant(ctx, t)
	})
}

// MaxData bounds the data of an event that is published.
const MaxData = 1 << 20

const (
	maxAround  = 128 << 10 // of a request to publish, beside the data
	maxSideBag = 16 << 10  // of scope, actor and metadata, each
)

// EventPublish is an event for subscribers.
type EventPublish struct {
	EventType      string          `json:"event_type" minLength:"1" maxLength:"255" example:"payment.succeeded" doc:"Not one that begins as the gateway's own do, such as webhook. or tenant."`
	Data           json.RawMessage `json:"data" doc:"Any JSON of up to 1 MiB. Subscribers get it as it is written here, to the byte."`
	IdempotencyKey string          `json:"idempotency_key,omitempty" maxLength:"255" doc:"A second event with it makes nothing, as long as events are kept. The header Idempotency-Key says the same."`
	Scope          json.RawMessage `json:"scope,omitempty" doc:"What the event is about, in any form; told to subscribers."`
	Actor          json.RawMessage `json:"actor,omitempty" doc:"Who has caused it, in any form; told to subscribers."`
	CorrelationID  string          `json:"correlation_id,omitempty" maxLength:"255" doc:"Shared by what belongs together; told to subscribers."`
	Metadata       jsonObject      `json:"metadata,omitempty" doc:"Told to subscribers."`
}

// EventPublished is what became of it.
type EventPublished struct {
	EventID    string `json:"event_id" format:"uuid" doc:"Of a duplicate the first event's."`
	Deliveries int    `json:"deliveries" doc:"How many subscribers get it."`
	Duplicate  bool   `json:"duplicate,omitempty" doc:"An event with this key had been published, and nothing was made."`
}

func (s *server) registerPublish(api huma.API) {
	register(s, api, operation{id: "publish-event", method: http.MethodPost, path: base + "/events", scope: eventhook.ScopePublish, tag: "events",
		status: http.StatusAccepted, skipsShape: true, isFlat: true, class: ownTurns, maxBody: MaxData + maxAround,
		summary: "Publish an event to the tenant's subscribers",
		about: "202: the event is stored, and each subscriber that wants it will get it, signed. A traceparent that comes along is continued; " +
			"what does not fit the catalogue is delivered all the same, and counted. " +
			"429: the tenant's quota has no room, or its share of time for the filters of its subscriptions is used up. " +
			"422 also when these filters take too many steps for the event."}, s.publishEvent)
}

type publishRequest struct {
	TenantPath
	IdempotencyKey string `header:"Idempotency-Key" doc:"As idempotency_key."`
	Traceparent    string `header:"traceparent" doc:"W3C trace context, which deliveries continue."`
	Body           document[EventPublish]
}

type publishAnswer struct{ Body EventPublished }

func (s *server) publishEvent(ctx context.Context, who caller, in *publishRequest) (*publishAnswer, error) {
	e, err := s.eventToPublish(who, in)
	if err != nil {
		return nil, err
	}
	account, err := s.accounts.Get(ctx, in.Tenant)
	if err != nil {
		return nil, err
	}
	now := s.Now()
	if over := account.Take(e.BodySize, now); over != nil {
		return nil, overQuota(over, now)
	}
	p, err := s.Publisher.Publish(ctx, e)
	if err != nil {
		account.Return(e.BodySize, now)
		return nil, err
	}
	if p.Event.Status == eventhook.EventDuplicate {
		account.Return(e.BodySize, now)
		return &publishAnswer{EventPublished{p.Event.DuplicateOf.String(), p.Count, true}}, nil
	}
	return &publishAnswer{EventPublished{EventID: p.Event.ID.String(), Deliveries: p.Count}}, nil
}

func overQuota(over *usage.Excess, now time.Time) error {
	return &eventhook.Error{Kind: eventhook.KindRateLimited, RetryAfter: over.ResetsAt.Sub(now),
		Message: fmt.Sprintf("The tenant's quota %s has no room for this event; publish it again when it is reset, at %s.", over.Quota, over.ResetsAt.UTC().Format(time.RFC3339))}
}

// eventToPublish is the event that a request describes.
func (s *server) eventToPublish(who caller, in *publishRequest) (*eventhook.Event, error) {
	body, shape, err := in.Body.shapeAround(s, maxAround, "data")
	if err != nil {
		return nil, err
	}
	if len(body.Data) > MaxData {
		return nil, tooLarge("body.data", MaxData)
	}
	if err := together(shape, body.check(in.IdempotencyKey)); err != nil {
		return nil, err
	}
	trace, flags := ingest.Trace(in.Traceparent)
	e := &eventhook.Event{
		ID: eventhook.NewID[eventhook.Event](s.Now()), TenantID: who.tenant, Origin: eventhook.OriginAPI, Status: eventhook.EventDelivered,
		EventType: body.EventType, IdempotencyKey: cmp.Or(body.IdempotencyKey, in.IdempotencyKey), ContentType: "application/json",
		BodySize: len(body.Data), TraceID: trace, RequestID: who.requestID, CorrelationID: body.CorrelationID,
		Envelope: &eventhook.Envelope{Scope: unlessNull(body.Scope), Actor: unlessNull(body.Actor), Metadata: json.RawMessage(body.Metadata), TraceFlags: flags},
		Payload:  eventhook.Payload{Headers: []byte("Content-Type: application/json"), Body: body.Data},
	}
	if who.address.IsValid() {
		e.SourceIP = who.address.String()
	}
	return e, nil
}

func unlessNull(raw json.RawMessage) json.RawMessage {
	if string(raw) == "null" {
		return nil
	}
	return raw
}

// check says what is wrong with it, given the header with the key.
func (b EventPublish) check(header string) (rules eventhook.Faults) {
	if wrong := eventhook.CheckPublished(b.EventType); wrong != "" {
		rules.Add("body.event_type", "%s", wrong)
	}
	if b.Data != nil && !utf8.Valid(b.Data) {
		rules.Add("body.data", "is not UTF-8")
	}
	for _, text := range []struct{ at, value string }{
		{"body.idempotency_key", b.IdempotencyKey}, {"header.Idempotency-Key", header}, {"body.correlation_id", b.CorrelationID},
	} {
		if eventhook.Key(text.value) != text.value {
			rules.Add(text.at, "must be at most %d bytes of text without NUL", eventhook.MaxKeyBytes)
		}
	}
	if header != "" && b.IdempotencyKey != "" && header != b.IdempotencyKey {
		rules.Add("header.Idempotency-Key", "is not the idempotency_key of the body")
	}
	for _, part := range []struct {
		at  string
		raw []byte
	}{{"body.scope", b.Scope}, {"body.actor", b.Actor}, {"body.metadata", b.Metadata}} {
		if len(part.raw) > maxSideBag {
			rules.Add(part.at, "has %d bytes, at most %d are allowed", len(part.raw), maxSideBag)
		}
	}
	return rules
}
