package send

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"unicode/utf8"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/payload"
)

// Body returns the body that subscribers receive for an event. It is the same at every
// attempt and for every subscriber, whether the event comes from memory or from the
// database: the members have a fixed order, and data has exactly the bytes that were
// published. Members that are null or empty are omitted.
func Body(e *eventhook.Event) []byte {
	envelope := envelopeOf(e)
	const overhead = 512 // estimated bytes of names, ids, quotes and commas
	o := object{make([]byte, 0, overhead+len(e.Body)+len(e.EventType)+len(envelope.Scope)+len(envelope.Actor)+len(envelope.Metadata))}
	o.id("event_id", e.ID)
	o.text("event_type", e.EventType)
	o.text("category", envelope.Category)
	o.b = e.ID.Time().AppendFormat(o.member("timestamp"), quotedTimeLayout)
	o.id("tenant_id", e.About())
	o.text("source", envelope.Source)
	o.compact("scope", envelope.Scope)
	o.compact("actor", envelope.Actor)
	o.data(e)
	o.text("correlation_id", e.CorrelationID)
	o.text("request_id", e.RequestID)
	o.text("trace_id", e.Trace())
	o.compact("metadata", envelope.Metadata)
	return append(o.b, '}')
}

// timeLayout is the layout of times in UTC in messages, quotedTimeLayout as a JSON string.
const (
	timeLayout       = "2006-01-02T15:04:05.000Z"
	quotedTimeLayout = `"` + timeLayout + `"`
)

func envelopeOf(e *eventhook.Event) eventhook.Envelope {
	if e.Envelope == nil {
		return eventhook.Envelope{}
	}
	return *e.Envelope
}

// object is a JSON object under construction, without its closing brace.
type object struct{ b []byte }

// member appends the name of a member. The caller appends the value.
func (o *object) member(name string) []byte {
	separator := byte(',')
	if len(o.b) == 0 {
		separator = '{'
	}
	o.b = append(o.b, separator, '"')
	o.b = append(o.b, name...)
	return append(o.b, '"', ':')
}

func (o *object) text(name, value string) {
	if value != "" {
		o.b = payload.AppendJSONString(o.member(name), value)
	}
}

func (o *object) id(name string, id [16]byte) {
	o.b = append(eventhook.EventID(id).AppendText(append(o.member(name), '"')), '"') // ids of all types have the same text form
}

// compact appends a value as json.Marshal encodes it, with valid UTF-8. The result is the
// same after the value was stored as part of another JSON document.
func (o *object) compact(name string, value json.RawMessage) {
	if isNull(value) || !json.Valid(value) {
		return
	}
	o.b = appendCompact(o.member(name), bytes.ToValidUTF8(value, []byte("\uFFFD")))
}

// data appends the published bytes unchanged. Published events are JSON. For other events,
// data that is not JSON becomes a string, and data that is not text becomes
// {"base64":"…"}, as for workers. An event without data, for example past its retention,
// has no such member.
func (o *object) data(e *eventhook.Event) {
	switch {
	case isNull(e.Body):
	case e.Envelope != nil || json.Valid(e.Body):
		o.b = append(o.member("data"), e.Body...)
	case utf8.Valid(e.Body):
		o.b = payload.AppendJSONString(o.member("data"), string(e.Body))
	default:
		o.b = append(o.member("data"), `{"base64":"`...)
		o.b = append(base64.StdEncoding.AppendEncode(o.b, e.Body), `"}`...)
	}
}

func isNull(value []byte) bool {
	value = bytes.Trim(value, " \n\r\t")
	return len(value) == 0 || string(value) == "null"
}

// appendCompact appends valid JSON without white space, and escapes the characters that
// json.Marshal escapes. It is idempotent.
func appendCompact(b, value []byte) []byte {
	const digits = "0123456789abcdef"
	inText := false
	for i := 0; i < len(value); i++ {
		c := value[i]
		switch {
		case c == '\\':
			b = append(b, c, value[i+1]) // valid JSON has a character after a backslash
			i++
		case c == '<' || c == '>' || c == '&':
			b = append(b, '\\', 'u', '0', '0', digits[c>>4], digits[c&0xf])
		case c == 0xE2 && i+2 < len(value) && value[i+1] == 0x80 && value[i+2]&^1 == 0xA8: // U+2028, U+2029
			b = append(b, '\\', 'u', '2', '0', '2', digits[value[i+2]&0xf])
			i += 2
		case !inText && (c == ' ' || c == '\n' || c == '\r' || c == '\t'):
		default:
			inText = inText != (c == '"')
			b = append(b, c)
		}
	}
	return b
}
