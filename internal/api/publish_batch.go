package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

// Limits of a batch.
const (
	maxBatchBody   = 8 << 20
	maxBatchEvents = 500 // events
)

const aboutBatches = `A batch is either {"events": […]} or the JSON batch format of CloudEvents 1.0, with at most 500 events and 8 MiB. ` +
	"The events of a batch are stored in one transaction where possible. items contains one result per event, in the order of the request; " +
	"an invalid event does not affect the other events. If no event could be stored for a reason of the gateway, such as an exhausted quota or an unavailable database, " +
	"the whole request fails with that error. A CloudEvent is mapped as follows: source and id form the idempotency key, type is the event_type, subject is the scope; " +
	"id, time, dataschema, datacontenttype and extensions go to the metadata, the extension correlationid becomes the correlation_id, and traceparent is continued. " +
	"Content of data_base64 becomes the data as JSON if it can be parsed, else as text, else as {\"base64\": …}."

// EventsPublish is a batch of events.
type EventsPublish struct {
	Events []EventPublish `json:"events" maxItems:"500" doc:"Events to publish."`
}

// EventsPublished is the outcome of publishing a batch.
type EventsPublished struct {
	Items []EventOutcome `json:"items" doc:"One result per event, in the order of the request."`
}

// EventOutcome is the outcome for one event of a batch.
type EventOutcome struct {
	EventID    string   `json:"event_id,omitempty" format:"uuid" doc:"Id of the stored event; for a duplicate, the id of the first event."`
	Deliveries *int     `json:"deliveries,omitempty" doc:"Number of deliveries created."`
	Duplicate  bool     `json:"duplicate,omitempty" doc:"True if an event with this idempotency key was published earlier. Nothing is stored then."`
	Error      *problem `json:"error,omitempty" doc:"Why the event was not stored: the error that the event would get as a single request."`
}

// publishCost returns the memory that is reserved for n bytes of a body. The part of
// a batch that exceeds the size of a single event is scanned once and copied event
// by event, but never decoded as a whole.
func publishCost(n int64) int64 {
	const memoryPerBatchByte = 4
	one := min(n, maxSingleBody)
	return operation{skipsShape: true, isFlat: true}.bodyCost(one) + (n-one)*memoryPerBatchByte
}

// batchEvents returns the events of a body {"events":[…]} and the faults of the body
// outside of the events. isBatch: the body is JSON and has the member events.
func batchEvents(raw []byte) (list [][]byte, faults eventhook.Faults, isBatch bool) {
	s := scanner{raw: raw}
	if !s.consume('{') {
		return nil, nil, false
	}
	for s.next() != '}' {
		name, ok := s.member()
		if !ok {
			return nil, nil, false
		}
		switch known := name.decoded(); {
		case known != "events":
			ok = s.skipValue()
			faults.Add("body."+readable(known), "unexpected property")
		case isBatch:
			ok = s.skipValue()
			faults.Add("body.events", "is given twice")
		default:
			isBatch = true
			list, ok = s.batchElements("body.events", &faults)
		}
		if !ok || s.next() != ',' && s.next() != '}' {
			return nil, nil, false
		}
		if s.next() == ',' && (!s.consume(',') || s.next() != '"') {
			return nil, nil, false
		}
	}
	isWhole := s.consume('}') && s.isAtEnd()
	return list, faults[:min(len(faults), maxFaults)], isBatch && isWhole
}

// batchElements consumes an array of events and returns its elements.
func (s *scanner) batchElements(at string, faults *eventhook.Faults) (list [][]byte, ok bool) {
	if s.next() != '[' {
		faults.Add(at, "expected array")
		return nil, s.skipValue()
	}
	s.at++
	if s.consume(']') {
		return nil, true
	}
	for n := 1; ; n++ {
		element, ok := s.valueBytes()
		if !ok {
			return nil, false
		}
		if n <= maxBatchEvents {
			list = append(list, element)
		}
		if s.consume(']') {
			if n > maxBatchEvents {
				faults.Add(at, "has %d events, at most %d are allowed", n, maxBatchEvents)
			}
			return list, true
		}
		if !s.consume(',') {
			return nil, false
		}
	}
}

// readBatchEvent parses an event of a batch. The locations of faults are those of a
// single event.
func (s *server) readBatchEvent(raw []byte) (parsedEvent, error) {
	body, ok := parsePublish(raw)
	if ok && len(body.check("")) == 0 {
		return parsedEvent{EventPublish: body}, nil
	}
	body, err := s.readPublish(document[EventPublish]{raw}, "")
	return parsedEvent{EventPublish: body}, err
}

// publishBatch publishes a batch and writes the response. at is the location of the
// events in the body.
func (p *publishCall) publishBatch(list [][]byte, faults eventhook.Faults, at string, read func(raw []byte) (parsedEvent, error)) {
	if p.ctx.Header("Idempotency-Key") != "" {
		faults.Add("header.Idempotency-Key", "must not be set for a batch: each event of a batch has its own key")
	}
	if err := faults.Err(notValid); err != nil {
		p.writeError(err)
		return
	}
	outcomes, err := p.publishAll(list, read)
	if err == nil {
		err = commonCause(outcomes)
	}
	if err != nil {
		p.writeError(err)
		return
	}
	answer := EventsPublished{Items: make([]EventOutcome, len(outcomes))}
	for i, o := range outcomes {
		if o.Err != nil {
			answer.Items[i].Error = p.problemInBatch(o.Err, fmt.Sprintf("%s[%d]", at, i))
			continue
		}
		answer.Items[i] = EventOutcome{EventID: o.EventID.String(), Deliveries: &outcomes[i].Deliveries, Duplicate: o.IsDuplicate}
	}
	p.writeHeader(http.StatusAccepted)
	_ = p.api.Marshal(p.ctx.BodyWriter(), "application/json", answer) // the client may have disconnected
}

// publishAll publishes the valid events of a batch.
func (p *publishCall) publishAll(list [][]byte, read func(raw []byte) (parsedEvent, error)) ([]PublishResult, error) {
	account, err := p.accounts.Get(p.ctx.Context(), p.ctx.Param("tenant"))
	if err != nil {
		return nil, err
	}
	outcomes := make([]PublishResult, len(list))
	var events []*eventhook.Event
	var places []int
	for i, raw := range list {
		x, err := read(bytes.Clone(raw)) // a clone, since a waiting event must not keep the whole batch in memory
		if err != nil {
			outcomes[i].Err = err
			continue
		}
		events, places = append(events, p.newEvent(p.by, x)), append(places, i)
	}
	for i, o := range p.publishWithinQuota(p.ctx.Context(), account, p.by.tenant, events) {
		outcomes[places[i]] = o
	}
	return outcomes, nil
}

// commonCause returns the error of the first event if every event failed for a
// reason of the gateway; else nil.
func commonCause(outcomes []PublishResult) error {
	for _, o := range outcomes {
		if !isGatewayFault(o.Err) {
			return nil
		}
	}
	if len(outcomes) == 0 {
		return nil
	}
	return outcomes[0].Err
}

// isGatewayFault reports whether the reason of an error is the gateway or the quota
// of the tenant, not the event.
func isGatewayFault(err error) bool {
	if err == nil {
		return false
	}
	if _, isAnswer := errors.AsType[*problem](err); isAnswer {
		return false
	}
	kind := eventhook.KindOf(err)
	return kind == eventhook.KindUnavailable || kind == eventhook.KindRateLimited || kind == ""
}

// problemInBatch returns the problem of an event of a batch, with locations relative
// to the whole body.
func (p *publishCall) problemInBatch(err error, at string) *problem {
	whole, ok := errors.AsType[*problem](p.problem(context.WithoutCancel(p.ctx.Context()), p.op, err))
	if !ok {
		return &problem{Title: http.StatusText(http.StatusInternalServerError), Status: http.StatusInternalServerError}
	}
	moved := *whole
	moved.Errors = nil
	for _, f := range whole.Errors {
		if rest, isOfBody := strings.CutPrefix(f.Location, "body"); isOfBody {
			f.Location = readable(at + rest)
		}
		moved.Errors = append(moved.Errors, f)
	}
	if rest, isOfBody := strings.CutPrefix(moved.Detail, "body"); isOfBody {
		moved.Detail = at + rest
	}
	return &moved
}

// describeBatches adds the batch formats to the OpenAPI description of the
// operation.
func (s *server) describeBatches(op *huma.Operation) {
	of := func(t reflect.Type) *huma.Schema { return s.schemas.Schema(t, true, "") }
	content := op.RequestBody.Content
	event, cloud := content["application/json"].Schema, of(reflect.TypeFor[CloudEvent]())
	op.Metadata[schemaKey] = func(contentType string, raw []byte) *huma.Schema {
		if _, _, isBatch := batchEvents(raw); isBatch || publishKind(contentType) > kindEvent {
			return nil
		}
		return event
	}
	content["application/json"].Schema = &huma.Schema{OneOf: []*huma.Schema{event, of(reflect.TypeFor[EventsPublish]())}}
	content[cloudEventType] = &huma.MediaType{Schema: cloud}
	content[cloudEventsType] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeArray, Items: cloud, MaxItems: new(maxBatchEvents)}}
	answer := op.Responses["202"].Content["application/json"]
	answer.Schema = &huma.Schema{OneOf: []*huma.Schema{answer.Schema, of(reflect.TypeFor[EventsPublished]())}}
}
