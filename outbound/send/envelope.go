package send

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"unicode/utf8"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/payload"
)

// Body is what a subscriber receives of an event. It is the same at every
// attempt and for every subscriber, wherever the event was kept meanwhile: its
// members have one order, and data has exactly the bytes that were published.
// What is null or empty is left out.
func Body(e *eventhook.Event) []byte {
	var of eventhook.Envelope
	if e.Envelope != nil {
		of = *e.Envelope
	}
	const names = 512 // and ids, quotes and commas, about
	o := object{make([]byte, 0, names+len(e.Body)+len(e.EventType)+len(of.Scope)+len(of.Actor)+len(of.Metadata))}
	o.id("event_id", e.ID)
	o.text("event_type", e.EventType)
	o.text("category", of.Category)
	o.b = e.ID.Time().AppendFormat(o.member("timestamp"), `"2006-01-02T15:04:05.000Z"`)
	o.id("tenant_id", e.TenantID)
	o.text("source", of.Source)
	o.compact("scope", of.Scope)
	o.compact("actor", of.Actor)
	o.data(e)
	o.text("correlation_id", e.CorrelationID)
	o.text("request_id", e.RequestID)
	o.text("trace_id", e.Trace())
	o.compact("metadata", of.Metadata)
	return append(o.b, '}')
}

// object is a JSON object that is being written, without its end.
type object struct{ b []byte }

// member begins a member, whose value is to be appended.
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
	o.b = append(eventhook.EventID(id).AppendText(append(o.member(name), '"')), '"') // any id's text is the same
}

// compact writes a value as json.Marshal would, and as text, so that one which
// was stored within something else is still the same.
func (o *object) compact(name string, value json.RawMessage) {
	if isNull(value) || !json.Valid(value) {
		return
	}
	o.b = appendCompact(o.member(name), bytes.ToValidUTF8(value, []byte("\uFFFD")))
}

// data writes the published bytes as they are. Those of a published event are
// JSON; what is none would be a text, and what is no text {"base64":"…"}, as
// workers get it. Without data, such as past its retention, there is none.
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

// appendCompact appends valid JSON without white space, and with the characters
// escaped that json.Marshal escapes. Doing it again changes nothing.
func appendCompact(b, value []byte) []byte {
	const digits = "0123456789abcdef"
	inText := false
	for i := 0; i < len(value); i++ {
		c := value[i]
		switch {
		case c == '\\':
			b = append(b, c, value[i+1]) // there is one: it is valid
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
