package match

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/meter"
	"github.com/eventhook/eventhook/internal/payload"
)

// OrderKeys returns the key of an event's delivery to each subscription in to, or nil if no
// subscription has OrderedBy. The meter counts the work. If the meter has an
// error afterwards, the result must not be used.
func OrderKeys(m *meter.Meter, e *eventhook.Event, to []*eventhook.Subscription) (keys []eventhook.OrderKey) {
	var reader orderReader
	for i, s := range to {
		if s.OrderedBy == "" {
			continue
		}
		if keys == nil {
			keys, reader = make([]eventhook.OrderKey, len(to)), newOrderReader(m, e)
		}
		keys[i] = reader.key(s.OrderedBy)
	}
	return keys
}

// OrderKey is OrderKeys for one subscription and a system event, whose data is small.
func OrderKey(orderedBy string, e *eventhook.Event) eventhook.OrderKey {
	if orderedBy == "" {
		return eventhook.OrderKey{}
	}
	m := meter.New(context.Background(), maxSystemEventSteps, nil)
	return newOrderReader(m, e).key(orderedBy)
}

// orderReader reads the values of one event that order its deliveries. Subscriptions of the
// same path share one key.
type orderReader struct {
	event *eventhook.Event
	meter *meter.Meter
	view  *payload.View
	known map[string]eventhook.OrderKey // by path
}

func newOrderReader(m *meter.Meter, e *eventhook.Event) orderReader {
	return orderReader{e, m, payload.New(m, payload.HeaderBlock(nil), "application/json", e.Body), map[string]eventhook.OrderKey{}}
}

func (r orderReader) key(path string) eventhook.OrderKey {
	key, ok := r.known[path]
	if !ok {
		if value, ok := r.value(path); ok {
			key = eventhook.OrderKeyOf(value)
		}
		r.known[path] = key
	}
	return key
}

// value returns the text, number, or boolean at a path of the event as receivers get it, as
// text. ok is false if the value is absent, null, an object, or an array.
// Spellings of one number, such as 7 and 7.0, are the same value.
func (r orderReader) value(path string) (value string, ok bool) {
	first, rest, _ := strings.Cut(path, ".")
	var envelope eventhook.Envelope
	if r.event.Envelope != nil {
		envelope = *r.event.Envelope
	}
	switch first {
	case "data":
		return scalar(at(r.view, rest))
	case "scope":
		return r.in(envelope.Scope, rest)
	case "actor":
		return r.in(envelope.Actor, rest)
	case "metadata":
		return r.in(envelope.Metadata, rest)
	}
	value = map[string]string{"event_type": r.event.EventType, "category": envelope.Category, "source": envelope.Source,
		"tenant_id": r.event.TenantID.String(), "correlation_id": r.event.CorrelationID}[first]
	return value, value != "" // receivers do not get an empty member
}

// in returns a value of a member of the envelope.
func (r orderReader) in(member json.RawMessage, path string) (value string, ok bool) {
	return scalar(at(payload.New(r.meter, payload.HeaderBlock(nil), "application/json", member), path))
}

// at returns the value at a path, or the whole view if the path is empty.
func at(v *payload.View, path string) json.RawMessage {
	if path == "" {
		return v.JSON()
	}
	p, err := payload.ParsePath("body." + path)
	if err != nil {
		return nil
	}
	found, _ := v.Raw(p)
	return found
}

// scalar returns a JSON text, number or boolean as text.
func scalar(raw json.RawMessage) (value string, ok bool) {
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0 || raw[0] == '{' || raw[0] == '[' || raw[0] == 'n':
		return "", false
	case raw[0] == '"':
		err := json.Unmarshal(raw, &value)
		return value, err == nil
	case raw[0] == 't' || raw[0] == 'f':
		return string(raw), true
	}
	return canonicalNumber(string(raw)), true
}

// canonicalNumber returns the same text for all spellings of a number that is a 64-bit
// float. Different integers keep different texts, whatever their size.
func canonicalNumber(text string) string {
	if strings.Trim(text, "0123456789") == "" {
		return text
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return text
	}
	return strconv.FormatFloat(n, 'f', -1, 64)
}
