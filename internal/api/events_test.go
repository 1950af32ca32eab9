package api_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/api"
	"github.com/eventhook/eventhook/internal/effects"
)

func TestEventHasAllMembersOfTheContract(t *testing.T) {
	r := setUp(t)
	first := r.event(func(e *eventhook.Event) { e.IdempotencyKey = "k" })
	e := r.event(func(e *eventhook.Event) {
		e.IdempotencyKey, e.SourceIP, e.RequestID, e.TraceID = "k", "192.0.2.1", "req", strings.Repeat("ab", 16)
	})
	list := r.list(T("acme") + "/events").Items[0]
	want := map[string]any{
		"id": e.ID.String(), "source": "crm", "origin": "source", "event_type": "push", "status": "duplicate", "idempotency_key": "k",
		"is_duplicate": true, "duplicate_of": first.ID.String(), "content_type": "application/json", "body_size": 7.0, "retry_count": 0.0,
		"next_retry_at": nil, "last_error": nil, "source_ip": "192.0.2.1", "trace_id": strings.Repeat("ab", 16), "request_id": "req",
		"correlation_id": nil, "received_at": "2026-03-10T15:00:00.002Z", "processed_at": nil,
		"reprocessed_from": nil,
	}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Errorf("in a list (-want +got):\n%s", diff)
	}
	want["method"], want["path_suffix"], want["query"] = "POST", "", ""
	want["received_in_minute"] = 1.0 // the instance has written no count yet
	want["headers"] = map[string]any{"Content-Type": "application/json"}
	want["body"] = map[string]any{"n": 1.0}
	want["actions"], want["actions_count"], want["deliveries"], want["deliveries_count"] = []any{}, 0.0, []any{}, 0.0
	want["outcome"], want["failures"] = "succeeded", []any{}
	if diff := cmp.Diff(want, r.admin("GET", T("acme")+"/events/"+e.ID.String(), nil).want(http.StatusOK).object()); diff != "" {
		t.Errorf("alone (-want +got):\n%s", diff)
	}
}

func TestEventListsItsActions(t *testing.T) {
	r := setUp(t)
	promise := r.createPromise("order-1", http.StatusCreated)
	e := r.event()
	workflow, task := r.plannedExecution(eventhook.Workflow, "pay"), r.plannedExecution(eventhook.Task, "build")
	failed := effects.PlannedAction{Action: eventhook.Action{TargetType: eventhook.TargetTask}, Failure: "no such thing"}
	r.settle(e, workflow, task, plannedPromise(effects.PromiseOutcome{Key: "order-1", Status: eventhook.PromiseResolved, Value: []byte(`1`)}), failed)
	var got struct {
		Status, LastError string
		NextRetryAt       *string `json:"next_retry_at"`
		RetryCount        int     `json:"retry_count"`
		Actions           []struct {
			RouteID             string  `json:"route_id"`
			RouteName           string  `json:"route_name"`
			TargetType          string  `json:"target_type"`
			WorkflowExecutionID *string `json:"workflow_execution_id"`
			TaskExecutionID     *string `json:"task_execution_id"`
			PromiseID           *string `json:"promise_id"`
			PublishedEventID    *string `json:"published_event_id"`
			ErrorMessage        *string `json:"error_message"`
			Status              string
			Attempts            int
		}
	}
	r.admin("GET", T("acme")+"/events/"+e.ID.String(), nil).want(http.StatusOK).into(&got)
	if got.Status != "failed" || got.RetryCount != 1 || got.NextRetryAt == nil || len(got.Actions) != 4 {
		t.Fatalf("got %+v, want a failed event with its next retry and four actions", got)
	}
	type made struct{ Target, Status, Workflow, Task, Promise, Error string }
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	actions := map[made]bool{}
	for _, a := range got.Actions {
		if a.RouteID != r.route.ID.String() || a.RouteName != "all" || a.Attempts != 1 || a.PublishedEventID != nil {
			t.Errorf("got the action %+v, want an action of the route after one attempt", a)
		}
		actions[made{a.TargetType, a.Status, text(a.WorkflowExecutionID), text(a.TaskExecutionID), text(a.PromiseID), text(a.ErrorMessage)}] = true
	}
	want := map[made]bool{
		{Target: "workflow", Status: "success", Workflow: workflow.Effect.Execution.ID.String()}: true,
		{Target: "task", Status: "success", Task: task.Effect.Execution.ID.String()}:             true,
		{Target: "promise", Status: "success", Promise: promise.ID}:                              true,
		{Target: "task", Status: "failed", Error: "no such thing"}:                               true,
	}
	if diff := cmp.Diff(want, actions); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
}

func TestEventListsAtMostMaxActions(t *testing.T) {
	r := setUp(t)
	e := r.event()
	var all []effects.PlannedAction
	for i := range 1003 {
		all = append(all, effects.PlannedAction{Action: eventhook.Action{TargetType: eventhook.TargetTask}, Failure: fmt.Sprint(i)})
	}
	r.settle(e, all...)
	var got struct {
		Actions []struct {
			ErrorMessage string `json:"error_message"`
		}
		ActionsCount int `json:"actions_count"`
	}
	r.admin("GET", T("acme")+"/events/"+e.ID.String(), nil).want(http.StatusOK).into(&got)
	if len(got.Actions) != 1000 || got.ActionsCount != 1003 {
		t.Fatalf("got %d of %d actions, want 1000 of 1003", len(got.Actions), got.ActionsCount)
	}
	for i, a := range got.Actions {
		if a.ErrorMessage != fmt.Sprint(i) {
			t.Fatalf("action %d is %s, want the actions in their order", i, a.ErrorMessage)
		}
	}
}

func TestEventShowsBodyAndHeaders(t *testing.T) {
	r := setUp(t)
	for _, c := range []struct{ claim, contentType, headers, body, wantBody, wantHeaders string }{
		{"JSON", "application/json", "", `{"a":[1,{"b":null}]}`, `{"a":[1,{"b":null}]}`, `{}`},
		{"JSON with numbers beyond a float", "application/json", "", `[12345678901234567890]`, `[12345678901234567890]`, `{}`},
		{"JSON with a NUL", "application/json", "", `{"a":"\u0000"}`, `{"a":"\u0000"}`, `{}`},
		{"JSON that is not UTF-8", "application/json", "", "\"\xff\"", `"�"`, `{}`},
		{"invalid JSON", "application/json", "", `{"a":`, `"{\"a\":"`, `{}`},
		{"a form", "application/x-www-form-urlencoded", "", `a=1&b=x%20y`, `{"a":"1","b":"x y"}`, `{}`},
		{"text", "text/plain", "", "hello, 世界", `"hello, 世界"`, `{}`},
		{"text with a NUL", "text/plain", "", "a\x00b", `"a\u0000b"`, `{}`},
		{"binary data", "application/octet-stream", "", "\xff\xfe\x00", `null`, `{}`},
		{"an empty body", "", "", "", `null`, `{}`},
		{"gzip", "application/json", "Content-Encoding: gzip\r\n", gzipped(`{"a":1}`), `{"a":1}`, `{"Content-Encoding":"gzip"}`},
		{"gzip of binary data", "application/octet-stream", "Content-Encoding: gzip\r\n", gzipped("\xff\xfe\x00"), `null`, `{"Content-Encoding":"gzip"}`},
		{"a body that is not gzip", "application/json", "Content-Encoding: gzip\r\n", `{"a":1}`, `{"a":1}`, `{"Content-Encoding":"gzip"}`},
		{"headers as stored", "text/plain", "Authorization: [redacted]\r\nX-A: b\r\n", "x", `"x"`, `{"Authorization":"[redacted]","X-A":"b"}`},
		{"repeated headers", "text/plain", "X-A: 1\r\nX-B: 2\r\nX-A: 3\r\n", "x", `"x"`, `{"X-A":"1, 3","X-B":"2"}`},
		{"headers that are not UTF-8", "text/plain", "X-A: \xff\r\nX-Empty: \r\n", "x", `"x"`, `{"X-A":"�","X-Empty":""}`},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := r.subtest(t)
			e := r.event(func(e *eventhook.Event) {
				e.ContentType, e.Headers, e.Body = c.contentType, []byte(c.headers), []byte(c.body)
			})
			var got struct{ Body, Headers json.RawMessage }
			r.admin("GET", T("acme")+"/events/"+e.ID.String(), nil).want(http.StatusOK).into(&got)
			if string(got.Body) != c.wantBody {
				t.Errorf("body: got %s, want %s", got.Body, c.wantBody)
			}
			if string(got.Headers) != c.wantHeaders {
				t.Errorf("headers: got %s, want %s", got.Headers, c.wantHeaders)
			}
			a := r.admin("GET", T("acme")+"/events/"+e.ID.String()+"/payload", nil).want(http.StatusOK)
			if got := a.Body.String(); got != c.body {
				t.Errorf("payload: got %q, want exactly %q", got, c.body)
			}
			wantEncoding := map[bool]string{true: "gzip"}[strings.HasPrefix(c.headers, "Content-Encoding: gzip")]
			if got := a.Header(); got.Get("X-Eventhook-Content-Encoding") != wantEncoding || got.Get("Content-Encoding") != "" {
				t.Errorf("payload: got the headers %v, want the encoding %q, and no Content-Encoding", got, wantEncoding)
			}
		})
	}
}

// readSizes is a store that records how many bytes of a body each read asks for.
type readSizes struct {
	api.EventStore
	last *int
}

func (s readSizes) PayloadStart(ctx context.Context, id eventhook.EventID, size int) (eventhook.Payload, error) {
	*s.last = size
	return s.EventStore.PayloadStart(ctx, id, size)
}

func TestLargeBodyIsLeftOut(t *testing.T) {
	read := 0
	r := setUp(t, func(d *api.Deps) { d.Events = readSizes{d.Events, &read} })
	text := strings.Repeat("x", 996)
	for _, c := range []struct {
		claim, headers, body, query, want string
	}{
		{"of the largest size", "", `{"a":"` + text[:10] + `"}`, "?max_body_bytes=18", `{"a":"` + text[:10] + `"}`},
		{"a byte larger", "", `{"a":"` + text[:11] + `"}`, "?max_body_bytes=18", "left out"},
		{"any body", "", `{}`, "?max_body_bytes=0", "left out"},
		{"an empty body", "", "", "?max_body_bytes=0", "null"},
		{"without a limit", "", `{"a":1}`, "", `{"a":1}`},
		{"small, and large as JSON", "Content-Encoding: gzip\r\n", gzipped(`{"a":"` + text + `"}`), "?max_body_bytes=100", "left out"},
		{"compressed", "Content-Encoding: gzip\r\n", gzipped(`{"a":"` + text + `"}`), "?max_body_bytes=1000", `{"a":"` + text + `"}`},
	} {
		e := r.event(func(e *eventhook.Event) { e.Headers, e.Body = []byte("X-A: b\r\n"+c.headers), []byte(c.body) })
		var got struct {
			Body        json.RawMessage
			BodyLeftOut bool `json:"body_left_out"`
			BodySize    int  `json:"body_size"`
			Headers     map[string]string
		}
		r.admin("GET", T("acme")+"/events/"+e.ID.String()+c.query, nil).want(http.StatusOK).into(&got)
		body := string(got.Body)
		if body == "null" && got.BodyLeftOut {
			body = "left out"
		}
		if body != c.want || got.BodySize != len(c.body) || got.Headers["X-A"] != "b" {
			t.Errorf("%s: got the body %s of %d bytes and headers %v, want %s of %d bytes", c.claim, body, got.BodySize, got.Headers, c.want, len(c.body))
		}
		if got.BodyLeftOut && c.headers == "" && read != 0 {
			t.Errorf("%s: %d bytes are read, want none", c.claim, read)
		}
	}
}

func TestBeginningOfAPayload(t *testing.T) {
	r := setUp(t)
	e := r.event(func(e *eventhook.Event) { e.Body = []byte("0123456789") })
	path := T("acme") + "/events/" + e.ID.String() + "/payload"
	for query, want := range map[string]string{"?max_bytes=4": "0123", "?max_bytes=0": "", "?max_bytes=10": "0123456789", "?max_bytes=33554432": "0123456789"} {
		if a := r.admin("GET", path+query, nil).want(http.StatusOK); a.Body.String() != want || a.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: got %q of the type %s, want %q", query, a.Body, a.Header().Get("Content-Type"), want)
		}
	}
	r.admin("GET", path+"?max_bytes=-1", nil).want(http.StatusUnprocessableEntity)
}

func TestEventShowsItsRequest(t *testing.T) {
	r := setUp(t)
	type request struct {
		Method            *string
		PathSuffix, Query string
		Headers           map[string]string
	}
	for _, c := range []struct {
		claim, headers string
		origin         eventhook.Origin
		want           request
	}{
		{"a POST to the source", "X-A: b\r\n", eventhook.OriginSource, request{new("POST"), "", "", map[string]string{"X-A": "b"}}},
		{"another request", ":method: GET\r\n:path: /a%20b?c=d?e\r\nX-A: b\r\n", eventhook.OriginSource,
			request{new("GET"), "/a%20b", "c=d?e", map[string]string{"X-A": "b"}}},
		{"a published event", "X-A: b\r\n", eventhook.OriginAPI, request{nil, "", "", map[string]string{"X-A": "b"}}},
	} {
		e := r.event(func(e *eventhook.Event) { e.Headers, e.Origin = []byte(c.headers), c.origin })
		var got struct {
			Method     *string           `json:"method"`
			PathSuffix string            `json:"path_suffix"`
			Query      string            `json:"query"`
			Headers    map[string]string `json:"headers"`
		}
		r.admin("GET", T("acme")+"/events/"+e.ID.String(), nil).want(http.StatusOK).into(&got)
		if diff := cmp.Diff(c.want, request(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.claim, diff)
		}
	}
}

func TestEventTellsHowItWasVerifiedAndTheRateOfItsSource(t *testing.T) {
	r := setUp(t)
	type facts struct {
		Verification     map[string]any `json:"verification"`
		ReceivedInMinute *int           `json:"received_in_minute"`
	}
	seen := func(origin eventhook.Origin, headers string, counts ...eventhook.TrafficCount) (got facts) {
		e := r.event(func(e *eventhook.Event) { e.Headers, e.Origin = []byte(headers), origin })
		for i := range counts {
			counts[i].TrafficOf = eventhook.TrafficOf{TenantID: e.TenantID, SourceID: e.SourceID}
			counts[i].Span, counts[i].At = eventhook.TrafficMinute, e.ID.Time().Truncate(time.Minute)
		}
		if err := r.db.AddTraffic(t.Context(), 1, counts); err != nil {
			t.Fatal(err)
		}
		r.admin("GET", T("acme")+"/events/"+e.ID.String(), nil).want(http.StatusOK).into(&got)
		return got
	}
	secret := map[string]any{"scheme": "v1", "secret": 2.0, "secrets_count": 2.0}
	for _, c := range []struct {
		claim     string
		got, want facts
	}{
		{"the second secret", seen(eventhook.OriginSource, ":verified: v1 2/2\r\n"), facts{secret, new(1)}},
		{"an event of an earlier version", seen(eventhook.OriginSource, "X-A: b\r\n",
			eventhook.TrafficCount{Traffic: eventhook.Traffic{Received: 42}}), facts{nil, new(42)}},
		{"a published event", seen(eventhook.OriginAPI, "X-A: b\r\n"), facts{}},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.claim, diff)
		}
	}
}

func gzipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.String()
}

func TestPayloadIsNotRenderedByBrowsers(t *testing.T) {
	r := setUp(t)
	for _, c := range []struct{ contentType, want string }{
		{"text/html; charset=utf-8", "text/html; charset=utf-8"},
		{"", "application/octet-stream"},
		{"text/plain\r\nSet-Cookie: a=b", "application/octet-stream"},
	} {
		e := r.event(func(e *eventhook.Event) { e.ContentType, e.Body = c.contentType, []byte("<script>alert(1)</script>") })
		h := r.admin("GET", T("acme")+"/events/"+e.ID.String()+"/payload", nil).want(http.StatusOK).Header()
		if h.Get("Content-Type") != c.want || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Content-Disposition") != "attachment" {
			t.Errorf("%q: got the headers %v, want the type %q, nosniff, attachment", c.contentType, h, c.want)
		}
	}
}

// pastRetention is a store without payloads.
type pastRetention struct{ api.EventStore }

func (pastRetention) PayloadStart(context.Context, eventhook.EventID, int) (eventhook.Payload, error) {
	return eventhook.Payload{}, nil
}

func (pastRetention) Payloads(context.Context, []eventhook.EventID) (map[eventhook.EventID]eventhook.Payload, error) {
	return nil, nil
}

func TestEventOutlivesItsPayload(t *testing.T) {
	r := setUp(t, func(d *api.Deps) { d.Events = pastRetention{d.Events} })
	e := r.event()
	work := r.plannedExecution(eventhook.Task, "build")
	r.settle(e, work)
	path := T("acme") + "/events/" + e.ID.String()
	got := r.admin("GET", path, nil).want(http.StatusOK).object()
	if got["body"] != nil || len(got["headers"].(map[string]any)) != 0 {
		t.Errorf("got the body %v and headers %v, want null and no headers", got["body"], got["headers"])
	}
	if got := r.admin("GET", path+"?max_body_bytes=0", nil).want(http.StatusOK).object(); got["body"] != nil || got["body_left_out"] != nil {
		t.Errorf("without its body, got %v and body_left_out %v, want null and nothing: there is no body", got["body"], got["body_left_out"])
	}
	r.admin("GET", path+"/payload", nil).want(http.StatusNotFound)
	if x := r.work(work.Effect.Execution.ID.String()); x["input"] != nil {
		t.Errorf("got %v, want an execution with the input null", x)
	}
}
