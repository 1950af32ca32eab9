package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/payload"
)

// EventStore reads and reprocesses events. An event that does not exist or belongs to
// another tenant is KindNotFound.
type EventStore interface {
	Events(ctx context.Context, tenant eventhook.TenantID, f eventhook.EventFilter) ([]eventhook.Event, error)
	// ScanEvents returns events like Events, for filters that need a scan too, and those of
	// all tenants if tenant is zero. It may return fewer than the limit.
	ScanEvents(ctx context.Context, tenant eventhook.TenantID, f eventhook.EventFilter) (eventhook.EventScan, error)
	Event(ctx context.Context, tenant eventhook.TenantID, id eventhook.EventID) (eventhook.Event, error)
	// Actions returns at most limit actions of an event in the order in which they
	// started, and their total number.
	Actions(ctx context.Context, e *eventhook.Event, limit int) (list []eventhook.Action, count int, err error)
	// EventsByID returns events, newest first. Events that do not exist are missing.
	EventsByID(ctx context.Context, tenant eventhook.TenantID, ids []eventhook.EventID) ([]eventhook.Event, error)
	// EventOutcome returns the outcome of an event and the states of the effects of its actions.
	EventOutcome(ctx context.Context, e *eventhook.Event, actions []eventhook.Action) (eventhook.EventOutcome, error)
	Payloads(ctx context.Context, ids []eventhook.EventID) (map[eventhook.EventID]eventhook.Payload, error)
	// PayloadStart returns the payload of an event with at most size bytes of its body: the first ones
	// of a longer body. Headers is nil if the payload is past the retention period.
	PayloadStart(ctx context.Context, id eventhook.EventID, size int) (eventhook.Payload, error)
	// RoutedEvent returns an event with its payload in the form that routes evaluate.
	// Headers is nil if the payload is past the retention period.
	RoutedEvent(ctx context.Context, tenant eventhook.TenantID, id eventhook.EventID) (*eventhook.Event, error)
	// ReprocessEvents makes failed, dead and unrouted events due at once and returns
	// their ids, newest first.
	ReprocessEvents(ctx context.Context, by eventhook.Actor, tenant eventhook.TenantID, which eventhook.EventSelection) ([]eventhook.EventID, error)
	// SelectAgain returns the selected events, each once, newest first for a filter, and
	// those of them that can be processed again.
	SelectAgain(ctx context.Context, tenant eventhook.TenantID,
		which eventhook.EventSelection) ([]eventhook.EventID, []eventhook.RepeatableEvent, error)
	// ReprocessAgain creates a new event with the payload of each event in a final status.
	ReprocessAgain(ctx context.Context, by eventhook.Actor, tenant eventhook.TenantID,
		ids []eventhook.EventID) (eventhook.EventCopies, error)
	// WatchEvents calls notify with changes of events until ctx ends or notify returns an
	// error: once at the start, then for every change and at least every idle. Calls do
	// not overlap.
	WatchEvents(ctx context.Context, tenant eventhook.TenantID, idle time.Duration, notify func(eventhook.EventUpdates) error) error
}

// EventView is an event in a list. It is exported because huma ignores embedded types
// that are not.
type EventView struct {
	ID              string     `json:"id" format:"uuid"`
	Source          *string    `json:"source" doc:"Slug of the source; null if the event did not come from a source."`
	Origin          string     `json:"origin" enum:"source,api,route,system" doc:"source: a webhook. api: published by a caller. route: published by a route. system: published by the gateway itself."`
	EventType       string     `json:"event_type"`
	Status          string     `json:"status" enum:"pending,processing,delivered,unrouted,failed,dead,duplicate" doc:"pending: waiting to be processed. processing: being processed, or waiting for deliveries to targets of routes. delivered: every matching target succeeded or was skipped. unrouted: no route matched. failed: a retry is scheduled. dead: no retries are left, or the failure cannot be retried. duplicate: a repetition of the event in duplicate_of."`
	IdempotencyKey  *string    `json:"idempotency_key" doc:"Events of a source with the same key are duplicates; null without a key."`
	IsDuplicate     bool       `json:"is_duplicate" doc:"Whether the status is duplicate."`
	DuplicateOf     *string    `json:"duplicate_of" doc:"Id of the first event; null unless the event is a duplicate."`
	ContentType     string     `json:"content_type" doc:"Content type of the body."`
	BodySize        int        `json:"body_size" doc:"Size of the body in bytes."`
	RetryCount      int        `json:"retry_count" doc:"Number of retries since the event was received or last reprocessed."`
	NextRetryAt     *time.Time `json:"next_retry_at" doc:"Null if no retry is scheduled."`
	LastError       *string    `json:"last_error" doc:"Error of the last attempt; null if it succeeded."`
	ReprocessedFrom *string    `json:"reprocessed_from" doc:"The event whose payload this event processes again; null for other events."`
	SourceIP        *string    `json:"source_ip" doc:"Client address of the request; null if unknown."`
	TraceID         string     `json:"trace_id" doc:"W3C trace id."`
	RequestID       *string    `json:"request_id" doc:"X-Request-Id of the request."`
	CorrelationID   *string    `json:"correlation_id" doc:"Identifier shared by related events."`
	ReceivedAt      time.Time  `json:"received_at" doc:"When the event was received or published."`
	ProcessedAt     *time.Time `json:"processed_at" doc:"When processing ended; null before that."`
}

type eventDetail struct {
	EventView
	Method           *string           `json:"method" example:"POST" doc:"Method of the request; null if the event is no webhook or its payload is past the retention period."`
	PathSuffix       string            `json:"path_suffix" example:"/opened" doc:"Path of the request below the URL of the source, as it was sent; empty if the request had that URL."`
	Query            string            `json:"query" example:"region=eu" doc:"Query of the request, without the question mark. Credentials are redacted."`
	Headers          map[string]string `json:"headers" doc:"Headers of the request. Credentials are redacted; repeated headers are joined with a comma."`
	Verification     *verificationView `json:"verification,omitempty" doc:"How the request was verified; absent if the event is no webhook, if its payload is past the retention period, or if an earlier version stored it."`
	ReceivedInMinute *int64            `json:"received_in_minute" example:"42" doc:"How many webhooks the source stored in the minute of this one, duplicates included. Instances write the count every 2 seconds. Null if the event is no webhook, and after 25 hours."`
	Body             json.RawMessage   `json:"body" doc:"The body as JSON if it can be parsed, else as text; null for binary bodies and for bodies past the retention period."`
	BodyLeftOut      bool              `json:"body_left_out,omitempty" doc:"True if the body is omitted because it is larger than max_body_bytes permits."`
	// An event can have thousands of actions and deliveries.
	Actions         []actionView `json:"actions" doc:"Actions in the order in which they started, at most 1000."`
	ActionsCount    int          `json:"actions_count" doc:"Total number of actions."`
	Deliveries      []Delivery   `json:"deliveries" doc:"Deliveries to subscribers and to targets of routes, at most 1000."`
	DeliveriesCount int          `json:"deliveries_count" doc:"Total number of deliveries."`

	Outcome  string        `json:"outcome" enum:"succeeded,in_progress,failed" doc:"failed: the event is dead, or an execution or delivery to which it led is dead, or such a promise was rejected or has expired. in_progress: nothing has failed, and the event or one of these is open. succeeded: all of them have ended. Events that its routes published, and their deliveries, are included."`
	Failures []failureView `json:"failures" doc:"Why the outcome is failed, at most 100."`
}

// verificationView says how the request of a webhook was verified.
type verificationView struct {
	Scheme       string `json:"scheme" example:"sha256" doc:"The provider's scheme, or the verifier's type."`
	Secret       int    `json:"secret" example:"1" doc:"Which of the secrets or public keys of the source matched, from 1 in their order at that time; 0 if the scheme has none, or keys that the provider publishes."`
	SecretsCount int    `json:"secrets_count" example:"2" doc:"Number of secrets or public keys at that time."`
}

// failureView is one cause of the outcome failed.
type failureView struct {
	Type    string `json:"type" enum:"execution,promise,delivery,action,event" doc:"What has failed. event: the event itself, for another reason than one of its actions."`
	ID      string `json:"id" format:"uuid" doc:"Id of the execution, promise, delivery, action or event."`
	EventID string `json:"event_id" format:"uuid" doc:"The event itself or, for a delivery, the event that it sends."`
	Status  string `json:"status" example:"dead"`
	Error   string `json:"error" doc:"The last error."`
}

// Maximum actions and deliveries in the response for one event.
const (
	maxActions    = 1000
	maxDeliveries = 1000
)

// Memory for each byte of a stored body until the response is sent: copied as it is,
// and embedded in a JSON document.
const (
	copiedWeight = 2
	shownWeight  = 6
)

type actionView struct {
	ID                  string     `json:"id" format:"uuid"`
	RouteID             string     `json:"route_id" format:"uuid"`
	RouteName           string     `json:"route_name"`
	TargetType          string     `json:"target_type"`
	Status              string     `json:"status" enum:"pending,success,failed,skipped" doc:"pending: not finished yet. success: the target succeeded. failed: the target failed. skipped: an earlier effect has the same idempotency key."`
	Attempts            int        `json:"attempts" doc:"Number of attempts."`
	WorkflowExecutionID *string    `json:"workflow_execution_id" doc:"The created workflow; null for other target types."`
	TaskExecutionID     *string    `json:"task_execution_id" doc:"The created task; null for other target types."`
	PromiseID           *string    `json:"promise_id" doc:"The settled promise; null for other target types."`
	PublishedEventID    *string    `json:"published_event_id" doc:"The published event; null for other target types."`
	EffectStatus        *string    `json:"effect_status" example:"completed" doc:"Current status of the workflow, task or promise, or outcome of the published event; null if it is past its retention, and for requests, whose status is that of their delivery."`
	ErrorMessage        *string    `json:"error_message" doc:"Why the last attempt failed; null if it succeeded."`
	StartedAt           time.Time  `json:"started_at"`
	CompletedAt         *time.Time `json:"completed_at" doc:"Null while the action is pending."`
}

// EventPath is the part of a path that identifies an event.
type EventPath struct {
	TenantPath
	ID string `path:"id" format:"uuid" doc:"Event id."`
}

type eventRequest struct {
	EventPath
	MaxBodyBytes int `query:"max_body_bytes" minimum:"0" maximum:"33554432" default:"33554432" doc:"Leave out a body with more bytes, or with more than six times as many bytes as JSON; body_left_out is then true. 0 leaves each body out."`
}

type payloadRequest struct {
	EventPath
	MaxBytes int `query:"max_bytes" minimum:"0" maximum:"33554432" default:"33554432" doc:"Return at most this many bytes: the first ones of a larger body."`
}

func (s *server) registerEvents(api huma.API) {
	const tag = "events"
	register(s, api, operation{id: "list-events", method: http.MethodGet, path: base + "/events", scope: eventhook.ScopeRead, tag: tag,
		summary: "List events", about: "Newest first. With a pattern of event types, trace_id, request_id, correlation_id or scope: " + aboutScans}, s.listEvents)
	register(s, api, operation{id: "get-event", method: http.MethodGet, path: base + "/events/{id}", scope: eventhook.ScopeRead, tag: tag,
		summary: "Get an event with its headers, body, actions and deliveries"}, s.getEvent)
	register(s, api, operation{id: "get-event-payload", isRaw: true, method: http.MethodGet, path: base + "/events/{id}/payload", scope: eventhook.ScopeRead, tag: tag,
		summary: "Get the payload of an event", about: "Returns the exact bytes of the event's body."}, s.getPayload)
	register(s, api, operation{id: "reprocess-events", method: http.MethodPost, path: base + "/events/reprocess", scope: eventhook.ScopeManage, tag: tag, skipsShape: true, class: bulks,
		summary: "Reprocess events",
		about: "Routes failed, dead and unrouted events again with the current routes and resets their retries. Actions that succeeded are not repeated. " +
			"With mode again, creates a new event with the payload of each event in any final status, so that all its effects are created again: " +
			"reprocessed_from names the old event, and the idempotency keys of tasks, workflows and published events end with the id of the new one. " +
			"Events in another status, events that did not come from a source, and events whose payload is past the retention period are skipped. " +
			"With mode again, the new events count towards the quota of the tenant: events beyond it are skipped, and the request is answered 429 if none fits."}, s.reprocessEvents)
	s.registerSearch(api)
	s.registerStream(api)
}

// sinceEpoch raises a time to 1970, before which ids cannot represent times.
func sinceEpoch(t time.Time) time.Time {
	if epoch := time.Unix(0, 0); !t.IsZero() && t.Before(epoch) {
		return epoch
	}
	return t
}

func viewEvent(e eventhook.Event) EventView {
	return EventView{
		ID: e.ID.String(), Source: optional(e.SourceSlug), Origin: string(e.Origin), EventType: e.EventType, Status: string(e.Status),
		IdempotencyKey: optional(e.IdempotencyKey), IsDuplicate: e.Status == eventhook.EventDuplicate, DuplicateOf: optionalID(e.DuplicateOf),
		ContentType: e.ContentType, BodySize: e.BodySize, RetryCount: e.RetryCount, NextRetryAt: optionalUTC(e.NextRetryAt), LastError: optional(e.LastError),
		ReprocessedFrom: optionalID(e.ReprocessedFrom), SourceIP: optional(e.SourceIP), TraceID: e.TraceID,
		RequestID: optional(e.RequestID), CorrelationID: optional(e.CorrelationID),
		ReceivedAt: e.ID.Time(), ProcessedAt: optionalUTC(e.ProcessedAt),
	}
}

// deliveriesOf returns the first deliveries of an event, and their total number.
func (s *server) deliveriesOf(ctx context.Context, by caller, id eventhook.EventID) ([]Delivery, int, error) {
	list, count, err := s.Deliveries.EventDeliveries(ctx, by.tenant, id, maxDeliveries)
	if err != nil {
		return nil, 0, err
	}
	names, err := s.subscriptionNames(ctx, by.tenant, list)
	views := make([]Delivery, len(list))
	for i, d := range list {
		views[i] = viewDelivery(d, names)
	}
	return views, count, err
}

// event reads an event.
func (s *server) event(ctx context.Context, by caller, id string) (eventhook.Event, error) {
	eventID, err := eventhook.ParseID[eventhook.Event](id)
	if err != nil {
		return eventhook.Event{}, err
	}
	return s.Events.Event(ctx, by.tenant, eventID)
}

// payloadOf reads the payload of an event with at most size bytes of its body. It reserves memory
// first: weight bytes for each byte.
func (s *server) payloadOf(ctx context.Context, by caller, e *eventhook.Event,
	size int, weight int64) (eventhook.Payload, error) {
	size = min(size, e.BodySize)
	if err := by.reservation.reserve(int64(size) * weight); err != nil {
		return eventhook.Payload{}, err
	}
	p, err := s.Events.PayloadStart(ctx, e.PayloadID(), size)
	if !e.PayloadOf.IsZero() && p.Headers != nil { // the stored headers belong to the webhook that led to this event
		p.Headers = []byte("Content-Type: " + e.ContentType)
	}
	return p, err
}

func bodyJSON(contentType string, p eventhook.Payload) json.RawMessage {
	v := payload.New(nil, payload.HeaderBlock(p.Headers), contentType, p.Body)
	if v.JSON() == nil && !payload.IsText(v.Content()) {
		return json.RawMessage("null")
	}
	return v.Render()
}

func headerMap(block []byte) map[string]string {
	headers := map[string]string{}
	for line := range strings.SplitSeq(string(block), "\r\n") {
		name, value, ok := strings.Cut(line, ": ")
		if !ok || strings.HasPrefix(name, ":") {
			continue
		}
		value = strings.ToValidUTF8(value, "\uFFFD")
		if earlier, twice := headers[name]; twice {
			value = earlier + ", " + value
		}
		headers[name] = value
	}
	return headers
}

type payloadAnswer struct {
	ContentType string `header:"Content-Type"`
	Encoding    string `header:"X-Eventhook-Content-Encoding" doc:"Content encoding of the stored bytes, if any. Content-Encoding itself is not set, because clients would decode the body and the result would no longer match the sender's signature."`
	NoSniff     string `header:"X-Content-Type-Options"`
	Disposition string `header:"Content-Disposition"`
	Body        []byte
}

func (s *server) getPayload(ctx context.Context, by caller, in *payloadRequest) (*payloadAnswer, error) {
	e, err := s.event(ctx, by, in.ID)
	if err != nil {
		return nil, err
	}
	p, err := s.payloadOf(ctx, by, &e, in.MaxBytes, copiedWeight)
	if err != nil {
		return nil, err
	}
	if p.Headers == nil {
		return nil, eventhook.NotFound("payload: it is past the retention period")
	}
	contentType := e.ContentType
	if contentType == "" || strings.ContainsAny(contentType, "\r\n\x00") {
		contentType = "application/octet-stream"
	}
	encoding, _ := payload.ParseEncoding(payload.HeaderBlock(p.Headers).Get("Content-Encoding"))
	return &payloadAnswer{ContentType: contentType, Encoding: encoding, NoSniff: "nosniff", Disposition: "attachment", Body: p.Body}, nil
}
