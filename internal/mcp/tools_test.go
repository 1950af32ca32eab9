package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/eventhook/eventhook/client"
)

func TestEachOperationThatReadsATenantIsAToolOrOmitted(t *testing.T) {
	raw, err := openAPI()
	if err != nil {
		t.Fatal(err)
	}
	_, operations, err := readDocument(raw)
	if err != nil {
		t.Fatal(err)
	}
	byID := map[string]tool{}
	var posts []string
	for _, x := range tools {
		byID[x.operation] = x
		if operations[x.operation].method == "POST" && !x.changes {
			posts = append(posts, x.operation)
		}
	}
	for id, op := range operations {
		_, isTool := byID[id]
		_, isOmitted := omitted[id]
		isRead := op.method == "GET" && strings.HasPrefix(op.path, "/api/tenants/{tenant}/")
		if isRead && isTool == isOmitted || !isRead && isOmitted {
			t.Errorf("%s: tool %t, omitted %t, want one of them for an operation that reads a tenant's data", id, isTool, isOmitted)
		}
	}
	for id := range omitted {
		if _, known := operations[id]; !known {
			t.Errorf("%s is omitted, but no operation", id)
		}
	}
	want := []string{"search-events", "test-event", "test-source", "test-expression", "backtest-route"}
	if !slices.Equal(posts, want) {
		t.Errorf("tools without AllowWrites that are POST requests: %v, want %v, which store nothing", posts, want)
	}
}

func TestInputsAreSchemasWithoutExamples(t *testing.T) {
	for name, x := range listTools(t, connect(t, newServer(t, true, nil))) {
		raw, err := json.Marshal(x.InputSchema)
		if err != nil {
			t.Fatal(err)
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		c := jsonschema.NewCompiler()
		if err := c.AddResource(name, value); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Compile(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, unwanted := range []string{`"examples":[`, `components/schemas`, `"tenant":{`} {
			if bytes.Contains(raw, []byte(unwanted)) {
				t.Errorf("%s: the schema %.300s contains %s", name, raw, unwanted)
			}
		}
		schema := x.InputSchema.(map[string]any)
		properties, _ := schema["properties"].(map[string]any)
		for argument, property := range properties {
			about := property.(map[string]any)
			_, isReference := about["$ref"]
			if about["description"] == nil && !isReference {
				t.Errorf("%s: the argument %s has no description", name, argument)
			}
			if about["type"] == "integer" && about["maximum"] == nil {
				t.Errorf("%s: the number %s has no maximum", name, argument)
			}
		}
		if x.Title == "" || !strings.HasPrefix(x.Description, x.Title+".") {
			t.Errorf("%s: title %q and description %q, want both", name, x.Title, x.Description)
		}
	}
}

// An argument has one place: the path, the query or the body.
func TestArgumentsHaveOnePlace(t *testing.T) {
	raw, err := openAPI()
	if err != nil {
		t.Fatal(err)
	}
	doc, operations, err := readDocument(raw)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range tools {
		op := operations[x.operation]
		members, _ := doc.body(op)["properties"].(schema)
		for _, p := range op.Parameters {
			if _, both := members[p.Name]; both {
				t.Errorf("%s: %s is a parameter and a member of the body", x.operation, p.Name)
			}
		}
	}
}

func TestCallsBecomeRequests(t *testing.T) {
	g := &gateway{answer: `{}`}
	session := connect(t, newServer(t, true, g.do))
	const base = "/api/tenants/{tenant}/eventhook"
	for _, c := range []struct {
		tool, arguments string
		want            client.Request
	}{
		{"list_events", `{"status":"dead","event_type":"a&b","received_after":"2026-01-01T00:00:00Z","limit":3}`,
			client.Request{Method: "GET", Path: base + "/events",
				Query: url.Values{"status": {"dead"}, "event_type": {"a&b"}, "received_after": {"2026-01-01T00:00:00Z"}, "limit": {"3"}}}},
		{"list_sources", ``, client.Request{Method: "GET", Path: base + "/sources", Query: url.Values{"limit": {"20"}}}},
		{"list_sources", `{"cursor":null}`, client.Request{Method: "GET", Path: base + "/sources", Query: url.Values{"limit": {"20"}}}},
		{"get_route", `{"slug":"git hub","id":"r/1"}`, client.Request{Method: "GET", Path: base + "/sources/{slug}/routes/{id}",
			Names: map[string]string{"slug": "git hub", "id": "r/1"}}},
		{"get_promise", `{"id":"p","wait_seconds":2}`, client.Request{Method: "GET", Path: base + "/promises/{id}",
			Names: map[string]string{"id": "p"}, Query: url.Values{"wait_seconds": {"2"}}}},
		{"search_events", `{"filter":{"body.id":12345678901234567890},"received_after":"2026-01-01T00:00:00Z"}`,
			client.Request{Method: "POST", Path: base + "/events/search",
				Body: []byte(`{"filter":{"body.id":12345678901234567890},"received_after":"2026-01-01T00:00:00Z"}`)}},
		{"test_event", `{"id":"e"}`, client.Request{Method: "POST", Path: base + "/events/{id}/test", Names: map[string]string{"id": "e"}}},
		{"replay_subscription", `{"id":"s","since":"2026-01-01T00:00:00Z","missing":true,"expected_count":4}`,
			client.Request{Method: "POST", Path: base + "/subscriptions/{id}/replay", Names: map[string]string{"id": "s"},
				Body: []byte(`{"expected_count":4,"missing":true,"since":"2026-01-01T00:00:00Z"}`)}},
	} {
		g.requests = nil
		if c.want.Names == nil {
			c.want.Names = map[string]string{}
		}
		if c.want.Query == nil {
			c.want.Query = url.Values{}
		}
		c.want.Names["tenant"] = "acme"
		texts, isError := call(t, session, c.tool, c.arguments)
		if isError || len(g.requests) != 1 {
			t.Fatalf("%s: got %q and %d requests, want one request", c.tool, texts, len(g.requests))
		}
		if diff := cmp.Diff(c.want, g.requests[0]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.tool, diff)
		}
	}
}

func TestFaultyCallsAreExplainedAndNotSent(t *testing.T) {
	g := &gateway{answer: `{}`}
	session := connect(t, newServer(t, true, g.do))
	for _, c := range []struct{ claim, tool, arguments, want string }{
		{"an unknown argument", "list_sources", `{"slug":"x"}`, `"slug" is no argument; the arguments of list_sources are: cursor, limit`},
		{"another tenant", "list_sources", `{"tenant":"other"}`, `"tenant" is no argument`},
		{"a missing name", "get_event", `{}`, "id is required"},
		{"a null name", "get_event", `{"id":null}`, "id is required"},
		{"all faults", "get_route", `{"x":1}`, `"x" is no argument; id is required; slug is required`},
		{"many deliveries without their number", "retry_deliveries", `{"filter":{},"limit":9}`, "expected_count is required"},
		{"a replay without its number", "replay_subscription", `{"id":"s","since":"2026-01-01T00:00:00Z"}`, "expected_count is required"},
		{"many events without their number", "reprocess_events", `{"event_ids":["e"]}`, "expected_count is required"},
		{"large arguments", "search_events", `{"filter":{"a":"` + strings.Repeat("x", maxArguments) + `"}}`, "larger than 1048576 bytes"},
	} {
		texts, isError := call(t, session, c.tool, c.arguments)
		if !isError || !strings.Contains(texts[0], c.want) {
			t.Errorf("%s: got %q, want the error %q", c.claim, texts, c.want)
		}
	}
	if len(g.requests) > 0 {
		t.Errorf("requests %v, want none", g.requests)
	}
}

// The page lists the tools as the server describes them.
func TestThePageListsTheTools(t *testing.T) {
	page, err := os.ReadFile("../../docs/mcp.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "| `") {
			listed[strings.TrimSpace(line)] = true
		}
	}
	scope := regexp.MustCompile(`with the scope (\w+)`)
	for name, x := range listTools(t, connect(t, newServer(t, true, nil))) {
		row := fmt.Sprintf("| `%s` | %s | `%s` |", name, x.Title, scope.FindStringSubmatch(x.Description)[1])
		if !listed[row] {
			t.Errorf("the page does not have the row %s", row)
		}
		delete(listed, row)
	}
	for row := range listed {
		t.Errorf("the page has the row %s, but no such tool exists", row)
	}
}
