package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
)

func (r *fixture) work(id string) map[string]any {
	r.Helper()
	return r.admin("GET", T("acme")+"/work/"+id, nil).want(http.StatusOK).object()
}

// act calls an operation on a claimed execution.
func (r *fixture) act(i item, act string, body map[string]any) *answer {
	r.Helper()
	if body == nil {
		body = map[string]any{}
	}
	body["lease_token"] = i.LeaseToken
	return r.admin("POST", T("acme")+"/work/"+i.ID+"/"+act, body)
}

// spanOf returns the id of the span in which an execution was created.
func spanOf(t *testing.T, execution any) string {
	t.Helper()
	id, err := eventhook.ParseID[eventhook.Execution](fmt.Sprint(execution))
	if err != nil {
		t.Fatal(err)
	}
	return id.SpanID().String()
}

func TestClaimedWorkHasAllMembers(t *testing.T) {
	r := setUp(t)
	e := r.event(func(e *eventhook.Event) { e.Body = []byte(`{"order":7}`) })
	r.settle(e, r.plannedExecution(eventhook.Task, "build", func(x *eventhook.Execution) { x.IdempotencyKey = "k" }))
	answered := r.admin("POST", T("acme")+"/work/claim", map[string]any{"lease_seconds": 90}).want(http.StatusOK)
	var got struct{ Items []map[string]any }
	answered.into(&got)
	want := []map[string]any{{
		"id": got.Items[0]["id"], "type": "task", "kind": "build", "queue": "default", "event_id": e.ID.String(), "idempotency_key": "k",
		"input": map[string]any{"order": 7.0}, "attempt": 1.0, "priority": 0.0, "trace_id": e.Trace(), "lease_token": 1.0,
		"traceparent": "00-" + e.Trace() + "-" + spanOf(t, got.Items[0]["id"]) + "-01", "lease_until": "2026-03-10T15:01:30.001Z",
	}}
	if diff := cmp.Diff(want, got.Items); diff != "" {
		t.Errorf("claimed (-want +got):\n%s", diff)
	}
	x := r.work(got.Items[0]["id"].(string))
	delete(x, "id")
	if diff := cmp.Diff(map[string]any{
		"type": "task", "kind": "build", "queue": "default", "status": "running", "event_id": e.ID.String(), "idempotency_key": "k",
		"attempt": 1.0, "max_attempts": 3.0, "priority": 0.0, "trace_id": e.Trace(), "input": map[string]any{"order": 7.0}, "error": nil, "due_at": "2026-03-10T15:01:30.001Z",
		"created_at": "2026-03-10T15:00:00.001Z", "completed_at": nil,
	}, x); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	if r.worked["claimed"] != 1 {
		t.Errorf("OnWorkerAct got %v, want one claimed", r.worked)
	}
}

func TestInputsOfWork(t *testing.T) {
	r := setUp(t)
	for _, c := range []struct{ claim, contentType, body, want string }{
		{"JSON unchanged", "application/json", `{"b":1, "a":12345678901234567890}`, `{"b":1,"a":12345678901234567890}`},
		{"a form as an object", "application/x-www-form-urlencoded", `a=1`, `{"a":"1"}`},
		{"text as a string", "text/plain", `hello`, `"hello"`},
		{"binary data in base64", "application/octet-stream", "\xff\x00", `{"base64":"/wA="}`},
		{"an empty body as null", "", "", `null`},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := r.subtest(t)
			e := r.event(func(e *eventhook.Event) {
				e.Body, e.Headers = []byte(c.body), []byte("Content-Type: "+c.contentType+"\r\n")
			})
			r.settle(e, r.plannedExecution(eventhook.Task, "build"))
			if got := string(r.claimOne().Input); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
	t.Run("an own input", func(t *testing.T) {
		r := r.subtest(t)
		r.execution(eventhook.Task, "build", func(x *eventhook.Execution) { x.Input = json.RawMessage(`{"own":true}`) })
		if got := string(r.claimOne().Input); got != `{"own":true}` {
			t.Errorf("got %s, want the own input", got)
		}
	})
}

func TestClaimFilters(t *testing.T) {
	r := setUp(t)
	for _, kind := range []string{"a", "b", "a", "c"} {
		r.execution(eventhook.Task, kind)
	}
	r.execution(eventhook.Task, "a", func(x *eventhook.Execution) { x.Queue = "ci" })
	if got := r.claim(map[string]any{"queue": "nobody's"}); len(got) != 0 {
		t.Errorf("an empty queue: claimed %d, want no executions", len(got))
	}
	if got := r.claim(map[string]any{"kinds": []string{"b", "c"}, "max": 1}); len(got) != 1 || got[0].Kind != "b" {
		t.Errorf("one of two kinds: claimed %+v, want the oldest", got)
	}
	if got := r.claim(map[string]any{"kinds": []string{}}); len(got) != 3 {
		t.Errorf("no kinds: claimed %d, want the remaining three", len(got))
	}
	if got := r.claim(map[string]any{"queue": "ci"}); len(got) != 1 || got[0].Queue != "ci" {
		t.Errorf("a queue: claimed %+v, want the execution of this queue", got)
	}
	if got := r.claim(map[string]any{}); len(got) != 0 {
		t.Errorf("all executions are leased: claimed %d, want none", len(got))
	}
	r.clock.Advance(30 * time.Second)
	if got := r.claim(map[string]any{}); len(got) != 4 || got[0].Attempt != 2 || got[0].LeaseToken != 2 {
		t.Errorf("after the leases: claimed %+v, want all again in their second attempt", got)
	}
}

func TestHeartbeatExtendsTheLease(t *testing.T) {
	r := setUp(t)
	r.execution(eventhook.Task, "build")
	held := r.claimOne()
	r.clock.Advance(20 * time.Second)
	var beat struct {
		LeaseUntil time.Time `json:"lease_until"`
	}
	r.act(held, "heartbeat", map[string]any{"lease_seconds": 60}).want(http.StatusOK).into(&beat)
	if want := r.clock.Now().Add(time.Minute); !beat.LeaseUntil.Equal(want) {
		t.Errorf("leased until %s, want %s", beat.LeaseUntil, want)
	}
	r.clock.Advance(59 * time.Second)
	if got := r.claim(map[string]any{}); len(got) != 0 {
		t.Errorf("claimed %d during the lease, want none", len(got))
	}
	r.clock.Advance(time.Second)
	r.claimOne()
}

func TestHeartbeatDefaultsToTheDurationOfTheClaim(t *testing.T) {
	r := setUp(t)
	r.execution(eventhook.Task, "build")
	held := r.claim(map[string]any{"lease_seconds": 600})[0]
	r.clock.Advance(200 * time.Second)
	var beat item
	r.act(held, "heartbeat", nil).want(http.StatusOK).into(&beat)
	if want := r.clock.Now().Add(10 * time.Minute); !beat.LeaseUntil.Equal(want) {
		t.Errorf("leased until %s, want %s", beat.LeaseUntil, want)
	}
	r.clock.Advance(599 * time.Second)
	if got := r.claim(map[string]any{}); len(got) != 0 {
		t.Errorf("claimed %d during the lease, want none", len(got))
	}
}

func TestWorkEnds(t *testing.T) {
	r := setUp(t)
	for _, c := range []struct {
		claim, act string
		body       map[string]any
		want       map[string]any // of the execution
		heard      string
	}{
		{"completed with an output", "complete", map[string]any{"output": map[string]any{"built": true}},
			map[string]any{"status": "completed", "output": map[string]any{"built": true}, "error": nil, "due_at": nil}, "completed"},
		{"completed without an output", "complete", nil, map[string]any{"status": "completed", "output": nil}, "completed"},
		{"failed and retried", "fail", map[string]any{"error": "no disk"},
			map[string]any{"status": "failed", "error": "no disk", "completed_at": nil}, "failed"},
		{"failed, with retryable", "fail", map[string]any{"error": "no disk", "retryable": true}, map[string]any{"status": "failed"}, "failed"},
		{"failed, not retryable", "fail", map[string]any{"error": "no such order", "retryable": false},
			map[string]any{"status": "dead", "error": "no such order", "due_at": nil}, "dead"},
		{"failed with a NUL", "fail", map[string]any{"error": "a\x00b", "retryable": false}, map[string]any{"error": `a\x00b`}, "dead"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := r.subtest(t)
			r.execution(eventhook.Task, "build")
			held := r.claimOne()
			before := r.worked[c.heard]
			answered := r.act(held, c.act, c.body).want(http.StatusOK).object()
			read := r.work(held.ID)
			delete(read, "input") // the worker has it
			if diff := cmp.Diff(read, answered); diff != "" {
				t.Errorf("the answer is not the execution (-read +answered):\n%s", diff)
			}
			for field, want := range c.want {
				if diff := cmp.Diff(want, answered[field]); diff != "" {
					t.Errorf("%s (-want +got):\n%s", field, diff)
				}
			}
			if ended := answered["completed_at"] != nil; ended == (answered["status"] == "failed") {
				t.Errorf("the status is %v and completed_at is %v", answered["status"], answered["completed_at"])
			}
			if r.worked[c.heard] != before+1 {
				t.Errorf("OnWorkerAct got %v, want one more %s", r.worked, c.heard)
			}
		})
	}
}

func TestFailedWorkIsRetriedUntilAttemptsAreUsedUp(t *testing.T) {
	r := setUp(t)
	id := r.execution(eventhook.Task, "build")
	for attempt, wait := range []time.Duration{10 * time.Second, 30 * time.Second} {
		held := r.claimOne()
		if held.Attempt != attempt+1 {
			t.Errorf("attempt %d, want %d", held.Attempt, attempt+1)
		}
		r.act(held, "fail", map[string]any{"error": "again"}).want(http.StatusOK)
		r.clock.Advance(wait - time.Millisecond)
		if got := r.claim(map[string]any{}); len(got) != 0 {
			t.Errorf("claimed before the delay of %s was over", wait)
		}
		r.clock.Advance(time.Millisecond)
	}
	r.act(r.claimOne(), "fail", map[string]any{"error": "the last"}).want(http.StatusOK)
	if x := r.work(id); x["status"] != "dead" || x["error"] != "the last" {
		t.Errorf("got %v, want the status dead", x)
	}
}

func TestLostLeaseChangesNothing(t *testing.T) {
	r := setUp(t)
	id := r.execution(eventhook.Workflow, "pay")
	dead := r.claimOne()
	promise := r.createPromise("p", http.StatusCreated)
	r.clock.Advance(30 * time.Second)
	r.claimOne()
	before := r.work(id)
	for act, body := range map[string]map[string]any{
		"heartbeat": nil, "complete": {"output": "late"}, "fail": {"error": "late"}, "suspend": {"await": []string{promise.ID}, "state": "late"},
	} {
		r.act(dead, act, body).want(http.StatusConflict)
	}
	if diff := cmp.Diff(before, r.work(id)); diff != "" {
		t.Errorf("the late worker changed (-before +after):\n%s", diff)
	}
}

func TestCancelAndRetry(t *testing.T) {
	r := setUp(t)
	id := r.execution(eventhook.Task, "build")
	held := r.claimOne()
	path := T("acme") + "/work/" + id
	r.admin("POST", path+"/retry", nil).want(http.StatusConflict)
	if x := r.admin("POST", path+"/cancel", nil).want(http.StatusOK).object(); x["status"] != "cancelled" || x["completed_at"] == nil {
		t.Errorf("got %v, want the status cancelled", x)
	}
	r.act(held, "complete", nil).want(http.StatusConflict)
	r.admin("POST", path+"/cancel", nil).want(http.StatusConflict)
	if x := r.admin("POST", path+"/retry", nil).want(http.StatusOK).object(); x["status"] != "pending" || x["attempt"] != 0.0 || x["completed_at"] != nil {
		t.Errorf("got %v, want the status pending with no attempts", x)
	}
	again := r.claimOne()
	if again.ID != id || again.Attempt != 1 {
		t.Errorf("claimed %+v, want it in the first attempt", again)
	}
	r.act(again, "complete", nil).want(http.StatusOK)
	r.admin("POST", path+"/cancel", nil).want(http.StatusConflict)
	r.admin("POST", path+"/retry", nil).want(http.StatusConflict)
	nobody := T("acme") + "/work/" + eventhook.NewID[eventhook.Execution](noon).String()
	for _, act := range []string{"/cancel", "/retry"} {
		r.admin("POST", nobody+act, nil).want(http.StatusNotFound)
	}
}

func TestWorkflowWaitsForPromises(t *testing.T) {
	r := setUp(t)
	id := r.execution(eventhook.Workflow, "pay")
	held := r.claimOne()
	if held.State != nil || held.Promises != nil {
		t.Errorf("claimed first with the state %s and promises %v, want neither", held.State, held.Promises)
	}
	paid := r.createPromise("paid", http.StatusCreated)
	r.clock.Advance(time.Millisecond)
	shipped := r.createPromise("shipped", http.StatusCreated)
	x := r.act(held, "suspend", map[string]any{"state": map[string]any{"step": 2}, "await": []string{paid.ID, shipped.ID}}).want(http.StatusOK).object()
	if x["status"] != "suspended" || x["due_at"] != nil || r.worked["suspended"] != 1 {
		t.Errorf("got %v, OnWorkerAct got %v; want it suspended and not due", x, r.worked)
	}
	r.admin("POST", T("acme")+"/promises/"+paid.ID+"/resolve", map[string]any{"value": map[string]any{"amount": 42}}).want(http.StatusOK)
	wantAwaited(t, r.work(id), "paid resolved", "shipped pending")
	if got := r.claim(map[string]any{}); len(got) != 0 {
		t.Error("claimed while one promise is pending")
	}
	r.admin("POST", T("acme")+"/promises/"+shipped.ID+"/reject", map[string]any{"error": "lost at sea"}).want(http.StatusOK)
	again := r.claimOne()
	if again.ID != id || again.Attempt != 1 || string(again.State) != `{"step":2}` || len(again.Promises) != 2 {
		t.Fatalf("claimed %+v, want its state and both promises, in the same attempt", again)
	}
	if p := again.Promises[0]; p.ID != paid.ID || p.Status != "resolved" || string(p.Value) != `{"amount":42}` || p.Error != nil {
		t.Errorf("got %+v, want it resolved", p)
	}
	if p := again.Promises[1]; p.Status != "rejected" || string(p.Value) != "null" || p.Error == nil || *p.Error != "lost at sea" {
		t.Errorf("got %+v, want it rejected", p)
	}
	r.act(held, "complete", nil).want(http.StatusConflict)
	r.act(again, "complete", nil).want(http.StatusOK)
	wantAwaited(t, r.work(id), "paid resolved", "shipped rejected")
}

// wantAwaited compares the promises of an execution and their statuses.
func wantAwaited(t *testing.T, x map[string]any, want ...string) {
	t.Helper()
	var got []string
	list, _ := x["promises"].([]any)
	for _, p := range list {
		p := p.(map[string]any)
		got = append(got, fmt.Sprint(p["idempotency_key"], " ", p["status"]))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("awaits (-want +got):\n%s", diff)
	}
}

func TestRetriedWorkflowKeepsStateAndPromises(t *testing.T) {
	r := setUp(t)
	id := r.execution(eventhook.Workflow, "pay")
	p := r.createPromise("paid", http.StatusCreated)
	r.act(r.claimOne(), "suspend", map[string]any{"await": []string{p.ID}, "state": 2}).want(http.StatusOK)
	for _, act := range []string{"cancel", "retry"} {
		r.admin("POST", T("acme")+"/work/"+id+"/"+act, nil).want(http.StatusOK)
		wantAwaited(t, r.work(id), "paid pending")
	}
	again := r.claimOne()
	if string(again.State) != "2" || len(again.Promises) != 1 || again.Attempt != 1 {
		t.Errorf("claimed %+v, want its state and promise, in the first attempt", again)
	}
}

func TestSuspendTimeout(t *testing.T) {
	r := setUp(t)
	r.execution(eventhook.Workflow, "pay")
	p := r.createPromise("paid", http.StatusCreated)
	x := r.act(r.claimOne(), "suspend", map[string]any{"await": []string{p.ID}, "timeout_seconds": 60}).want(http.StatusOK).object()
	if want := r.clock.Now().Add(time.Minute).UTC().Format(time.RFC3339Nano); x["due_at"] != want {
		t.Errorf("due at %v, want %s", x["due_at"], want)
	}
	r.clock.Advance(time.Minute)
	if again := r.claimOne(); len(again.Promises) != 1 || again.Promises[0].Status != "pending" {
		t.Errorf("claimed %+v, want it with a pending promise", again)
	}
}

func TestOnlyWorkflowsSuspend(t *testing.T) {
	r := setUp(t)
	r.execution(eventhook.Task, "build")
	held := r.claimOne()
	p := r.createPromise("paid", http.StatusCreated)
	r.act(held, "suspend", map[string]any{"await": []string{p.ID}}).want(http.StatusConflict)
	none := eventhook.NewID[eventhook.Promise](noon).String()
	r.execution(eventhook.Workflow, "pay")
	held = r.claimOne()
	for _, c := range []struct {
		claim     string
		await, at []string
	}{
		{"an unknown promise", []string{none}, []string{"body.await[0]"}},
		{"a repeated promise", []string{p.ID, p.ID}, []string{"body.await[1]"}},
		{"several faults", []string{p.ID, none, p.ID, none}, []string{"body.await[1]", "body.await[2]", "body.await[3]"}},
	} {
		wrong := r.act(held, "suspend", map[string]any{"await": c.await}).want(http.StatusUnprocessableEntity).problem()
		if diff := cmp.Diff(c.at, wrong.locations()); diff != "" || wrong.Detail != "The request is not valid." {
			t.Errorf("%s: answered %+v; faults (-want +got):\n%s", c.claim, wrong, diff)
		}
	}
}

// TestJSONIsStoredUnchanged sends values that a column of type json may refuse or
// change to every member that accepts any JSON.
func TestJSONIsStoredUnchanged(t *testing.T) {
	r := setUp(t)
	for _, c := range []struct{ claim, value, want string }{
		{"null", `null`, `null`},
		{"a NUL", `{"a\u0000":"b\u0000"}`, `{"a\u0000":"b\u0000"}`},
		{"half a surrogate", `"\ud800"`, `"\ud800"`},
		{"an integer beyond a float", `12345678901234567890123`, `12345678901234567890123`},
		{"the same member twice", `{"a":1,"a":2}`, `{"a":1,"a":2}`},
		{"bytes that are not UTF-8", "\"\xff\"", `"�"`},
		{"deep nesting", nested(5000), nested(5000)},
		{"a number beyond floats", `1e400`, ""},
		{"nesting beyond the limit", nested(100_000), ""},
		{"a long text", `"` + strings.Repeat("x", 1_000_000) + `"`, `"` + strings.Repeat("x", 1_000_000) + `"`},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := r.subtest(t)
			p := r.createPromise(c.claim, http.StatusCreated)
			r.execution(eventhook.Workflow, "pay")
			held := r.claimOne()
			status := http.StatusOK
			if c.want == "" {
				status = http.StatusBadRequest
			}
			check := func(field string, body string) {
				t.Helper()
				path := map[string]string{"value": "/promises/" + p.ID + "/resolve", "state": "/work/" + held.ID + "/suspend", "output": "/work/" + held.ID + "/complete"}[field]
				a := r.admin("POST", T("acme")+path, body).want(status)
				var got map[string]json.RawMessage
				if a.into(&got); string(got[field]) != c.want {
					t.Errorf("%s: got %.200s, want %.200s", field, got[field], c.want)
				}
			}
			token := func() string { return string(mustJSON(t, held.LeaseToken)) }
			check("state", `{"lease_token":`+token()+`,"await":["`+p.ID+`"],"state":`+c.value+`}`)
			check("value", `{"value":`+c.value+`}`)
			if c.want != "" {
				held = r.claimOne()
				if string(held.State) != c.want || string(held.Promises[0].Value) != c.want {
					t.Errorf("claimed again with the state %.200s and the value %.200s, want %.200s", held.State, held.Promises[0].Value, c.want)
				}
			}
			check("output", `{"lease_token":`+token()+`,"output":`+c.value+`}`)
		})
	}
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
