package ingest

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/meter"
	"github.com/eventhook/eventhook/internal/payload"
)

// typeOf is the content type by which a body is looked into for its id. The
// header is not signed: with another one, a webhook could be sent again and
// again as one without an id. Providers that send JSON always do.
func (e *endpoint) typeOf(contentType string, body []byte) string {
	if start := bytes.TrimLeft(body, " \t\r\n"); e.jsonFirst && len(start) > 0 && (start[0] == '{' || start[0] == '[') && !payload.IsJSON(contentType) {
		return "application/json"
	}
	return contentType
}

// pathLimit is beyond what looking up all of a source's paths takes in the
// largest body: a key must not be missed.
const pathLimit = 10 * meter.EventLimit

// event is what becomes of a request to the source: its key is "" if nothing
// is at the source's paths.
func (e *endpoint) event(header http.Header, raw eventhook.Payload, now time.Time) *eventhook.Event {
	contentType := header.Get("Content-Type")
	view := payload.New(meter.New(context.Background(), pathLimit, nil), header, e.typeOf(contentType, raw.Body), raw.Body)
	key, _ := view.FirstText(e.keyPaths)
	eventType, _ := view.FirstText(e.typePaths)
	trace, _ := Trace(header.Get("Traceparent"))
	return &eventhook.Event{
		ID:             eventhook.NewID[eventhook.Event](now),
		TenantID:       e.source.TenantID,
		SourceID:       e.source.ID,
		SourceSlug:     e.source.Slug,
		Origin:         eventhook.OriginSource,
		EventType:      eventhook.Label(eventType),
		IdempotencyKey: eventhook.Key(key),
		ContentType:    eventhook.Label(contentType),
		BodySize:       len(raw.Body),
		TraceID:        trace,
		RequestID:      eventhook.Label(header.Get("X-Request-Id")),
		Payload:        raw,
	}
}
