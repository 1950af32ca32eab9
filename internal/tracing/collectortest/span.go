package collectortest

import (
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
)

// Span is a span that a Collector received. Ids are in hexadecimal.
type Span struct {
	Name       string
	Kind       string // server, client, producer, consumer or internal
	Trace      string
	ID         string
	Parent     string // "" for a root
	Began      time.Time
	Ended      time.Time
	Attributes map[string]any // a string, an int64, a bool or a float64
	Resource   map[string]any
	Links      []Link
	Failed     bool
	Message    string // of the status
}

// Link is a link of a span to another.
type Link struct{ Trace, ID string }

// Spans is a list of spans.
type Spans []Span

// Of returns the spans of a trace.
func (s Spans) Of(trace string) (some Spans) {
	for _, x := range s {
		if x.Trace == trace {
			some = append(some, x)
		}
	}
	return some
}

// Named returns the spans with a name.
func (s Spans) Named(name string) (some Spans) {
	for _, x := range s {
		if x.Name == name {
			some = append(some, x)
		}
	}
	return some
}

// String shows the spans of a list as text, one in a line.
func (s Spans) String() string {
	var b strings.Builder
	for _, x := range s {
		fmt.Fprintf(&b, "%s %s/%s (parent %s) %s %v\n", x.Kind, x.Trace, x.ID, x.Parent, x.Name, x.Attributes)
	}
	return b.String()
}

func newSpan(x *otlp.Span, resource map[string]any) Span {
	s := Span{
		Name: x.GetName(), Kind: strings.ToLower(strings.TrimPrefix(x.GetKind().String(), "SPAN_KIND_")),
		Trace: hex.EncodeToString(x.GetTraceId()), ID: hex.EncodeToString(x.GetSpanId()), Parent: hex.EncodeToString(x.GetParentSpanId()),
		Began: time.Unix(0, int64(x.GetStartTimeUnixNano())), Ended: time.Unix(0, int64(x.GetEndTimeUnixNano())),
		Attributes: valuesOf(x.GetAttributes()), Resource: resource,
		Failed: x.GetStatus().GetCode() == otlp.Status_STATUS_CODE_ERROR, Message: x.GetStatus().GetMessage(),
	}
	for _, l := range x.GetLinks() {
		s.Links = append(s.Links, Link{hex.EncodeToString(l.GetTraceId()), hex.EncodeToString(l.GetSpanId())})
	}
	return s
}

func valuesOf(list []*common.KeyValue) map[string]any {
	values := map[string]any{}
	for _, a := range list {
		switch v := a.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			values[a.GetKey()] = v.StringValue
		case *common.AnyValue_IntValue:
			values[a.GetKey()] = v.IntValue
		case *common.AnyValue_BoolValue:
			values[a.GetKey()] = v.BoolValue
		case *common.AnyValue_DoubleValue:
			values[a.GetKey()] = v.DoubleValue
		}
	}
	return values
}
