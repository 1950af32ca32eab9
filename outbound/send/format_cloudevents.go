package send

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/eventhook/eventhook"
)

// cloudEvent returns an event in the JSON format of CloudEvents 1.0, for the structured
// mode. Members of the envelope that CloudEvents does not know are extension attributes;
// a value that is not a string is its JSON text.
func cloudEvent(e *eventhook.Event) []byte {
	envelope := envelopeOf(e)
	var o object
	o.text("specversion", "1.0")
	o.id("id", e.ID)
	o.text("source", cloudSource(e, envelope))
	o.text("type", e.EventType)
	o.text("subject", textOf(envelope.Scope))
	o.b = e.ID.Time().AppendFormat(o.member("time"), quotedTimeLayout)
	o.text("datacontenttype", mediaJSON)
	o.text("tenantid", e.About().String())
	o.text("category", envelope.Category)
	o.text("actor", textOf(envelope.Actor))
	o.text("correlationid", e.CorrelationID)
	o.text("requestid", e.RequestID)
	o.text("traceid", e.Trace())
	o.text("metadata", textOf(envelope.Metadata))
	o.data(e)
	return append(o.b, '}')
}

// cloudSource returns the source of a CloudEvent, a URI reference that is not empty: the
// source of the event, or else its tenant.
func cloudSource(e *eventhook.Event, envelope eventhook.Envelope) string {
	switch source := envelope.Source; {
	case source == "":
		return "urn:uuid:" + e.About().String()
	case isURIReference(source):
		return source
	default:
		return url.PathEscape(source)
	}
}

func isURIReference(text string) bool {
	_, err := url.Parse(text)
	return err == nil && isPlain(text) && !strings.ContainsAny(text, "\"<>\\^`{|}")
}

// textOf returns a JSON string as its text, "" for null, and any other value as compact
// JSON.
func textOf(raw json.RawMessage) string {
	var text string
	if isNull(raw) {
		return ""
	}
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return ""
	}
	return b.String()
}
