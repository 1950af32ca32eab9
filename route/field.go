package route

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

// fields are the places in events that the filters of a program look at. Each
// has a number, so that an event is searched once for all filters.
type fields struct {
	list   []field
	byPath map[string]int
}

type field struct {
	path string
	look func(s *subject) gjson.Result // of a kind that does not exist if nothing is there
}

// number is a path's number, the same for the same path.
func (f *fields) number(path string) (int, error) {
	if n, ok := f.byPath[path]; ok {
		return n, nil
	}
	look, err := compileField(path)
	if err != nil {
		return 0, err
	}
	if f.byPath == nil {
		f.byPath = map[string]int{}
	}
	n := len(f.list)
	f.list, f.byPath[path] = append(f.list, field{path: path, look: look}), n
	return n, nil
}

func compileField(path string) (func(*subject) gjson.Result, error) {
	kind, rest, _ := strings.Cut(path, ".")
	if kind == "event" {
		return compileEventField(path, rest)
	}
	if (kind != "body" && kind != "header") || rest == "" {
		return nil, fmt.Errorf("%q is not a path: write body.<path>, header.<name> or event.<field>", eventhook.Label(path))
	}
	if len(eventhook.PathParts(path)) > 1 {
		return nil, fmt.Errorf("%q joins several paths: compare each", eventhook.Label(path))
	}
	p, err := payload.ParsePath(path)
	if err != nil {
		return nil, err
	}
	if kind == "body" {
		return func(s *subject) gjson.Result { return s.view.At(p) }, nil
	}
	return func(s *subject) gjson.Result { return textResult(s.view.Header(rest)) }, nil
}

// textResult is a text as JSON; an empty one is nothing.
func textResult(s string) gjson.Result {
	if s == "" {
		return gjson.Result{}
	}
	return gjson.Result{Type: gjson.String, Raw: s, Str: s}
}

// eventField is what expressions may know of an event beside what came with
// it. All of it stays the same when the event is tried again.
type eventField struct {
	name string
	text func(*eventhook.Event) string // "" for none
}

var eventFields = []eventField{
	{"content_type", func(e *eventhook.Event) string { return e.ContentType }},
	{"correlation_id", func(e *eventhook.Event) string { return e.CorrelationID }},
	{"id", func(e *eventhook.Event) string { return e.ID.String() }},
	{"idempotency_key", func(e *eventhook.Event) string { return e.IdempotencyKey }},
	{"origin", func(e *eventhook.Event) string { return string(e.Origin) }},
	{"received_at", func(e *eventhook.Event) string { return e.ID.Time().UTC().Format(time.RFC3339Nano) }},
	{"request_id", func(e *eventhook.Event) string { return e.RequestID }},
	{"source", func(e *eventhook.Event) string { return e.SourceSlug }},
	{"source_ip", func(e *eventhook.Event) string { return e.SourceIP }},
	{"trace_id", func(e *eventhook.Event) string { return e.TraceID }},
	{"type", func(e *eventhook.Event) string { return e.EventType }},
}

// bodySize is the one field that is a number.
const bodySize = "body_size"

func compileEventField(path, name string) (func(*subject) gjson.Result, error) {
	if name == bodySize {
		return func(s *subject) gjson.Result {
			n := len(s.event.Body)
			return gjson.Result{Type: gjson.Number, Raw: strconv.Itoa(n), Num: float64(n)}
		}, nil
	}
	i := slices.IndexFunc(eventFields, func(f eventField) bool { return f.name == name })
	if i < 0 {
		return nil, fmt.Errorf("%q is no field of an event: there are %s", eventhook.Label(path), strings.Join(eventFieldNames(), ", "))
	}
	return func(s *subject) gjson.Result { return textResult(eventFields[i].text(s.event)) }, nil
}

func eventFieldNames() []string {
	names := []string{"event." + bodySize}
	for _, f := range eventFields {
		names = append(names, "event."+f.name)
	}
	return names
}

// fieldsOf are an event's fields for expressions and scripts; what an event
// has not is left out.
func fieldsOf(e *eventhook.Event) map[string]any {
	values := make(map[string]any, len(eventFields)+1)
	values[bodySize] = int64(len(e.Body))
	for _, f := range eventFields {
		if text := f.text(e); text != "" {
			values[f.name] = text
		}
	}
	return values
}
