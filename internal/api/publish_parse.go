package api

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/eventhook/eventhook"
)

// maxFastBesideData bounds the bytes beside the data that parsePublish reads: fewer
// than maxValues, so that it need not count them.
const maxFastBesideData = 8 << 10

// parsePublish reads the document of an event in one pass and without a copy of
// its data. It reports false for every document with a fault, and for unusual ones
// without: readPublish decides these, and names the faults. For a document that
// both accept they return the same.
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

// seenMembers are the names that a document has had.
type seenMembers struct{ eventType, data, key, scope, actor, correlation, metadata bool }

// read reads the value of a member, which must be known and not read before.
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
	case "metadata":
		return markSeen(&p.metadata) && s.next() == '{' && s.readRaw((*json.RawMessage)(&b.Metadata), true)
	}
	return false
}

func markSeen(seen *bool) bool {
	before := *seen
	*seen = true
	return !before
}

// shortText reads a string of at most as many bytes as a key may have.
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

// readPublish reads the document of an event and names all its faults. header is
// the header with the key.
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
