package filter

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/payload"
)

// Fields is the set of event fields that a group of filters reads. Each field has a number, so that
// an event is searched once for all filters of the group. The zero Fields is empty and allows all
// paths.
type Fields struct {
	// IsPublished restricts paths to body and event: a published event has no headers and is no
	// CloudEvent.
	IsPublished bool
	readers     []fieldReader
	index       payload.Index // of the fields in JSON
	indexed     []int         // the numbers of the fields in index
	byPath      map[string]place
}

// fieldReader reads a field of an event. A missing field yields a result that does not exist.
type fieldReader func(s *Subject) gjson.Result

// place is the location of a field: its number and its reader.
type place struct {
	number int // -1 if there are more than maxNumbered fields
	read   fieldReader
	isJSON bool // the field is in the index
}

// maxNumbered limits the values that are cached for one event, since the authors of filters choose
// the number of paths. Fields without a number are read each time.
const maxNumbered = 20_000

// place returns the slot of a path. Calls with the same path return the same slot,
// unless maxNumbered is exceeded.
func (f *Fields) place(path string) (place, error) {
	if p, ok := f.byPath[path]; ok {
		return p, nil
	}
	read, err := f.compile(path)
	switch {
	case err != nil:
		return place{}, err
	case len(f.readers) >= maxNumbered:
		return place{number: -1, read: read}, nil
	case f.byPath == nil:
		f.byPath = map[string]place{}
	}
	p := place{number: len(f.readers), read: read}
	if in, err := payload.ParsePath(path); err == nil && f.index.Add(in, p.number) {
		p.isJSON, f.indexed = true, append(f.indexed, p.number)
	}
	f.readers, f.byPath[path] = append(f.readers, read), p
	return p, nil
}

func (f *Fields) compile(path string) (fieldReader, error) {
	kind, rest, _ := strings.Cut(path, ".")
	switch {
	case kind == "event":
		return compileEventField(path, rest)
	case kind == "body" && rest != "":
	case f.IsPublished:
		return nil, fmt.Errorf("%q is not a path: write body.<path> or event.<field>", eventhook.SanitizeLabel(path))
	case !slices.Contains(pathKinds, kind) || rest == "":
		return nil, fmt.Errorf("%q is not a path: write body.<path>, header.<name>, cloudevent.<path> or event.<field>", eventhook.SanitizeLabel(path))
	}
	if len(eventhook.PathParts(path)) > 1 {
		return nil, fmt.Errorf("%q joins several paths: write a condition for each path", eventhook.SanitizeLabel(path))
	}
	p, err := payload.ParsePath(path)
	if err != nil {
		return nil, err
	}
	if kind == "header" {
		return func(s *Subject) gjson.Result {
			if s.Meter.UseBytes(len(s.Event.Headers)) != nil {
				return gjson.Result{}
			}
			return textResult(s.View.Header(rest))
		}, nil
	}
	return func(s *Subject) gjson.Result { return s.View.At(p) }, nil
}

// pathKinds are the prefixes of paths into the webhook.
var pathKinds = []string{"body", "header", "cloudevent"}

// textResult returns a text as a JSON string. An empty text is a missing field.
func textResult(s string) gjson.Result {
	if s == "" {
		return gjson.Result{}
	}
	return gjson.Result{Type: gjson.String, Raw: s, Str: s}
}

// eventField is a property of the event that filters can read. It does not change when the event is
// retried.
type eventField struct {
	name string
	text func(*eventhook.Event) string // "" if the event does not have it
}

var eventFields = []eventField{
	{"content_type", func(e *eventhook.Event) string { return e.ContentType }},
	{"correlation_id", func(e *eventhook.Event) string { return e.CorrelationID }},
	{"id", func(e *eventhook.Event) string { return e.ID.String() }},
	{"idempotency_key", func(e *eventhook.Event) string { return e.IdempotencyKey }},
	{"origin", func(e *eventhook.Event) string { return string(e.Origin) }},
	{"received_at", func(e *eventhook.Event) string { return e.ID.Time().UTC().Format(time.RFC3339Nano) }},
	{"request_id", func(e *eventhook.Event) string { return e.RequestID }},
	{"source", sourceOf},
	{"source_ip", func(e *eventhook.Event) string { return e.SourceIP }},
	{"trace_id", func(e *eventhook.Event) string { return e.TraceID }},
	{"type", func(e *eventhook.Event) string { return e.EventType }},
}

// sourceOf returns the slug of an event's source, or the source that the publisher of the
// event gave.
func sourceOf(e *eventhook.Event) string {
	if e.SourceSlug == "" && e.Envelope != nil {
		return e.Envelope.Source
	}
	return e.SourceSlug
}

// bodySize is the only property that is a number.
const bodySize = "body_size"

func compileEventField(path, name string) (fieldReader, error) {
	if name == bodySize {
		return func(s *Subject) gjson.Result {
			n := len(s.Event.Body)
			return gjson.Result{Type: gjson.Number, Raw: strconv.Itoa(n), Num: float64(n)}
		}, nil
	}
	i := slices.IndexFunc(eventFields, func(f eventField) bool { return f.name == name })
	if i < 0 {
		return nil, fmt.Errorf("%q is not a field of an event: the fields are %s", eventhook.SanitizeLabel(path), strings.Join(eventFieldNames(), ", "))
	}
	return func(s *Subject) gjson.Result { return textResult(eventFields[i].text(s.Event)) }, nil
}

func eventFieldNames() []string {
	names := []string{"event." + bodySize}
	for _, f := range eventFields {
		names = append(names, "event."+f.name)
	}
	return names
}

// EventFields returns an event's properties for expressions and scripts, by their names in
// event.<field>. It omits properties that the event does not have.
func EventFields(e *eventhook.Event) map[string]any {
	values := make(map[string]any, len(eventFields)+1)
	values[bodySize] = int64(len(e.Body))
	for _, f := range eventFields {
		if text := f.text(e); text != "" {
			values[f.name] = text
		}
	}
	return values
}
