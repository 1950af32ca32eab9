package ingest

import (
	"encoding/base64"
	"net/http"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/payload"
	"github.com/eventhook/eventhook/verify"
)

// signedHash returns the hash of the signed content of a request in base64, by which a
// second request with the same content is a duplicate. It returns "" if the source does not
// deduplicate by signed content.
func (s *source) signedHash(r *verify.Request) string {
	if !s.deduplicatesSigned {
		return ""
	}
	sum := verify.SignedHash(s.verifier, r)
	return base64.RawStdEncoding.EncodeToString(sum[:])
}

// verifierMemory returns the memory that the verifier allocates for a request, in bytes.
func (s *source) verifierMemory(r *verify.Request) int {
	if s.verifierBytes == nil {
		return 0
	}
	return s.verifierBytes(r.Header.Get("Content-Type"), r.Body)
}

// newEvent returns the event of a request. Its IdempotencyKey is "" if none of the source's
// paths finds a value.
func (s *source) newEvent(header http.Header, raw eventhook.Payload, view *payload.View, now time.Time) *eventhook.Event {
	contentType := header.Get("Content-Type")
	key, _ := view.FirstText(s.keyPaths)
	eventType, _ := view.FirstText(s.typePaths)
	trace, _, _ := TraceOf(header)
	return &eventhook.Event{
		ID:             eventhook.NewID[eventhook.Event](now),
		TenantID:       s.config.TenantID,
		SourceID:       s.config.ID,
		SourceSlug:     s.config.Slug,
		Origin:         eventhook.OriginSource,
		EventType:      eventhook.SanitizeLabel(eventType),
		IdempotencyKey: eventhook.NormalizeKey(key),
		ContentType:    eventhook.SanitizeLabel(contentType),
		BodySize:       len(raw.Body),
		TraceID:        trace,
		RequestID:      eventhook.SanitizeLabel(header.Get(RequestIDHeader)),
		Payload:        raw,
	}
}
