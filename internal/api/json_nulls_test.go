package api_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/eventhook/eventhook"
)

func TestNullIsRefusedWhereTheSchemaForbidsIt(t *testing.T) {
	r := setUp(t)
	manager, _ := r.key("acme", eventhook.ScopeManage, eventhook.ScopePublish)
	for _, c := range []struct {
		path, body string
		want       []string
	}{
		{"/sources", `{"slug":"a","provider":"github","secrets":["s"],"name":null,"is_enabled":true,"rate_limit":{"burst_size":null},"response":null}`,
			[]string{"body.name", "body.rate_limit.burst_size", "body.response"}},
		{"/sources", `{"slug":null,"provider":"github","secrets":["s"],"options":{"a":null}}`, []string{"body.options.a", "body.slug"}},
		{"/subscriptions", `{"name":"a","url":"https://a.example","event_types":["a"],"headers":{"X-A":null}}`, []string{"body.headers.X-A"}},
		{"/events", `{"event_type":null,"data":null}`, []string{"body.event_type"}},
	} {
		a := r.call(manager, http.MethodPost, T("acme")+c.path, c.body)
		for _, at := range c.want {
			if a.Code != http.StatusUnprocessableEntity || strings.Count(a.Body.String(), `"location":"`+at+`"`) != 1 {
				t.Errorf("%s: answered %d %s, want 422 with %s once", c.body, a.Code, a.Body, at)
			}
		}
	}
}

// TestNullIsRefusedInEveryBody also covers the bodies that the framework decodes.
func TestNullIsRefusedInEveryBody(t *testing.T) {
	r := setUp(t)
	manager, _ := r.key("acme", eventhook.ScopeManage, eventhook.ScopePublish, eventhook.ScopeWork)
	work, promise := "/work/"+eventhook.NewID[eventhook.Execution](noon).String(), "/promises/"+eventhook.NewID[eventhook.Promise](noon).String()
	for _, c := range []struct{ path, body, at string }{
		{"/work/claim", `{"queue":null}`, "body.queue"},
		{"/work/claim", `{"kinds":null}`, "body.kinds"},
		{"/work/claim", `{"kinds":["a",null]}`, "body.kinds[1]"},
		{"/work/claim", `{"max":null,"wait_seconds":0}`, "body.max"},
		{work + "/heartbeat", `{"lease_token":1,"lease_seconds":null}`, "body.lease_seconds"},
		{work + "/heartbeat", `{"lease_token":null}`, "body.lease_token"},
		{work + "/fail", `{"lease_token":1,"error":"x","retryable":null}`, "body.retryable"},
		{work + "/complete", `{"lease_token":null}`, "body.lease_token"},
		{"/promises", `{"idempotency_key":"a","timeout_seconds":null}`, "body.timeout_seconds"},
		{"/promises", `{"idempotency_key":null}`, "body.idempotency_key"},
		{promise + "/reject", `{"error":null}`, "body.error"},
		{"/sources", `{"slug":null,"provider":"github","secrets":["s"]}`, "body.slug"},
		{"/events", `{"event_type":null,"data":{}}`, "body.event_type"},
	} {
		a := r.call(manager, http.MethodPost, T("acme")+c.path, c.body)
		if want := `{"location":"` + c.at + `","message":"must not be null"}`; a.Code != http.StatusUnprocessableEntity || strings.Count(a.Body.String(), want) != 1 {
			t.Errorf("%s %s: answered %d %s, want 422 with %s", c.path, c.body, a.Code, a.Body, want)
		}
	}
}

// Members that answers show as null, or whose default is none, take null.
func TestNullMeansNoneWhereThatIsTheDefault(t *testing.T) {
	r := setUp(t)
	manager, _ := r.key("acme", eventhook.ScopeManage, eventhook.ScopePublish, eventhook.ScopeWork, eventhook.ScopeRead)
	for _, c := range []struct {
		path, body string
		want       int
	}{
		{"/sources", `{"slug":"n","provider":null,"scheme":null,"description":null,"tolerance_seconds":null,"verifier":{"type":"none"}}`, http.StatusCreated},
		{"/sources/n/routes", `{"name":"n","filter":null,"filter_expression":null,"filter_function":null,"targets":[{"type":"task","task_kind":"a"}]}`, http.StatusCreated},
		{"/subscriptions", `{"name":"n","url":"https://a.example","event_types":["a"],"filter":null,"auth_header":null,"ordered_by":null}`, http.StatusCreated},
		{"/events", `{"event_type":"a","data":1,"idempotency_key":null,"scope":null,"actor":null,"correlation_id":null,"metadata":null,"source":null,"category":null}`, http.StatusAccepted},
		{"/events/search", `{"filter":{"body.a":1},"received_after":"2026-01-01T00:00:00Z","received_before":null,"cursor":null}`, http.StatusOK},
		{"/work", `{"type":"task","kind":"a","input":1,"idempotency_key":null,"run_at":null}`, http.StatusCreated},
		{"/promises", `{"idempotency_key":"n","workflow_execution_id":null}`, http.StatusCreated},
	} {
		if a := r.call(manager, http.MethodPost, T("acme")+c.path, c.body); a.Code != c.want {
			t.Errorf("%s %s: answered %d %s, want %d", c.path, c.body, a.Code, a.Body, c.want)
		}
	}
}

// In a merge patch, null resets a member to its default, also inside an object.
// Required members cannot be reset.
func TestNullInAPatchResetsToTheDefault(t *testing.T) {
	r := setUp(t)
	manager, _ := r.key("acme", eventhook.ScopeManage)
	r.call(manager, http.MethodPost, T("acme")+"/sources", `{"slug":"p","provider":"github","secrets":["s"],"name":"P","replay_protection":"body","rate_limit":{"burst_size":7}}`).want(http.StatusCreated)
	got := r.call(manager, http.MethodPatch, T("acme")+"/sources/p", `{"name":null,"rate_limit":{"burst_size":null},"replay_protection":null}`).want(http.StatusOK).object()
	if got["name"] != "p" || got["replay_protection"] != "off" || got["rate_limit"].(object)["burst_size"] != 50.0 {
		t.Errorf("got %v, want the defaults", got)
	}
	a := r.call(manager, http.MethodPatch, T("acme")+"/sources/p", `{"secrets":["s",null],"idempotency_key_paths":[null]}`)
	for _, at := range []string{"body.secrets[1]", "body.idempotency_key_paths[0]"} {
		if a.Code != http.StatusUnprocessableEntity || !slices.Contains(strings.Split(a.Body.String(), `"`), at) {
			t.Errorf("a null in a list: answered %d %s, want 422 at %s", a.Code, a.Body, at)
		}
	}
}
