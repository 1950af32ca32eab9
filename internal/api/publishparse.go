package api

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/eventhook/eventhook"
)

// mostAroundFast bounds the bytes beside the data that parsePublish reads: fewer
// than mostValues, so that it need not count them.
const mostAroundFast = 8 << 10

// parsePublish reads the document of an event in one pass and without a copy of
// its data. It reports false for every document with a fault, and for unusual ones
// without: readPublish decides these, and names the faults. For a document that
// both accept they return the same.
func parsePublish(raw []byte) (b EventPublish, ok bool) {
	if !utf8.Valid(raw) {
		return b, false
	}
	s := scanner{raw: raw}
	if !s.take('{') || s.next() == '}' {
		return b, false
	}
	var seen publishMembers
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
	isWhole := s.take('}') && s.isAtEnd()
	return b, isWhole && b.EventType != "" && len(b.Data) > 0 && len(b.Data) <= MaxData && len(raw)-len(b.Data) <= mostAroundFast
}

// publishMembers are the names that a document has had.
type publishMembers struct{ eventType, data, key, scope, actor, correlation, metadata bool }

// read reads the value of a member, which must be known and not read before.
func (p *publishMembers) read(s *scanner, b *EventPublish, name string) bool {
	switch name {
	case "event_type":
		return first(&p.eventType) && s.shortText(&b.EventType)
	case "data":
		return first(&p.data) && s.raws(&b.Data, false)
	case "idempotency_key":
		return first(&p.key) && s.shortText(&b.IdempotencyKey)
	case "scope":
		return first(&p.scope) && s.raws(&b.Scope, true)
	case "actor":
		return first(&p.actor) && s.raws(&b.Actor, true)
	case "correlation_id":
		return first(&p.correlation) && s.shortText(&b.CorrelationID)
	case "metadata":
		return first(&p.metadata) && s.next() == '{' && s.raws((*json.RawMessage)(&b.Metadata), true)
	}
	return false
}

func first(seen *bool) bool {
	before := *seen
	*seen = true
	return !before
}

// shortText reads a string of at most as many bytes as a key may have.
func (s *scanner) shortText(into *string) bool {
	if s.next() != '"' {
		return false
	}
	t, ok := s.text()
	if !ok {
		return false
	}
	*into = t.decoded()
	return len(*into) <= eventhook.MaxKeyBytes
}

func (s *scanner) raws(into *json.RawMessage, isStrict bool) (ok bool) {
	s.isStrict = isStrict
	*into, ok = s.span()
	return ok
}

// readPublish reads the document of an event and names all its faults. header is
// the header with the key.
func (s *server) readPublish(d document[EventPublish], header string) (EventPublish, error) {
	body, shape, err := d.shapeAround(s, maxAround, "data")
	if err != nil {
		return body, err
	}
	if len(body.Data) > MaxData {
		return body, tooLarge("body.data", MaxData)
	}
	return body, together(shape, body.check(header))
}
