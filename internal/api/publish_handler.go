package api

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

// maxSingleBody is the limit of the body of a request with one event, in bytes.
const maxSingleBody = MaxData + maxBesideData

// publish handles authorized requests to publish. It handles valid single events and
// all batches without the reflection of the framework. It passes all other requests
// to the framework, whose handler reports all faults.
func (s *server) publish(api huma.API, op operation, ctx huma.Context, next func(huma.Context)) {
	if callerOf(ctx.Context()).hops > eventhook.MaxHops {
		s.writeError(api, ctx, errLoop)
		return
	}
	raw, err := readAndRestoreBody(ctx)
	if err != nil {
		next(ctx) // the framework finds the same error
		return
	}
	p := publishCall{s, api, op, ctx, callerOf(ctx.Context())}
	switch publishKind(ctx.Header("Content-Type")) {
	case kindEvent:
		if x, ok := p.parse(raw); ok {
			p.publishSingle(x)
			return
		}
		if list, faults, isBatch := batchEvents(raw); isBatch {
			p.publishBatch(list, faults, "body.events", s.readBatchEvent)
			return
		}
	case kindCloudEvent:
		p.publishCloudEvent(raw)
		return
	case kindCloudEvents:
		p.publishCloudEvents(raw)
		return
	}
	if len(raw) > maxSingleBody {
		p.writeError(tooLarge("The body", maxSingleBody))
		return
	}
	next(ctx)
}

// errLoop refuses an event that came through too many gateways.
var errLoop = &eventhook.Error{Kind: eventhook.KindLoop,
	Message: "The request went through more than 8 gateways (X-Eventhook-Hops): their routes and subscriptions form a loop."}

// Formats of bodies, by content type.
const (
	kindOther       = iota
	kindEvent       // an event, or {"events":[…]}
	kindCloudEvent  // JSON format of CloudEvents 1.0
	kindCloudEvents // JSON batch format of CloudEvents 1.0
)

const (
	cloudEventType  = "application/cloudevents+json"
	cloudEventsType = "application/cloudevents-batch+json"
)

func publishKind(contentType string) int {
	switch contentType {
	case "", "application/json", "application/json; charset=utf-8":
		return kindEvent
	}
	media, parameters, err := mime.ParseMediaType(contentType)
	switch {
	case err != nil:
	case media == cloudEventType:
		return kindCloudEvent
	case media == cloudEventsType:
		return kindCloudEvents
	case media == "application/json" && len(parameters) == 0:
		return kindEvent
	}
	return kindOther
}

// readAndRestoreBody reads the body of a request and replaces it by one with the
// same bytes. After an error, the new body returns the bytes read so far and the
// same error.
func readAndRestoreBody(ctx huma.Context) ([]byte, error) {
	const step = 32 << 10
	r := requestOf(ctx)
	if r.ContentLength == 0 || r.Body == nil {
		return nil, nil
	}
	_ = ctx.SetReadDeadline(time.Now().Add(bodyGrace)) // not supported by httptest.ResponseRecorder
	from, announced := r.Body, int(r.ContentLength)
	raw := make([]byte, 0, min(uint(announced)+1, step)) // one more, to detect the end
	var err error
	for err == nil {
		if len(raw) == cap(raw) {
			more := cap(raw)
			if announced > 0 {
				more = min(more, announced+1-len(raw))
			}
			raw = slices.Grow(raw, max(more, 1))
		}
		var n int
		n, err = from.Read(raw[len(raw):cap(raw)])
		raw = raw[:len(raw)+n]
	}
	again := bytes.NewReader(raw)
	if errors.Is(err, io.EOF) {
		r.Body = restoredBody{again, from}
		return raw, nil
	}
	r.Body = restoredBody{io.MultiReader(again, from), from}
	return nil, err
}

// restoredBody is a body whose bytes were read before. Close closes the original
// body.
type restoredBody struct {
	io.Reader
	io.Closer
}

// publishCall is a request to publish.
type publishCall struct {
	*server
	api huma.API
	op  operation
	ctx huma.Context
	by  caller
}

// parse parses a body with one valid event. ok is false for any other body.
func (p *publishCall) parse(raw []byte) (x parsedEvent, ok bool) {
	key := p.ctx.Header("Idempotency-Key")
	body, ok := parsePublish(raw)
	if !ok || len(body.check(key)) > 0 {
		return x, false
	}
	body.IdempotencyKey = cmp.Or(body.IdempotencyKey, key)
	return parsedEvent{EventPublish: body}, true
}

// publishSingle publishes one event and writes the response.
func (p *publishCall) publishSingle(x parsedEvent) {
	result, err := p.publishOne(p.ctx.Context(), p.by, p.ctx.Param("tenant"), x)
	if err != nil {
		p.writeError(err)
		return
	}
	const usual = 96
	b := append(make([]byte, 0, usual), `{"event_id":"`...)
	b = append(result.EventID.AppendText(b), `","deliveries":`...)
	b = strconv.AppendInt(b, int64(result.Deliveries), 10)
	if result.IsDuplicate {
		b = append(b, `,"duplicate":true`...)
	}
	p.writeHeader(http.StatusAccepted)
	_, _ = p.ctx.BodyWriter().Write(append(b, "}\n"...)) // the client may have disconnected
}

// writeHeader writes the header of the response.
func (p *publishCall) writeHeader(status int) {
	_ = requestOf(p.ctx).Body.Close() // read to the end
	kind, err := p.api.Negotiate(p.ctx.Header("Accept"))
	if err != nil || status >= http.StatusBadRequest {
		kind = map[bool]string{true: problemType, false: "application/json"}[status >= http.StatusBadRequest]
	}
	p.ctx.SetHeader("Content-Type", kind)
	p.ctx.SetStatus(status)
}

// writeError writes an error response.
func (p *publishCall) writeError(err error) {
	answer := p.problem(p.ctx.Context(), p.op, err)
	if h, ok := errors.AsType[huma.HeadersError](answer); ok {
		p.ctx.SetHeader("Retry-After", h.GetHeaders().Get("Retry-After"))
	}
	whole, ok := errors.AsType[*problem](answer)
	if !ok {
		whole = &problem{Title: http.StatusText(http.StatusInternalServerError), Status: http.StatusInternalServerError}
	}
	p.writeHeader(whole.Status)
	_ = p.api.Marshal(p.ctx.BodyWriter(), problemType, whole) // the client may have disconnected
}

// notJSON returns the error for a body that is not JSON.
func notJSON(raw []byte) error {
	return &eventhook.Error{Kind: eventhook.KindMalformed, Message: notValid, Faults: eventhook.Faults{{Location: "body", Message: syntaxMessage(raw)}}}
}
