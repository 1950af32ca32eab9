package configs_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/configs"
)

const routeText = "tenants:\n  - slug: acme\n    sources:\n      - slug: s\n        verifier: {type: none}\n        routes:\n" +
	"          - name: r\n            targets: [{type: task, task_kind: k}]\n"

func TestRouteConditionsAreParsed(t *testing.T) {
	got, faults := tenants(t, routeText+`            filter_event_types: [push]
            filter:
              body.amount: {$gte: 1000.50, $lt: 1e3}
              body.currency: [usd, "eur", 978]
              header.x-env: {$ne: test}
              body.paid: true
              body.note: null
              body.day: 2026-03-10
              "body.yes": yes
              $or: [{body.a: 12345678901234567890123}, {"body.b": "<&>"}]
              $not: {body.tag: {$regex: "^a$$"}}
            filter_expression: body.a == 1
            filter_function: "function filter(event) { return event.body.a === `+"`$${1}`"+` }"
            transform: {type: jmespath, expression: "{id: id}"}
`, nil)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	r := got[0].Sources[0].Routes[0]
	const want = `{"body.amount":{"$gte":1000.50,"$lt":1e3},"body.currency":["usd","eur",978],"header.x-env":{"$ne":"test"},"body.paid":true,` +
		`"body.note":null,"body.day":"2026-03-10","body.yes":"yes","$or":[{"body.a":12345678901234567890123},{"body.b":"<&>"}],"$not":{"body.tag":{"$regex":"^a$"}}}`
	if diff := cmp.Diff(want, string(r.Filter)); diff != "" {
		t.Errorf("filter (-want +got):\n%s", diff)
	}
	r.Filter = nil
	if diff := cmp.Diff(eventhook.Route{Name: "r", IsEnabled: true, FilterEventTypes: []string{"push"}, FilterExpression: "body.a == 1",
		FilterFunction: "function filter(event) { return event.body.a === `${1}` }",
		Transform:      &eventhook.Transform{Type: "jmespath", Expression: "{id: id}"},
		Targets:        []eventhook.Target{{Type: "task", Settings: []byte(`{"task_kind":"k"}`)}}}, r); diff != "" {
		t.Errorf("route (-want +got):\n%s", diff)
	}
}

func TestFilterMayBeNull(t *testing.T) {
	for _, filter := range []string{"", "            filter:\n", "            filter: null\n", "            filter: ~\n"} {
		got, faults := tenants(t, routeText+filter, nil)
		if len(faults) > 0 || got[0].Sources[0].Routes[0].Filter != nil {
			t.Errorf("%q: got %v, %v, want none", filter, got, faults)
		}
	}
}

func TestFilterMayUseAnchors(t *testing.T) {
	got, faults := tenants(t, routeText+"            filter: {body.a: &list [1, x], body.b: *list}\n", nil)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	if diff := cmp.Diff(json.RawMessage(`{"body.a":[1,"x"],"body.b":[1,"x"]}`), got[0].Sources[0].Routes[0].Filter); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRouteFaults(t *testing.T) {
	const at = "tenants[0].sources[0].routes[0]."
	bomb := "            filter:\n              a0: &a0 [1, 2, 3, 4, 5, 6, 7, 8]\n"
	for i := range 8 {
		last := "*a" + string(rune('0'+i))
		bomb += "              a" + string(rune('1'+i)) + ": &a" + string(rune('1'+i)) + " [" + strings.Repeat(last+", ", 7) + last + "]\n"
	}
	for _, c := range []struct {
		claim, text string
		want        []string // location: a part of the message
	}{
		{"CEL that does not compile", "            filter_expression: body.a ==\n", []string{at + "filter_expression: "}},
		{"JavaScript that does not compile", "            filter_function: \"function filter(event) {\"\n", []string{at + "filter_function: "}},
		{"JMESPath that does not compile", "            transform: {type: jmespath, expression: \"[\"}\n", []string{at + "transform.expression: "}},
		{"an unknown type of transform", "            transform: {type: awk, expression: x}\n", []string{at + "transform.type: awk"}},
		{"an unknown field of a transform", "            transform: {kind: jmespath}\n", []string{`line 9: "kind"`, at + "transform.type: jmespath", at + "transform.expression: required"}},
		{"several faults", "            filter_expression: \"(\"\n            filter: {body.a: {$gtee: 1}}\n            transform: {type: jmespath}\n            priority: 9000000\n",
			[]string{at + "priority: 9000000", at + "filter.body.a.$gtee: ", at + "filter_expression: ", at + "transform.expression: "}},
		{"an unknown operator", "            filter: {body.a: {$gtee: 1}}\n", []string{at + "filter.body.a.$gtee: "}},
		{"numbers that JSON does not have", "            filter: {body.a: 0x1F, body.b: [.inf, +1, 010]}\n",
			[]string{at + "filter.body.a: 0x1F", at + "filter.body.b[0]: .inf", at + "filter.body.b[1]: +1", at + "filter.body.b[2]: 010"}},
		{"a member twice", "            filter:\n              body.a: 1\n              \"body.a\": 2\n", []string{at + "filter.body.a: occurs twice"}},
		{"a key that is not a text", "            filter: {[a]: 1}\n", []string{at + "filter: field names"}},
		{"a merge", "            filter: {<<: {body.a: 1}}\n", []string{at + "filter: field names"}},
		{"binary data", "            filter: {body.a: !!binary aGk=}\n", []string{at + "filter.body.a: JSON has no !!binary"}},
		{"a list as a filter", "            filter: [body.a]\n", []string{at + "filter: "}},
		{"aliases without end", bomb, []string{at + "filter: larger than"}},
		{"an unknown field of a tenant", "    agents: []\n", []string{`line 9: "agents"`}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			_, faults := tenants(t, routeText+c.text, nil)
			if len(faults) != len(c.want) {
				t.Fatalf("got %q, want %q", faults, c.want)
			}
			for i, f := range faults {
				if at, part, _ := strings.Cut(c.want[i], ": "); f.Location != at || !strings.Contains(f.Message, part) {
					t.Errorf("got %q at %q, want %q", f.Message, f.Location, c.want[i])
				}
			}
		})
	}
}

// TestTargetFaults checks that targets are parsed as strictly as in the API, with the
// line of each fault.
func TestTargetFaults(t *testing.T) {
	const start = "tenants:\n  - slug: acme\n    sources:\n      - slug: s\n        verifier: {type: none}\n        routes:\n          - name: r\n            targets:\n"
	const at = "tenants[0].sources[0].routes[0].targets"
	for _, c := range []struct {
		claim, text string
		want        []string
	}{
		{"an unknown member", "              - type: task\n                task_kind: k\n                colour: red\n", []string{"t.yaml:11: " + at + "[0].colour"}},
		{"a member of another type of target", "              - {type: task, task_kind: k}\n              - type: task\n                task_kind: k\n                url: https://a.example\n",
			[]string{"t.yaml:12: " + at + "[1].url"}},
		{"wrong types", "              - type: http\n                url: [x]\n                headers: {A: 1}\n                timeout_seconds: soon\n",
			[]string{"t.yaml:10: " + at + "[0].url", "t.yaml:11: " + at + "[0].headers.A", "t.yaml:12: " + at + "[0].timeout_seconds"}},
		{"a number instead of a text", "              - type: task\n                task_kind: 7\n", []string{"t.yaml:10: " + at + "[0].task_kind"}},
		{"a text instead of a target", "              - task\n", []string{"t.yaml:9: " + at + "[0]"}},
		{"a member twice", "              - type: task\n                task_kind: k\n                task_kind: k\n", []string{"t.yaml:10: " + at + "[0].task_kind"}},
		{"the placeholder of a secret", "              - type: http\n                url: https://a.example\n                auth_header: \"[redacted]\"\n",
			[]string{"t.yaml:11: " + at + "[0].auth_header"}},
		{"none", "              []\n", []string{"t.yaml:8: " + at}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			_, err := configs.LoadTenants(file(t, "t.yaml", start+c.text), lookup(nil))
			if diff := cmp.Diff(c.want, locations(t, err)); diff != "" {
				t.Errorf("%v: locations (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestTargetsMayUseMergeKeys(t *testing.T) {
	got, faults := tenants(t, strings.Replace(routeText, "[{type: task, task_kind: k}]", "[&t {type: task, task_kind: k, queue: q}, *t, {<<: *t, task_kind: other}]", 1), nil)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	one := eventhook.Target{Type: "task", Settings: json.RawMessage(`{"queue":"q","task_kind":"k"}`)}
	other := eventhook.Target{Type: "task", Settings: json.RawMessage(`{"queue":"q","task_kind":"other"}`)}
	if diff := cmp.Diff([]eventhook.Target{one, one, other}, got[0].Sources[0].Routes[0].Targets); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRecursiveAliasIsRefused(t *testing.T) {
	for _, filter := range []string{"&a [*a]", "&a {x: *a}", "&a {\"\": *a}", "&a [*a, *a]"} {
		_, faults := tenants(t, routeText+"            filter: {body.a: "+filter+"}\n", nil)
		if len(faults) == 0 {
			t.Errorf("%s: got no fault", filter)
		}
	}
}

func TestQuotasAreParsed(t *testing.T) {
	got, faults := tenants(t, "tenants: [{slug: a, max_events_per_day: 0, max_storage_bytes: 1099511627776}, {slug: b}]", nil)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	if diff := cmp.Diff([]eventhook.Quota{{MaxEventsPerDay: new(int64(0)), MaxStorageBytes: new(int64(1 << 40))}, {}},
		[]eventhook.Quota{got[0].Quota, got[1].Quota}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	_, faults = tenants(t, "tenants: [{slug: a, max_events_per_day: -1, max_storage_bytes: -2}]", nil)
	if len(faults) != 2 || faults[0].Location != "tenants[0].max_events_per_day" {
		t.Errorf("got %v, want both faults", faults)
	}
}
