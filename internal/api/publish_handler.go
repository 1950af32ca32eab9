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

// maxSingleBody bounds the body of a request that publishes one event.
const maxSingleBody = MaxData + maxBesideData

// publish answers a request to publish that was admitted. It answers one event in
// order and every batch itself, without the framework's reflection. It passes
// every other request on to the framework, whose handler publishes one event too,
// and names all faults of a request.
func (s *server) publish(api huma.API, op operation, ctx huma.Context, next func(huma.Context)) {
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

// Kinds of bodies, by their content type.
const (
	kindOther       = iota
	kindEvent       // an event, or {"events":[…]}
	kindCloudEvent  // in the JSON format of CloudEvents 1.0
	kindCloudEvents // in its JSON batch format
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

// readAndRestoreBody reads the body of a request, which then can be read again. On an
// error the next reader gets the same bytes and the same error.
func readAndRestoreBody(ctx huma.Context) ([]byte, error) {
	const step = 32 << 10
	r := requestOf(ctx)
	if r.ContentLength == 0 || r.Body == nil {
		return nil, nil
	}
	_ = ctx.SetReadDeadline(time.Now().Add(bodyGrace)) // a recorder has none
	from, announced := r.Body, int(r.ContentLength)
	raw := make([]byte, 0, min(uint(announced)+1, step)) // one more, to see the end
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

// reread is a body that is read again. It closes the first one.
type restoredBody struct {
	io.Reader
	io.Closer
}

// publishing is a request to publish.
type publishCall struct {
	*server
	api huma.API
	op  operation
	ctx huma.Context
	by  caller
}

// parse reads a body in order, with one event. It reports false for any other.
func (p *publishCall) parse(raw []byte) (x parsedEvent, ok bool) {
	key := p.ctx.Header("Idempotency-Key")
	body, ok := parsePublish(raw)
	if !ok || len(body.check(key)) > 0 {
		return x, false
	}
	body.IdempotencyKey = cmp.Or(body.IdempotencyKey, key)
	return parsedEvent{EventPublish: body, traceparent: p.ctx.Header("traceparent")}, true
}

// one publishes an event and answers.
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
	_, _ = p.ctx.BodyWriter().Write(append(b, "}\n"...)) // the client may be gone
}

// begin writes the head of an answer.
func (p *publishCall) writeHeader(status int) {
	_ = requestOf(p.ctx).Body.Close() // it was read to its end
	kind, err := p.api.Negotiate(p.ctx.Header("Accept"))
	if err != nil || status >= http.StatusBadRequest {
		kind = map[bool]string{true: problemType, false: "application/json"}[status >= http.StatusBadRequest]
	}
	p.ctx.SetHeader("Content-Type", kind)
	p.ctx.SetStatus(status)
}

// refuse answers an error.
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
	_ = p.api.Marshal(p.ctx.BodyWriter(), problemType, whole) // the client may be gone
}

// notJSON is the error for a body that is not JSON.
func notJSON(raw []byte) error {
	return &eventhook.Error{Kind: eventhook.KindMalformed, Message: notValid, Faults: eventhook.Faults{{Location: "body", Message: syntaxMessage(raw)}}}
}
