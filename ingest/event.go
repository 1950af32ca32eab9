package ingest

import (
	"encoding/base64"
	"net/http"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/payload"
	"github.com/eventhook/eventhook/verify"
)

// signedHash is what the source claims of a verified request beside its key, ""
// if it claims nothing.
func (e *endpoint) signedHash(r *verify.Request) string {
	if !e.hashesSigned {
		return ""
	}
	sum := verify.SignedHash(e.verifier, r)
	return base64.RawStdEncoding.EncodeToString(sum[:])
}

// cost is the memory that verification of a request allocates, in bytes.
func (e *endpoint) cost(r *verify.Request) int {
	if e.verifyCost == nil {
		return 0
	}
	return e.verifyCost(r.Header.Get("Content-Type"), r.Body)
}

// event is what becomes of a request to the source: its key is "" if nothing
// is at the source's paths.
func (e *endpoint) event(header http.Header, raw eventhook.Payload, view *payload.View, now time.Time) *eventhook.Event {
	contentType := header.Get("Content-Type")
	key, _ := view.FirstText(e.keyPaths)
	eventType, _ := view.FirstText(e.typePaths)
	trace, _ := Trace(header.Get("Traceparent"))
	return &eventhook.Event{
		ID:             eventhook.NewID[eventhook.Event](now),
		TenantID:       e.source.TenantID,
		SourceID:       e.source.ID,
		SourceSlug:     e.source.Slug,
		Origin:         eventhook.OriginSource,
		EventType:      eventhook.SanitizeLabel(eventType),
		IdempotencyKey: eventhook.NormalizeKey(key),
		ContentType:    eventhook.SanitizeLabel(contentType),
		BodySize:       len(raw.Body),
		TraceID:        trace,
		RequestID:      eventhook.SanitizeLabel(header.Get("X-Request-Id")),
		Payload:        raw,
	}
}
