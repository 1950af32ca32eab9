package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
)

func TestCompleteMany(t *testing.T) {
	r := setUp(t)
	for range 3 {
		r.execution(eventhook.Task, "build")
	}
	held := r.claim(map[string]any{})
	path := T("acme") + "/work/complete"
	none := eventhook.NewID[eventhook.Execution](noon).String()
	part := func(id string, token int64, output any) map[string]any {
		return map[string]any{"id": id, "lease_token": token, "output": output}
	}
	answered := r.admin("POST", path, map[string]any{"items": []any{
		part(held[0].ID, held[0].LeaseToken, map[string]any{"n": 1.0}),
		part(held[1].ID, held[1].LeaseToken+1, nil),
		part(none, 1, nil),
		part(held[0].ID, held[0].LeaseToken, nil),
		map[string]any{"id": held[2].ID, "lease_token": held[2].LeaseToken},
	}}).want(http.StatusOK).object()
	lost := eventhook.ErrLeaseLost.Message
	want := []any{
		map[string]any{"id": held[0].ID, "status": "completed"},
		map[string]any{"id": held[1].ID, "error": lost},
		map[string]any{"id": none, "error": "no such execution"},
		map[string]any{"id": held[0].ID, "error": lost},
		map[string]any{"id": held[2].ID, "status": "completed"},
	}
	if diff := cmp.Diff(want, answered["items"]); diff != "" {
		t.Errorf("answered (-want +got):\n%s", diff)
	}
	if r.worked["completed"] != 2 {
		t.Errorf("OnWorkerAct got %v, want two completed", r.worked)
	}
	if x := r.work(held[0].ID); x["status"] != "completed" || !cmp.Equal(x["output"], any(map[string]any{"n": 1.0})) {
		t.Errorf("got %v, want it completed with the first output", x)
	}
	if x := r.work(held[1].ID); x["status"] != "running" {
		t.Errorf("got %v, want it running, because its token differed", x)
	}
	key, _ := r.key("umbrella", eventhook.ScopeWork)
	foreign := r.call(key, "POST", T("umbrella")+"/work/complete", map[string]any{"items": []any{part(held[1].ID, held[1].LeaseToken, nil)}}).want(http.StatusOK)
	if !strings.Contains(foreign.Body.String(), "no such execution") {
		t.Errorf("another tenant is answered %s", foreign.Body)
	}
}

// TestInvalidWorkRequestsAreRefused checks that each refusal names the location of the
// fault.
func TestInvalidWorkRequestsAreRefused(t *testing.T) {
	r := setUp(t)
	r.execution(eventhook.Workflow, "pay")
	held := r.claimOne()
	p := r.createPromise("p", http.StatusCreated)
	token := fmt.Sprint(held.LeaseToken)
	items := func(n int) string {
		return `{"items":[` + strings.TrimSuffix(strings.Repeat(`{"id":"`+held.ID+`","lease_token":99},`, n), ",") + `]}`
	}
	kinds := func(n int) string { return `{"kinds":["` + strings.Repeat(`k","`, n-1) + `k"]}` }
	for _, c := range []struct {
		path, body string
		status     int
		at         string
	}{
		{"claim", `{"max":0}`, 422, "body.max"},
		{"claim", `{"max":-1}`, 422, "body.max"},
		{"claim", `{"max":251}`, 422, "body.max"},
		{"claim", `{"max":1e9}`, 422, "body.max"},
		{"claim", `{"max":1` + strings.Repeat("0", 30) + `}`, 422, "body.max"},
		{"claim", `{"max":1.5}`, 422, "body.max"},
		{"claim", `{"max":"10"}`, 422, "body.max"},
		{"claim", `{"wait_seconds":-1}`, 422, "body.wait_seconds"},
		{"claim", `{"wait_seconds":61}`, 422, "body.wait_seconds"},
		{"claim", `{"lease_seconds":0}`, 422, "body.lease_seconds"},
		{"claim", `{"lease_seconds":3601}`, 422, "body.lease_seconds"},
		{"claim", `{"queue":""}`, 422, "body.queue"},
		{"claim", `{"queue":"a\u0000"}`, 422, "body.queue"},
		{"claim", `{"queue":"` + strings.Repeat("q", 101) + `"}`, 422, "body.queue"},
		{"claim", kinds(101), 422, "body.kinds"},
		{"claim", `{"kinds":["a","\u0000"]}`, 422, "body.kinds[1]"},
		{"claim", `{"kinds":"a"}`, 422, "body.kinds"},
		{held.ID + "/heartbeat", `{}`, 422, "body.lease_token"},
		{held.ID + "/heartbeat", `{"lease_token":` + token + `,"lease_seconds":0}`, 422, "body.lease_seconds"},
		{held.ID + "/heartbeat", `{"lease_token":` + token + `.5}`, 422, "body.lease_token"},
		{held.ID + "/complete", `{"lease_token":"` + token + `"}`, 422, "body.lease_token"},
		{held.ID + "/complete", `{"lease_token":1` + strings.Repeat("0", 30) + `}`, 422, "body.lease_token"},
		{held.ID + "/complete", `{"lease_token":-1}`, 409, ""},
		{held.ID + "/complete", `{"lease_token":0}`, 409, ""},
		{held.ID + "/complete", `{"lease_token":` + token + `,"output":"` + strings.Repeat("x", 10_000_000) + `"}`, 413, ""},
		{held.ID + "/complete", `{"lease_token":` + token + `,"output":` + nested(100_000) + `}`, 400, ""},
		{held.ID + "/fail", `{"lease_token":` + token + `}`, 422, "body.error"},
		{held.ID + "/suspend", `{"lease_token":` + token + `,"await":[]}`, 422, "body.await"},
		{held.ID + "/suspend", `{"lease_token":` + token + `,"await":["x"]}`, 400, "body.await[0]"},
		{held.ID + "/suspend", `{"lease_token":` + token + `,"await":["` + p.ID + `"],"timeout_seconds":-1}`, 422, "body.timeout_seconds"},
		{"complete", `{"items":[]}`, 422, "body.items"},
		{"complete", items(251), 422, "body.items"},
		{"complete", `{}`, 422, "body.items"},
		{"complete", `{"items":[{"id":"` + held.ID + `","lease_token":1},{"id":"x","lease_token":1}]}`, 400, "body.items[1].id"},
		{"complete", `{"items":[{"id":"` + held.ID + `"}]}`, 422, "body.items[0].lease_token"},
		{"complete", `{"items":[null]}`, 422, "body.items[0]"},
	} {
		a := r.admin("POST", T("acme")+"/work/"+c.path, c.body)
		at := ""
		if problem := a.problem(); len(problem.Errors) > 0 {
			at = problem.Errors[0].Location
		}
		if a.Code != c.status || c.at != "" && at != c.at {
			t.Errorf("%s %.80s: answered %d at %q, want %d at %q: %.300s", c.path, c.body, a.Code, at, c.status, c.at, a.Body)
		}
	}
	if x := r.work(held.ID); x["status"] != "running" {
		t.Errorf("after the refused requests it is %v, want running", x["status"])
	}
	r.admin("POST", T("acme")+"/work/complete", items(250)).want(http.StatusOK)
	for _, body := range []string{kinds(100), `{"kinds":["pay","pay"]}`, `{"kinds":[]}`, `{"queue":"unused"}`} {
		if got := r.claim(body); len(got) != 0 {
			t.Errorf("%.80s: claimed %+v, want no executions and no fault", body, got)
		}
	}
	r.clock.Advance(time.Minute)
	if got := r.claim(`{"kinds":["pay","pay"]}`); len(got) != 1 {
		t.Errorf("a repeated kind: claimed %d, want 1", len(got))
	}
}

// TestEndedWorkDoesNotChange sends every operation in every final status.
func TestEndedWorkDoesNotChange(t *testing.T) {
	r := setUp(t)
	const ok, conflict = http.StatusOK, http.StatusConflict
	for _, c := range []struct {
		end  string
		body map[string]any
		want map[string]int // status by operation; 409 if missing
	}{
		{"complete", nil, nil},
		{"fail", map[string]any{"error": "x", "retryable": false}, map[string]int{"retry": ok}},
		{"fail", map[string]any{"error": "x"}, map[string]int{"cancel": ok, "retry": ok}},
		{"cancel", nil, map[string]int{"retry": ok}},
	} {
		for _, act := range []string{"heartbeat", "complete", "fail", "cancel", "retry"} {
			r.execution(eventhook.Task, "build")
			held := r.claimOne()
			do := func(act string, body map[string]any) *answer {
				if act == "cancel" || act == "retry" {
					return r.admin("POST", T("acme")+"/work/"+held.ID+"/"+act, nil)
				}
				return r.act(held, act, body)
			}
			do(c.end, c.body).want(ok)
			want := conflict
			if status, given := c.want[act]; given {
				want = status
			}
			body := map[string]any{}
			if act == "fail" {
				body["error"] = "again"
			}
			if a := do(act, body); a.Code != want {
				t.Errorf("%s %v and then %s: answered %d, want %d", c.end, c.body, act, a.Code, want)
			}
			r.admin("POST", T("acme")+"/work/"+held.ID+"/cancel", nil) // in any status: it must not be claimed later
		}
	}
}
