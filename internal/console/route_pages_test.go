package console_test

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/client"
)

func first() client.Route {
	return client.Route{ID: "r-1", Name: attack, Priority: 20, IsEnabled: true, Version: 4, FilterEventTypes: []string{"push"}, Filter: map[string]any{"body.a": 1},
		Targets: []client.Target{{Type: "http", URL: new("https://crm.example/hook"), AuthHeader: new("[redacted]"), Headers: map[string]string{"X-A": attack}}, {Type: "task", TaskKind: new("notify")}}}
}

func second() client.Route {
	return client.Route{ID: "r-2", Name: "archive", Priority: 10, IsEnabled: true, Targets: []client.Target{{Type: "publish", EventType: new("pushed")}}}
}

// newRouteFixture also has one event and answers of tests.
func newRouteFixture(t *testing.T) *fixture {
	t.Helper()
	f := newSourceFixture(t)
	f.answer("GET "+hooks+"/routes/r-1", first())
	f.answer("GET "+T+"/events", client.EventPage{Items: []client.Event{{ID: "e0", EventType: "push", Status: "duplicate", ReceivedAt: today}, {ID: "e1", EventType: "push", ReceivedAt: today}}})
	f.answer("GET "+T+"/events/e1", client.EventDetail{ID: "e1", EventType: "push", Body: asJSON(map[string]any{"a": attack}), ContentType: "application/json"})
	f.answer("POST "+T+"/expressions/test", client.ExpressionResult{Matched: new(true), Reason: attack})
	f.answer("POST "+T+"/routes/backtest", client.Backtest{Tested: 1000, Matched: 312, IsComplete: true, MatchedSamples: []client.BacktestSample{{EventID: "e1", EventType: attack, Reason: attack,
		Actions: []client.ActionExplanation{{TargetType: "http", Input: []byte(`{"exact":"input"}`)}}}}})
	return f
}

// form returns the fields of the route first, as the editor sends them.
func formOfFirst() url.Values {
	return url.Values{"id": {"r-1"}, "version": {"4"}, "name": {"payments"}, "priority": {"20"}, "is_enabled": {"true"}, "filter_event_types": {"push"}, "filter": {`{"body.a": 1}`}, "event": {"e1"},
		"targets": {"2"}, "targets[0].type": {"http"}, "targets[0].url": {"https://crm.example/hook"}, "targets[0].auth_header": {"[redacted]"}, "targets[0]": {`{"headers":{"X-A":"b"}}`},
		"targets[1].type": {"task"}, "targets[1].task_kind": {"notify"}, "targets[1].priority": {"7"}}
}

func TestRoutesStandInTheOrderOfEvaluation(t *testing.T) {
	page := newRouteFixture(t).get("/console/t/acme/sources/github/routes").is(http.StatusOK).shows("data-drag-list", `name="up" value="r-2"`, "publish pushed", "notify")
	if one, two := strings.Index(page.body, `value="r-1"`), strings.Index(page.body, `value="r-2"`); one < 0 || one > two {
		t.Errorf("places of r-1 and r-2, got %d and %d, want the higher priority first", one, two)
	}
}

func TestRoutesAreReordered(t *testing.T) {
	for name, c := range map[string]struct{ up, down, want string }{
		"the dragged order": {"", "", `{"order":[{"id":"a","priority":30},{"id":"b","priority":20},{"id":"c","priority":10}]}`},
		"up":                {"b", "", `{"order":[{"id":"b","priority":30},{"id":"a","priority":20},{"id":"c","priority":10}]}`},
		"down":              {"", "b", `{"order":[{"id":"a","priority":30},{"id":"c","priority":20},{"id":"b","priority":10}]}`},
		"first up":          {"a", "", `{"order":[{"id":"a","priority":30},{"id":"b","priority":20},{"id":"c","priority":10}]}`},
	} {
		f := newRouteFixture(t)
		f.answer("PUT "+hooks+"/routes/reorder", client.RouteList{})
		f.post("/console/t/acme/sources/github/routes/order", url.Values{"order": {"a", "b", "c"}, "up": {c.up}, "down": {c.down}}).redirects("/console/t/acme/sources/github/routes")
		if got := f.called("PUT " + hooks + "/routes/reorder").Body; got != c.want {
			t.Errorf("%s: body, got %s, want %s", name, got, c.want)
		}
	}
}

func TestEditorShowsTheRouteAndItsVerdict(t *testing.T) {
	f := newRouteFixture(t)
	f.get("/console/t/acme/sources/github/routes/r-1?event=e1").is(http.StatusOK).lacks("<script>alert").
		shows("This event matches", "push matches push", "https://crm.example/hook", `name="targets[1].task_kind" type="text" value="notify"`, "&#34;exact&#34;: &#34;input&#34;", "[redacted]", "X-A")
	if got := f.called("POST " + T + "/expressions/test").Body; !strings.Contains(got, `"filter":{`) || !strings.Contains(got, `"event_type":"push"`) {
		t.Errorf("test of the filter, got %s", got)
	}
	f.get("/console/t/acme/sources/github/routes/new").is(http.StatusOK).lacks(`value="e0"`).shows("Create route", `value="e1" selected`, `name="targets[0].task_kind"`)
}

func TestVerdictOfAPastedPayload(t *testing.T) {
	f := newRouteFixture(t)
	form := formOfFirst()
	form.Set("event", "")
	f.post("/console/t/acme/sources/github/routes/form", form).shows("Choose an event, or paste a payload")
	form.Set("payload", "{")
	f.post("/console/t/acme/sources/github/routes/form", form).shows("The pasted payload is not JSON.")
	form.Set("payload", `{"a":2}`)
	form.Set("payload_type", "issues")
	f.answer("POST "+T+"/expressions/test", client.ExpressionResult{Matched: new(false), Reason: "body.a is 2, wanted 1"})
	f.post("/console/t/acme/sources/github/routes/form", form).shows("This event does not match", "issues matches none of push", "body.a is 2, wanted 1")
	f.answer("POST "+T+"/expressions/test", &client.Problem{Title: "Refused", Status: http.StatusUnprocessableEntity, Errors: []client.Fault{{Location: "body.filter", Message: "has an unknown operator"}}})
	f.post("/console/t/acme/sources/github/routes/form", form).shows("invalid", "has an unknown operator")
}

func TestTargetsAreAddedAndRemovedWithoutScript(t *testing.T) {
	f := newRouteFixture(t)
	form := formOfFirst()
	form.Set("add", "target")
	form.Set("add_type", "promise")
	f.post("/console/t/acme/sources/github/routes/form", form).is(http.StatusOK).shows(`name="targets" value="3"`, `name="targets[2].value_path"`)
	form = formOfFirst()
	form.Set("remove", "0")
	f.post("/console/t/acme/sources/github/routes/form", form).is(http.StatusOK).shows(`name="targets" value="1"`, `name="targets[0].task_kind" type="text" value="notify"`).lacks("crm.example")
}

func TestNumberOfTargetsIsBounded(t *testing.T) {
	f := newRouteFixture(t)
	for sent, want := range map[string]string{"9000000000000000000": "50", "99999999999999999999999": "50", "-9000000000000000000": "0", "many": "0", "": "0", "51": "50", "2": "2"} {
		form := formOfFirst()
		form.Set("targets", sent)
		f.post("/console/t/acme/sources/github/routes/form", form).is(http.StatusOK).shows(`name="targets" value="` + want + `"`)
		for act, change := range map[string]int{"add": 1, "remove": -1} {
			n, _ := strconv.Atoi(want)
			form := formOfFirst()
			form.Set("targets", sent)
			form.Set(act, "0")
			f.post("/console/t/acme/sources/github/routes/form", form).is(http.StatusOK).
				shows(`name="targets" value="` + strconv.Itoa(min(max(n+change, 0), 50)) + `"`)
		}
	}
}

func TestRemovingATargetRenumbersTheOthers(t *testing.T) {
	f := newRouteFixture(t)
	form := url.Values{"targets": {"12"}, "remove": {"1"}, "targets[x].url": {"other"}, "event": {"e1"}}
	for i := range 12 {
		form.Set("targets["+strconv.Itoa(i)+"].type", "task")
		form.Set("targets["+strconv.Itoa(i)+"].task_kind", "kind-"+strconv.Itoa(i))
	}
	page := f.post("/console/t/acme/sources/github/routes/form", form).is(http.StatusOK).lacks(`"kind-1"`, "targets[11]")
	for i := 1; i < 11; i++ {
		page.shows(`name="targets[` + strconv.Itoa(i) + `].task_kind" type="text" value="kind-` + strconv.Itoa(i+1) + `"`)
	}
}

func TestBacktestCountsStoredEvents(t *testing.T) {
	f := newRouteFixture(t)
	form := formOfFirst()
	form.Set("backtest", "true")
	f.post("/console/t/acme/sources/github/routes/form", form).is(http.StatusOK).shows("Would have matched 312 of the last 1\u202f000 events", "&lt;script&gt;alert").lacks("<script>alert")
	f.answer("POST "+T+"/routes/backtest", &client.Problem{Title: "Refused", Status: http.StatusServiceUnavailable, Detail: "Another backtest is running."})
	f.post("/console/t/acme/sources/github/routes/form", form).is(http.StatusOK).shows("Another backtest is running.")
}

func TestRouteIsCreated(t *testing.T) {
	f := newRouteFixture(t)
	f.answer("POST "+hooks+"/routes", client.Route{Name: "payments"})
	f.post("/console/t/acme/sources/github/routes/new", url.Values{"name": {"payments"}, "is_enabled": {"true"}, "filter_expression": {"body.a > 1"}, "targets": {"1"}, "targets[0].type": {"task"},
		"targets[0].task_kind": {"notify"}, "targets[0].max_attempts": {"9"}, "targets[0]": {`{"idempotency_ttl_seconds":60}`}}).redirects("/console/t/acme/sources/github/routes")
	want := `{"filter_expression":"body.a \u003e 1","is_enabled":true,"name":"payments","targets":[{"idempotency_ttl_seconds":60,"max_attempts":9,"task_kind":"notify","type":"task"}]}`
	if got := f.called("POST " + hooks + "/routes").Body; got != want {
		t.Errorf("body, got %s, want %s", got, want)
	}
}

func TestChangedRouteIsConfirmedBeforeItIsSaved(t *testing.T) {
	f := newRouteFixture(t)
	form := formOfFirst()
	f.post("/console/t/acme/sources/github/routes/r-1", form).is(http.StatusOK).lacks("<script>alert", "PATCH").
		shows("<code>name</code>", "payments", "<code>targets[1]</code>", "&#34;priority&#34;: 7", "Save 3 changes", `name="version" value="4"`).lacks("<code>filter</code>", "<code>is_enabled</code>")
	header := ""
	f.answer("PATCH "+hooks+"/routes/r-1", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header = r.Header.Get("If-Match")
		_, _ = w.Write([]byte("{}"))
	}))
	form.Set("confirm", "true")
	f.post("/console/t/acme/sources/github/routes/r-1", form).redirects("/console/t/acme/sources/github/routes/r-1")
	if header != `"4"` {
		t.Errorf("If-Match, got %s, want \"4\"", header)
	}
	if got := f.called("PATCH " + hooks + "/routes/r-1").Body; !strings.Contains(got, `"transform":null`) || !strings.Contains(got, `"filter":{"body.a":1}`) {
		t.Errorf("body, got %s", got)
	}
}

func TestFaultsOfARouteStandAtTheirFields(t *testing.T) {
	f := newRouteFixture(t)
	form := formOfFirst()
	form.Set("confirm", "true")
	f.answer("PATCH "+hooks+"/routes/r-1", &client.Problem{Title: "Refused", Status: http.StatusUnprocessableEntity, Errors: []client.Fault{{Location: "body.targets[0].headers.X-A", Message: "is reserved"},
		{Location: "body.targets[1].task_kind", Message: "is too long"}, {Location: "body.filter_expression", Message: "does not compile"}}})
	f.post("/console/t/acme/sources/github/routes/r-1", form).is(http.StatusUnprocessableEntity).shows("is reserved", "is too long", "does not compile").lacks(`<div class="notice failed" role="alert">`)
	f.answer("PATCH "+hooks+"/routes/r-1", &client.Problem{Title: "Refused", Status: http.StatusPreconditionFailed})
	f.post("/console/t/acme/sources/github/routes/r-1", form).is(http.StatusPreconditionFailed).shows("Somebody changed this route")
	form.Set("filter", "[")
	f.post("/console/t/acme/sources/github/routes/r-1", form).is(http.StatusUnprocessableEntity).shows("is not a JSON object")
}

func TestRouteIsDeleted(t *testing.T) {
	f := newRouteFixture(t)
	f.answer("DELETE "+hooks+"/routes/r-1", map[string]any{})
	f.post("/console/t/acme/sources/github/routes/r-1/delete", url.Values{"version": {"4"}}).redirects("/console/t/acme/sources/github/routes")
}
