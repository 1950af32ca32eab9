package targets_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/payload"
	"github.com/eventhook/eventhook/route"
	"github.com/eventhook/eventhook/targets"
)

var _ route.Effector = targets.Effector(nil)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// plain is the least that each kind needs, for the suite below.
var plain = map[string]eventhook.Target{
	eventhook.TargetWorkflow: {Type: "workflow", WorkflowKind: "pay", IdempotencyKeyPath: "body.id"},
	eventhook.TargetTask:     {Type: "task", TaskKind: "pay", IdempotencyKeyPath: "body.id"},
	eventhook.TargetPromise:  {Type: "promise", IdempotencyKeyPath: "header.x-id", ValuePath: "body.a.b", ErrorPath: "body.error"},
}

func newEvent(contentType, body string) *eventhook.Event {
	return &eventhook.Event{
		ID: eventhook.NewID[eventhook.Event](noon), TenantID: eventhook.NewID[eventhook.Tenant](noon), ContentType: contentType,
		Payload: eventhook.Payload{Headers: []byte("X-Id: 7\r\n"), Body: []byte(body)},
	}
}

func view(e *eventhook.Event) *payload.View {
	return payload.New(payload.Block(e.Headers), e.ContentType, e.Body)
}

// effectOf compiles a target and asks it about an event with a JSON body.
func effectOf(t *testing.T, target eventhook.Target, body string) (eventhook.Effect, error) {
	t.Helper()
	x, err := targets.New(target)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	e := newEvent("application/json", body)
	return x.Effect(e, view(e), noon)
}

func TestEveryKind(t *testing.T) {
	if len(eventhook.TargetTypes) == 0 {
		t.Fatal("there are no target types")
	}
	for _, kind := range eventhook.TargetTypes {
		target, ok := plain[kind]
		if !ok {
			t.Errorf("%s: has no line in plain", kind)
			continue
		}
		t.Run(kind, func(t *testing.T) { suite(t, target) })
	}
}

// suite is what every kind of target promises.
func suite(t *testing.T, target eventhook.Target) {
	x, err := targets.New(target)
	if err != nil {
		t.Fatalf("New(%+v): got %v, want no error", target, err)
	}
	bodies := []string{
		`{"id":1,"a":{"b":2}}`, "", "null", "[]", `"x"`, "7", "{", "hello", "\xff\x00", "\xef\xbb\xbf{}", `{"id":null,"error":null}`,
		`{"id":"\u0000","error":"\u0000"}`, `{"error":{"id":[]}}`, strings.Repeat("[", 1_000_000), `{"id":` + strings.Repeat("9", 10_000) + `}`,
	}
	for _, body := range bodies {
		for _, contentType := range []string{"", "application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "image/png", "\xff"} {
			e := newEvent(contentType, body)
			before := *e
			one, oneErr := x.Effect(e, view(e), noon)
			two, twoErr := x.Effect(e, view(e), noon)
			// Not cmp.Equal: it takes seconds for bodies of this size.
			if !reflect.DeepEqual(withoutID(one), withoutID(two)) || (oneErr == nil) != (twoErr == nil) {
				t.Errorf("%s %.40q: got %+v, %v and then %+v, %v; want the same twice", contentType, body, one, oneErr, two, twoErr)
			}
			if !reflect.DeepEqual(before, *e) || string(e.Body) != body {
				t.Errorf("%s %.40q: got the event %+v afterwards, want %+v", contentType, body, *e, before)
			}
			if oneErr == nil {
				checkEffect(t, body, one)
			}
			if one.Execution != nil && one.Execution.ID == two.Execution.ID {
				t.Errorf("%.40q: two effects made the one id %s", body, one.Execution.ID)
			}
		}
	}
}

func checkEffect(t *testing.T, body string, e eventhook.Effect) {
	t.Helper()
	if (e.Execution == nil) == (e.Promise == nil) {
		t.Errorf("%.40q: got %+v, want one of execution and promise", body, e)
	}
	if p := e.Promise; p != nil {
		if (p.Status == eventhook.PromiseResolved) != json.Valid(p.Value) || (p.Status == eventhook.PromiseRejected) != (p.Error != "") {
			t.Errorf("%.40q: got %s with value %s, error %q; want what fits the state", body, p.Status, p.Value, p.Error)
		}
		if p.Key != eventhook.Key(p.Key) || p.Error != eventhook.Text(p.Error) {
			t.Errorf("%.40q: got key %q, error %q; want what can be stored", body, p.Key, p.Error)
		}
	}
	if x := e.Execution; x != nil && x.IdempotencyKey != eventhook.Key(x.IdempotencyKey) {
		t.Errorf("%.40q: got key %q, want what can be stored", body, x.IdempotencyKey)
	}
}

func withoutID(e eventhook.Effect) eventhook.Effect {
	if e.Execution != nil {
		x := *e.Execution
		x.ID = eventhook.ExecutionID{}
		e.Execution = &x
	}
	return e
}

func TestNewRefusesWhatValidateRefuses(t *testing.T) {
	for claim, target := range map[string]eventhook.Target{
		"no type": {}, "an unknown type": {Type: "mail"}, "no kind": {Type: "task"}, "a promise without a name": {Type: "promise"},
		"a bad key path":   {Type: "task", TaskKind: "k", IdempotencyKeyPath: "id"},
		"a bad value path": {Type: "promise", IdempotencyKeyPath: "body.id", ValuePath: "id"},
		"a bad error path": {Type: "promise", IdempotencyKeyPath: "body.id", ErrorPath: "id"},
	} {
		if x, err := targets.New(target); err == nil || x != nil {
			t.Errorf("%s: got %v, %v; want an error", claim, x, err)
		}
	}
}

func TestTargetsHandOverWhatTheEventWasTransformedTo(t *testing.T) {
	e := newEvent("application/json", `{"id":"k","value":1}`)
	v := view(e).Transform([]byte(`{"made":true}`))
	effect := func(target eventhook.Target) eventhook.Effect {
		x, err := targets.New(target)
		if err != nil {
			t.Fatal(err)
		}
		made, err := x.Effect(e, v, noon)
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	task := effect(eventhook.Target{Type: "task", TaskKind: "k", IdempotencyKeyPath: "body.id"}).Execution
	if string(task.Input) != `{"made":true}` || task.IdempotencyKey != "k" {
		t.Errorf("task: got input %s, key %q; want what was made, and the event's key", task.Input, task.IdempotencyKey)
	}
	whole := effect(eventhook.Target{Type: "promise", IdempotencyKeyPath: "body.id"}).Promise
	part := effect(eventhook.Target{Type: "promise", IdempotencyKeyPath: "body.id", ValuePath: "body.value"}).Promise
	if string(whole.Value) != `{"made":true}` || string(part.Value) != "1" {
		t.Errorf("promise: got %s and, by path, %s; want what was made, and the event's own 1", whole.Value, part.Value)
	}
}
