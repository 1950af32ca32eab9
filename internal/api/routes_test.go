package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/pg"
)

// routesPath is the path of crm's routes.
func routesPath(more ...string) string {
	return T("acme") + strings.Join(append([]string{sources + "/crm/routes"}, more...), "/")
}

func TestRoute(t *testing.T) {
	r := setUp(t)
	body := `{"name":"payments","priority":10,"is_enabled":false,"filter_event_types":["payment.*"],
		"filter":{"body.amount":{"$gte":1000},"body.big":9007199254740993,"body.gone":null},
		"filter_expression":"body.live","filter_function":"function filter(e) { return true }",
		"transform":{"type":"jmespath","expression":"{id: id}"},
		"targets":[{"type":"promise","idempotency_key_path":"body.id","idempotency_key_prefix":"p:","resolve":false,"value_path":"body.data","error_path":"body.error","on_missing":"fail"},
			{"type":"workflow","workflow_kind":"pay","queue":"q","max_attempts":2},{"type":"task","task_kind":"notify"}]}`
	a := r.admin("POST", routesPath(), body).want(http.StatusCreated)
	made := a.object()
	id, _ := made["id"].(string)
	if got := a.Header().Get("Location"); got != routesPath(id) || a.Header().Get("ETag") != `"1"` {
		t.Errorf("the Location is %q and the ETag %s", got, a.Header().Get("ETag"))
	}
	var want object
	r.must(json.Unmarshal([]byte(body), &want))
	for name, value := range (object{"id": id, "version": 1.0, "created_at": "2026-03-10T15:00:00Z", "updated_at": "2026-03-10T15:00:00Z"}) {
		want[name] = value
	}
	if diff := cmp.Diff(want, made); diff != "" {
		t.Errorf("created (-want +got):\n%s", diff)
	}
	read := r.admin("GET", routesPath(id), nil).want(http.StatusOK)
	if diff := cmp.Diff(made, read.object()); diff != "" || read.Header().Get("ETag") != `"1"` {
		t.Errorf("read (-created +got):\n%s", diff)
	}
	if !strings.Contains(read.Body.String(), `9007199254740993`) {
		t.Errorf("answered %s, want the numbers unchanged", read.Body)
	}
}

func TestRouteDefaults(t *testing.T) {
	r := setUp(t)
	got := r.admin("POST", routesPath(), `{"name":"little","targets":[{"type":"task","task_kind":"x"}]}`).want(http.StatusCreated).object()
	want := object{"id": got["id"], "name": "little", "priority": 0.0, "is_enabled": true, "filter_event_types": []any{}, "filter_expression": nil, "filter_function": nil,
		"targets": []any{object{"type": "task", "task_kind": "x"}}, "version": 1.0, "created_at": got["created_at"], "updated_at": got["updated_at"]}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("created (-want +got):\n%s", diff)
	}
}

func TestUpdateRoute(t *testing.T) {
	r := setUp(t)
	path := routesPath(r.route.ID.String())
	version := 1.0
	for _, c := range []struct {
		claim, patch string
		want         object
	}{
		{"no change", `{}`, nil},
		{"a name", `{"name":"everything"}`, object{"name": "everything"}},
		{"a filter", `{"filter":{"body.a":1,"body.b":null}}`, object{"filter": object{"body.a": 1.0, "body.b": nil}}},
		{"a filter is replaced as a whole", `{"filter":{"body.c":[2]}}`, object{"filter": object{"body.c": []any{2.0}}}},
		{"no filter", `{"filter":null}`, object{"filter": nil}},
		{"an expression", `{"filter_expression":"body.n > 1"}`, object{"filter_expression": "body.n > 1"}},
		{"no expression", `{"filter_expression":null}`, object{"filter_expression": nil}},
		{"a transform", `{"transform":{"type":"jmespath","expression":"a"}}`, object{"transform": object{"type": "jmespath", "expression": "a"}}},
		{"a part of the transform", `{"transform":{"expression":"b"}}`, object{"transform": object{"type": "jmespath", "expression": "b"}}},
		{"no transform", `{"transform":null}`, object{"transform": nil}},
		{"targets are replaced as a whole", `{"targets":[{"type":"workflow","workflow_kind":"w"}]}`, object{"targets": []any{object{"type": "workflow", "workflow_kind": "w"}}}},
		{"disabled", `{"is_enabled":false,"priority":-5}`, object{"is_enabled": false, "priority": -5.0}},
		{"the defaults", `{"is_enabled":null,"priority":null}`, object{"is_enabled": true, "priority": 0.0}},
	} {
		a := r.admin("PATCH", path, c.patch).want(http.StatusOK)
		got := a.object()
		if c.want != nil {
			version++
		}
		if got["version"] != version || a.Header().Get("ETag") != fmt.Sprintf(`"%v"`, version) {
			t.Errorf("%s: version %v, want %v", c.claim, got["version"], version)
		}
		for name, want := range c.want {
			if diff := cmp.Diff(want, got[name]); diff != "" {
				t.Errorf("%s: %s (-want +got):\n%s", c.claim, name, diff)
			}
		}
	}
}

func TestRouteVersions(t *testing.T) {
	r := setUp(t)
	path := routesPath(r.route.ID.String())
	r.matching(`"1"`, "PATCH", path, `{"priority":1}`).want(http.StatusOK)
	r.matching(`"1"`, "PATCH", path, `{"priority":2}`).want(http.StatusPreconditionFailed)
	r.matching(`"1"`, "DELETE", path, "").want(http.StatusPreconditionFailed)
	r.matching(`"2"`, "DELETE", path, "").want(http.StatusNoContent)
	r.admin("GET", path, nil).want(http.StatusNotFound)
	r.admin("PATCH", path, `{}`).want(http.StatusNotFound)
	r.admin("DELETE", path, nil).want(http.StatusNotFound)
}

func TestRouteFaults(t *testing.T) {
	r := setUp(t)
	target := `"targets":[{"type":"task","task_kind":"x"}]`
	with := func(members string) string { return `{"name":"n",` + target + `,` + members + `}` }
	for _, c := range []struct {
		claim, body string
		want        int
		at          []string
	}{
		{"missing required members", `{}`, 422, []string{"body.name", "body.targets"}},
		{"no target", `{"name":"n","targets":[]}`, 422, []string{"body.targets"}},
		{"unknown and missing target types", `{"name":"n","targets":[{"type":"mail"},{}]}`, 422, []string{"body.targets[0].type", "body.targets[1].type"}},
		{"targets without a destination", `{"name":"n","targets":[{"type":"publish"},{"type":"http"}]}`, 422, []string{"body.targets[0].event_type", "body.targets[1].url"}},
		{"a target's members of the wrong type", `{"name":"n","targets":[{"type":"http","url":7,"headers":{"X":[]},"method":"GET","colour":1}]}`, 422,
			[]string{"body.targets[0].colour", "body.targets[0].headers.X", "body.targets[0].method", "body.targets[0].url"}},
		{"a URL with a password", `{"name":"n","targets":[{"type":"http","url":"https://a:b@internal.example"}]}`, 422, []string{"body.targets[0].url"}},
		{"the placeholder of a secret", `{"name":"n","targets":[{"type":"http","url":"https://internal.example","auth_header":"[redacted]"}]}`, 422, []string{"body.targets[0].auth_header"}},
		{"a target without its kind", `{"name":"n","targets":[{"type":"task"},{"type":"workflow","task_kind":"x"}]}`, 422,
			[]string{"body.targets[0].task_kind", "body.targets[1].task_kind", "body.targets[1].workflow_kind"}},
		{"a promise without a key", `{"name":"n","targets":[{"type":"promise"}]}`, 422, []string{"body.targets[0].idempotency_key_path"}},
		{"a field of another target type", `{"name":"n","targets":[{"type":"task","task_kind":"x","url":"y"}]}`, 422, []string{"body.targets[0].url"}},
		{"invalid patterns", with(`"filter_event_types":["a.*","*.b",""]`), 422, []string{"body.filter_event_types[1]", "body.filter_event_types[2]"}},
		{"an unknown operator", with(`"filter":{"body.a":{"$near":1}}`), 422, []string{"body.filter.body.a.$near"}},
		{"a filter that is not an object", with(`"filter":[1]`), 422, []string{"body.filter"}},
		{"an expression that does not compile", with(`"filter_expression":"body.("`), 422, []string{"body.filter_expression"}},
		{"a function that does not compile", with(`"filter_function":"function ("`), 422, []string{"body.filter_function"}},
		{"a function with a NUL", with(`"filter_function":"function filter(e) { return '\u0000' }"`), 422, []string{"body.filter_function"}},
		{"a transform that does not compile", with(`"transform":{"type":"jmespath","expression":"a["}`), 422, []string{"body.transform.expression"}},
		{"an unknown transform type", with(`"transform":{"type":"perl","expression":"x"}`), 422, []string{"body.transform.type"}},
		{"a priority out of range", with(`"priority":1000001`), 422, []string{"body.priority"}},
		{"an unknown field", with(`"colour":1`), 422, []string{"body.colour"}},
		{"an existing name", `{"name":"all",` + target + `}`, 409, nil},
		{"a name that is too long", `{"name":"` + strings.Repeat("n", 201) + `",` + target + `}`, 422, []string{"body.name"}},
		{"several faults", `{"name":"","colour":1,"filter_expression":"(","targets":[{"type":"task"}]}`, 422,
			[]string{"body.name", "body.colour", "body.filter_expression", "body.targets[0].task_kind"}},
		{"an array", `[]`, 422, []string{"body"}},
		{"an empty body", ``, 400, []string{"body"}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := r.subtest(t)
			r.wantFaults(r.admin("POST", routesPath(), c.body), c.want, c.at)
		})
	}
	r.wantFaults(r.admin("PATCH", routesPath(r.route.ID.String()), `{"targets":[{"type":"task"}],"colour":null,"name":null}`), 422,
		[]string{"body.colour", "body.name", "body.targets[0].task_kind"})
}

func TestRoutePaths(t *testing.T) {
	r := setUp(t)
	absent := eventhook.NewID[eventhook.Route](noon).String()
	for _, c := range []struct {
		path string
		want int
	}{
		{"/sources/crm/routes/17", 400},
		{"/sources/crm/routes/%00", 400},
		{"/sources/crm/routes/" + absent, 404},
		{"/sources/shop/routes/" + r.route.ID.String(), 404},
		{"/sources/nowhere/routes/" + r.route.ID.String(), 404},
		{"/sources/%00/routes/" + r.route.ID.String(), 404},
	} {
		r.admin("GET", T("acme")+c.path, nil).want(c.want)
		r.admin("PATCH", T("acme")+c.path, `{}`).want(c.want)
		r.admin("DELETE", T("acme")+c.path, nil).want(c.want)
	}
	for _, slug := range []string{"nowhere", "%00"} {
		r.admin("GET", T("acme")+"/sources/"+slug+"/routes", nil).want(http.StatusNotFound)
		r.admin("POST", T("acme")+"/sources/"+slug+"/routes", `{}`).want(http.StatusNotFound)
		r.admin("PUT", T("acme")+"/sources/"+slug+"/routes/reorder", `{}`).want(http.StatusNotFound)
	}
	other, _ := r.key("umbrella", eventhook.Scopes...)
	r.call(other, "GET", T("umbrella")+"/sources/crm/routes/"+r.route.ID.String(), nil).want(http.StatusNotFound)
	r.call(other, "DELETE", T("umbrella")+"/sources/crm/routes/"+r.route.ID.String(), nil).want(http.StatusNotFound)
}

// more creates routes of crm and returns their ids, oldest first.
func (r *fixture) more(n int) (ids []string) {
	r.Helper()
	for i := range n {
		r.clock.Advance(1e9)
		a := r.admin("POST", routesPath(), fmt.Sprintf(`{"name":"r%d","targets":[{"type":"task","task_kind":"x"}]}`, i)).want(http.StatusCreated)
		ids = append(ids, a.object()["id"].(string))
	}
	return ids
}

func TestRoutesArePaged(t *testing.T) {
	r := setUp(t)
	want := append([]string{r.route.ID.String()}, r.more(4)...)
	slices.Reverse(want)
	first := r.list(routesPath() + "?limit=3")
	second := r.list(routesPath() + "?limit=3&cursor=" + *first.NextCursor)
	if diff := cmp.Diff(want, append(first.ids(), second.ids()...)); diff != "" || second.NextCursor != nil {
		t.Errorf("newest first (-want +got):\n%s", diff)
	}
	r.admin("GET", T("acme")+"/sources/shop/routes?cursor="+*first.NextCursor, nil).want(http.StatusBadRequest)
}

func TestReorderRoutes(t *testing.T) {
	r := setUp(t)
	ids := append([]string{r.route.ID.String()}, r.more(3)...)
	order := func(places ...any) string {
		list := []object{}
		for i := 0; i < len(places); i += 2 {
			list = append(list, object{"id": places[i], "priority": places[i+1]})
		}
		raw, err := json.Marshal(object{"order": list})
		r.must(err)
		return string(raw)
	}
	var got page
	r.admin("PUT", routesPath("reorder"), order(ids[3], 30, ids[1], 20, ids[0], 10)).want(http.StatusOK).into(&got)
	if diff := cmp.Diff([]string{ids[3], ids[1], ids[0], ids[2]}, got.ids()); diff != "" {
		t.Errorf("new order (-want +got):\n%s", diff)
	}
	absent := eventhook.NewID[eventhook.Route](noon).String()
	for _, c := range []struct {
		claim, body string
		want        int
		at          []string
	}{
		{"an unknown route", order(ids[0], 1, absent, 2), 422, []string{"body.order[1].id"}},
		{"a repeated route", order(ids[0], 1, ids[1], 2, ids[0], 3), 422, []string{"body.order[2].id"}},
		{"an invalid id", order(ids[0], 1, "17", 2, ids[0], 3), 400, []string{"body.order[1].id", "body.order[2].id"}},
		{"a priority out of range", order(ids[0], 1000001), 422, []string{"body.order[0].priority"}},
		{"no priority", `{"order":[{"id":"` + ids[0] + `"}]}`, 422, []string{"body.order[0].priority"}},
		{"an empty order", `{"order":[]}`, 422, []string{"body.order"}},
		{"no order", `{}`, 422, []string{"body.order"}},
		{"wrong types", `{"order":[{"id":1,"priority":"x"},2]}`, 422, []string{"body.order[0].id", "body.order[0].priority", "body.order[1]"}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := r.subtest(t)
			r.wantFaults(r.admin("PUT", routesPath("reorder"), c.body), c.want, c.at)
		})
	}
	if got := r.admin("GET", routesPath(ids[0]), nil).object(); got["priority"] != 10.0 || got["version"] != 2.0 {
		t.Errorf("after the refused requests the route has the priority %v in version %v, want 10 in 2", got["priority"], got["version"])
	}
}

func TestRoutesAreLimited(t *testing.T) {
	r := setUp(t)
	var all []eventhook.Route
	for i := range eventhook.MaxRoutes {
		all = append(all, eventhook.Route{Name: fmt.Sprint(i), IsEnabled: true, Targets: []eventhook.Target{{Type: eventhook.TargetTask, Settings: []byte(`{"task_kind":"x"}`)}}})
	}
	r.routesOf("shop", all)
	body := `{"name":"one more","targets":[{"type":"task","task_kind":"x"}]}`
	r.admin("POST", T("acme")+"/sources/shop/routes", body).want(http.StatusConflict)
	r.admin("POST", routesPath(), body).want(http.StatusCreated)
}

// routesOf sets the routes of one of acme's sources.
func (r *fixture) routesOf(slug string, list []eventhook.Route) {
	r.Helper()
	s, err := r.db.FindSource(r.Context(), "acme", slug)
	r.must(err)
	_, err = r.db.ApplyTenant(r.Context(), operator, eventhook.TenantConfig{Tenant: eventhook.Tenant{Slug: "acme", Name: "Acme"},
		Sources: []eventhook.SourceConfig{{Source: s, Routes: list}}}, pg.ApplyOptions{})
	r.must(err)
}
