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

// Fields are the places in events that filters look at which are held against
// the same events. Each has a number, so that an event is searched once for all
// filters. Zero Fields have none yet, and allow all paths.
type Fields struct {
	// IsPublished says that the events are published ones, which are data: body
	// and event are all there is of them.
	IsPublished bool
	list        []look
	index       payload.Index // of those that lead into JSON
	indexed     []int         // their numbers
	byPath      map[string]place
}

// look finds what an event has in a field, of a kind that does not exist if
// nothing is there.
type look func(s *Subject) gjson.Result

// place is a field by its number or, beyond mostNumbered, by how to look.
type place struct {
	number int
	look   look
	isJSON bool // it is in the index
}

// mostNumbered bounds what is kept of one event: whoever can write filters
// chooses how many paths there are. What has no number is looked for each time.
const mostNumbered = 20_000

// place finds a path's place, the same for the same path.
func (f *Fields) place(path string) (place, error) {
	if p, ok := f.byPath[path]; ok {
		return p, nil
	}
	look, err := f.compile(path)
	switch {
	case err != nil:
		return place{}, err
	case len(f.list) >= mostNumbered:
		return place{number: -1, look: look}, nil
	case f.byPath == nil:
		f.byPath = map[string]place{}
	}
	p := place{number: len(f.list), look: look}
	if in, err := payload.ParsePath(path); err == nil && f.index.Add(in, p.number) {
		p.isJSON, f.indexed = true, append(f.indexed, p.number)
	}
	f.list, f.byPath[path] = append(f.list, look), p
	return p, nil
}

func (f *Fields) compile(path string) (look, error) {
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
		return nil, fmt.Errorf("%q joins several paths: compare each", eventhook.SanitizeLabel(path))
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

// pathKinds are the kinds of paths into what came with an event.
var pathKinds = []string{"body", "header", "cloudevent"}

// textResult is a text as JSON; an empty one is nothing.
func textResult(s string) gjson.Result {
	if s == "" {
		return gjson.Result{}
	}
	return gjson.Result{Type: gjson.String, Raw: s, Str: s}
}

// eventField is what filters may know of an event beside what came with
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

func compileEventField(path, name string) (look, error) {
	if name == bodySize {
		return func(s *Subject) gjson.Result {
			n := len(s.Event.Body)
			return gjson.Result{Type: gjson.Number, Raw: strconv.Itoa(n), Num: float64(n)}
		}, nil
	}
	i := slices.IndexFunc(eventFields, func(f eventField) bool { return f.name == name })
	if i < 0 {
		return nil, fmt.Errorf("%q is no field of an event: there are %s", eventhook.SanitizeLabel(path), strings.Join(eventFieldNames(), ", "))
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

// EventFields are an event's fields for expressions and scripts, by the names that
// they have in event.<field>; what an event has not is left out.
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
