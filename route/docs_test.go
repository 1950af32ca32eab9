package route_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/eventhook/eventhook"
)

var block = regexp.MustCompile("(?ms)^```(json route|json event|http event|text)\n(.*?)\n```$")

// TestTheExamplesOfThePageAreTrue evaluates the examples of docs/routing.md: an event, in JSON or as an
// HTTP request, for the route before it. The text after the event is the expected outcome.
func TestTheExamplesOfThePageAreTrue(t *testing.T) {
	page, err := os.ReadFile("../docs/routing.md")
	if err != nil {
		t.Fatal(err)
	}
	var r eventhook.Route
	var e *eventhook.Event
	examples := 0
	for _, b := range block.FindAllStringSubmatch(string(page), -1) {
		switch kind, text := b[1], b[2]; kind {
		case "json route":
			r = routeOfPage(t, text)
		case "json event":
			e = eventOfPage(t, text)
		case "http event":
			e = sent(text)
		case "text":
			if got := outcomeOfPage(t, r, e); got != text {
				t.Errorf("%s\non %s\ngot  %s\nwant %s", r.Name, e.Body, got, text)
			}
			examples++
		}
	}
	if minExamples := 26; examples < minExamples {
		t.Errorf("got %d examples, want at least %d", examples, minExamples)
	}
}

func routeOfPage(t *testing.T, text string) eventhook.Route {
	t.Helper()
	var fields struct {
		FilterEventTypes []string             `json:"filter_event_types"`
		Filter           json.RawMessage      `json:"filter"`
		FilterExpression string               `json:"filter_expression"`
		FilterFunction   string               `json:"filter_function"`
		Transform        *eventhook.Transform `json:"transform"`
	}
	decode(t, text, &fields)
	r := enabled(eventhook.Route{Name: text, FilterEventTypes: fields.FilterEventTypes, Filter: fields.Filter, FilterExpression: fields.FilterExpression,
		FilterFunction: fields.FilterFunction, Transform: fields.Transform, Targets: []eventhook.Target{{Type: "task", Settings: []byte(`{"task_kind":"k"}`)}}})
	if faults := check(t, r); len(faults) > 0 {
		t.Fatalf("%s: got %v, want no faults", text, faults)
	}
	return r
}

func eventOfPage(t *testing.T, text string) *eventhook.Event {
	t.Helper()
	var fields struct {
		Type    string            `json:"type"`
		Headers map[string]string `json:"headers"`
		Body    json.RawMessage   `json:"body"`
	}
	decode(t, text, &fields)
	var headers []string
	for _, name := range slices.Sorted(maps.Keys(fields.Headers)) {
		headers = append(headers, name+": "+fields.Headers[name])
	}
	e := carrying(string(fields.Body), headers...)
	e.EventType = fields.Type
	return e
}

func decode(t *testing.T, text string, into any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

func outcomeOfPage(t *testing.T, r eventhook.Route, e *eventhook.Event) string {
	x := explain(t, compileReal(r), e)[0]
	switch {
	case !x.Matched:
		return "does not match: " + x.Reason
	case x.Actions[0].Err != nil:
		return fmt.Sprintf("targets fail: %s", x.Actions[0].Err)
	case r.Transform != nil:
		return fmt.Sprintf("targets get %s", x.Actions[0].Input)
	}
	return "matches"
}
