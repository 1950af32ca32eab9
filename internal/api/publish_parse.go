package api

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/eventhook/eventhook"
)

// maxFastBesideData bounds the bytes besides the data that parsePublish accepts. It
// is less than maxValues, so that parsePublish need not count values.
const maxFastBesideData = 8 << 10

// parsePublish parses a single event in one pass and without copying its data. ok is
// false for every document with a fault and for some unusual valid documents;
// readPublish decides these and reports the faults. For a document that both accept,
// both return the same event.
func parsePublish(raw []byte) (b EventPublish, ok bool) {
	if !utf8.Valid(raw) {
		return b, false
	}
	s := scanner{raw: raw}
	if !s.consume('{') || s.next() == '}' {
		return b, false
	}
	var seen seenMembers
	for {
		name, ok := s.member()
		if !ok || name.isEscaped || !seen.read(&s, &b, string(name.raw)) {
			return b, false
		}
		if s.next() != ',' {
			break
		}
		s.at++
	}
	isWhole := s.consume('}') && s.isAtEnd()
	return b, isWhole && b.EventType != "" && len(b.Data) > 0 && len(b.Data) <= MaxData && len(raw)-len(b.Data) <= maxFastBesideData
}

// seenMembers records the members that a document has had so far.
type seenMembers struct{ eventType, data, key, scope, actor, correlation, metadata, source, category bool }

// read parses the value of a member. It returns false if the member is unknown or a
// duplicate.
func (p *seenMembers) read(s *scanner, b *EventPublish, name string) bool {
	switch name {
	case "event_type":
		return markSeen(&p.eventType) && s.shortText(&b.EventType)
	case "data":
		return markSeen(&p.data) && s.readRaw(&b.Data, false)
	case "idempotency_key":
		return markSeen(&p.key) && s.shortText(&b.IdempotencyKey)
	case "scope":
		return markSeen(&p.scope) && s.readRaw(&b.Scope, true)
	case "actor":
		return markSeen(&p.actor) && s.readRaw(&b.Actor, true)
	case "correlation_id":
		return markSeen(&p.correlation) && s.shortText(&b.CorrelationID)
	case "source":
		return markSeen(&p.source) && s.shortText(&b.Source)
	case "category":
		return markSeen(&p.category) && s.shortText(&b.Category)
	case "metadata":
		return markSeen(&p.metadata) && s.next() == '{' && s.readRaw((*json.RawMessage)(&b.Metadata), true)
	}
	return false
}

// markSeen sets seen and reports whether it was false before.
func markSeen(seen *bool) bool {
	before := *seen
	*seen = true
	return !before
}

// shortText consumes a string of at most eventhook.MaxKeyBytes bytes.
func (s *scanner) shortText(into *string) bool {
	if s.next() != '"' {
		return false
	}
	t, ok := s.string()
	if !ok {
		return false
	}
	*into = t.decoded()
	return len(*into) <= eventhook.MaxKeyBytes
}

func (s *scanner) readRaw(into *json.RawMessage, isStrict bool) (ok bool) {
	s.isStrict = isStrict
	*into, ok = s.valueBytes()
	return ok
}

// readPublish parses a single event and reports all its faults. header is the value
// of the header Idempotency-Key.
func (s *server) readPublish(d document[EventPublish], header string) (EventPublish, error) {
	body, shape, err := d.shapeWithRaw(s, maxBesideData, "data")
	if err != nil {
		return body, err
	}
	if len(body.Data) > MaxData {
		return body, tooLarge("body.data", MaxData)
	}
	return body, combinedError(shape, body.check(header))
}
