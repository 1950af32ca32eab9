package api

import (
	"context"
	"strings"
	"time"

	"github.com/eventhook/eventhook"
)

// EventQuery filters a list of events.
type EventQuery struct {
	PageQuery
	Source         string    `query:"source" doc:"Return only events of the source with this slug."`
	Status         string    `query:"status" enum:"pending,processing,delivered,unrouted,failed,dead,duplicate" doc:"Return only events with this status."`
	EventType      string    `query:"event_type" example:"payment_intent.*" doc:"Return only events of this type, or of the types that a pattern such as payment_intent.* matches."`
	ReceivedAfter  time.Time `query:"received_after" doc:"Return only events received after this time."`
	ReceivedBefore time.Time `query:"received_before" doc:"Return only events received before this time."`
	IdempotencyKey string    `query:"idempotency_key" doc:"Return only events with this idempotency key."`
	TraceID        string    `query:"trace_id" pattern:"^[0-9a-fA-F]{32}$" patternDescription:"a W3C trace id of 32 hexadecimal digits" doc:"Return only events of this trace."`
	RequestID      string    `query:"request_id" maxLength:"255" doc:"Return only events of the request with this X-Request-Id."`
	CorrelationID  string    `query:"correlation_id" maxLength:"255" doc:"Return only events with this correlation id."`
	Scope          string    `query:"scope" maxLength:"255" doc:"Return only published events with this scope."`
}

// filter returns the filter of a list, with a limit of one more than a page.
func (q EventQuery) filter(pages pager) (eventhook.EventFilter, error) {
	before, err := cursorOf[eventhook.Event](pages, q.Cursor)
	if err != nil {
		return eventhook.EventFilter{}, err
	}
	types, err := typeFilter("query.event_type", q.EventType)
	return eventhook.EventFilter{
		Source: q.Source, Status: eventhook.EventStatus(q.Status), EventType: types,
		IdempotencyKey: eventhook.NormalizeKey(q.IdempotencyKey), ReceivedAfter: sinceEpoch(q.ReceivedAfter),
		TraceID: strings.ToLower(q.TraceID), RequestID: eventhook.NormalizeKey(q.RequestID),
		CorrelationID: eventhook.NormalizeKey(q.CorrelationID), Scope: eventhook.NormalizeKey(q.Scope),
		ReceivedBefore: sinceEpoch(q.ReceivedBefore), Before: before, Limit: q.Limit + 1,
	}, err
}

type eventsQuery struct {
	TenantPath
	EventQuery
}

func (s *server) listEvents(ctx context.Context, by caller, in *eventsQuery) (*page[EventView], error) {
	pages := s.pager("events", by.tenant)
	f, err := in.filter(pages)
	if err != nil {
		return nil, err
	}
	found, err := s.findEvents(ctx, by.tenant, f)
	if err != nil {
		return nil, err
	}
	return scannedPage(pages, found.Events, found.Next, in.Limit, viewEvent, eventIDOf), nil
}

func eventIDOf(e eventhook.Event) eventhook.EventID { return e.ID }

// findEvents reads a page of events: through an index, or by a scan if the filter has none.
func (s *server) findEvents(ctx context.Context, tenant eventhook.TenantID,
	f eventhook.EventFilter) (found eventhook.EventScan, err error) {
	if f.NeedsScan() {
		return s.Events.ScanEvents(ctx, tenant, f)
	}
	found.Events, err = s.Events.Events(ctx, tenant, f)
	return found, err
}
