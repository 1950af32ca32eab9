package targets_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
)

func TestExecutions(t *testing.T) {
	for _, c := range []struct {
		claim  string
		target string
		want   eventhook.Execution
	}{
		{
			"a workflow with defaults", `{"type":"workflow","workflow_kind":"pay"}`,
			eventhook.Execution{Type: eventhook.Workflow, Kind: "pay", Queue: "default", MaxAttempts: 4},
		},
		{
			"a task with defaults", `{"type":"task","task_kind":"build"}`,
			eventhook.Execution{Type: eventhook.Task, Kind: "build", Queue: "default", MaxAttempts: 4},
		},
		{
			"a task with all settings", `{"type":"task","task_kind":"build","queue":"ci","max_attempts":1,"idempotency_key_path":"body.id","idempotency_key_prefix":"gh:"}`,
			eventhook.Execution{Type: eventhook.Task, Kind: "build", Queue: "ci", MaxAttempts: 1, IdempotencyKey: "gh:7"},
		},
	} {
		t.Run(c.claim, func(t *testing.T) {
			x := compile(t, c.target)
			e := newEvent("application/json", `{"id":7}`)
			got, err := x.Effect(e, view(e), noon)
			if err != nil {
				t.Fatal(err)
			}
			if at := got.Execution.ID.Time(); !at.Equal(noon) {
				t.Errorf("got an id of %s, want %s", at, noon)
			}
			c.want.TenantID, c.want.EventID = e.TenantID, e.ID
			if diff := cmp.Diff(effects.Effect{Execution: &c.want}, withoutID(got)); diff != "" {
				t.Errorf("effect (-want +got):\n%s", diff)
			}
		})
	}
}

func TestIdempotencyKeysOfExecutions(t *testing.T) {
	long := strings.Repeat("k", 300)
	for _, c := range []struct{ claim, path, prefix, body, want string }{
		{"no path", "", "", `{"id":"a"}`, ""},
		{"a string", "body.id", "", `{"id":"a"}`, "a"},
		{"a number as written", "body.id", "", `{"id":9007199254740993}`, "9007199254740993"},
		{"a header", "header.x-ID", "p:", `{}`, "p:7"},
		{"with a prefix", "body.id", "stripe:", `{"id":"a"}`, "stripe:a"},
		{"a missing value", "body.id", "stripe:", `{}`, ""},
		{"an empty string", "body.id", "stripe:", `{"id":""}`, ""},
		{"a boolean", "body.id", "stripe:", `{"id":true}`, ""},
		{"null", "body.id", "stripe:", `{"id":null}`, ""},
		{"an object", "body.id", "stripe:", `{"id":{"a":1}}`, ""},
		{"a body that is not JSON", "body.id", "stripe:", `hello`, ""},
		{"too long", "body.id", "p:", `{"id":"` + long + `"}`, eventhook.NormalizeKey("p:" + long)},
		{"not storable", "body.id", "p:", `{"id":"a\u0000"}`, eventhook.NormalizeKey("p:a\x00")},
	} {
		t.Run(c.claim, func(t *testing.T) {
			target := fmt.Sprintf(`{"type":"task","task_kind":"k","idempotency_key_path":%q,"idempotency_key_prefix":%q}`, c.path, c.prefix)
			got, err := effectOf(t, target, c.body)
			if err != nil || got.Execution.IdempotencyKey != c.want {
				t.Errorf("got %+v, %v; want key %q", got.Execution, err, c.want)
			}
		})
	}
}
