package api_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
)

const tenants = "/api/admin/tenants"

func TestTenants(t *testing.T) {
	r := setUp(t)
	a := r.admin("POST", tenants, `{"slug":"fresh","name":"Fresh","max_events_per_day":1000}`).want(http.StatusCreated)
	made := a.object()
	want := map[string]any{"id": made["id"], "slug": "fresh", "name": "Fresh", "status": "active", "max_events_per_day": 1000.0, "max_storage_bytes": nil,
		"usage": map[string]any{"events_today": 0.0, "storage_bytes": 0.0}, "version": 1.0,
		"created_at": "2026-03-10T15:00:00Z", "updated_at": "2026-03-10T15:00:00Z"}
	if diff := cmp.Diff(want, made); diff != "" {
		t.Errorf("made (-want +got):\n%s", diff)
	}
	if got := a.Header().Get("Location"); got != tenants+"/fresh" {
		t.Errorf("got the location %q", got)
	}
	read := r.admin("GET", a.Header().Get("Location"), nil).want(http.StatusOK)
	if diff := cmp.Diff(made, read.object()); diff != "" {
		t.Errorf("read (-made +got):\n%s", diff)
	}
	for _, got := range []*answer{a, read} {
		if tag := got.Header().Get("ETag"); tag != `"1"` {
			t.Errorf("got the ETag %s, want that of version 1", tag)
		}
	}
	r.admin("GET", tenants+"/nobody", nil).want(http.StatusNotFound)
}

// Pages stay consistent while tenants are created.
func TestTenantsAreListedNewestFirst(t *testing.T) {
	r := setUp(t)
	want := []string{"umbrella", "acme"}
	add := func(slug string) {
		r.clock.Advance(time.Second)
		r.admin("POST", tenants, map[string]any{"slug": slug, "name": slug}).want(http.StatusCreated)
	}
	for n := range 3 {
		slug := fmt.Sprint("t", n)
		add(slug)
		want = append([]string{slug}, want...)
	}
	slices.Sort(want[3:]) // both were made in the same moment
	var got []string
	for next := tenants + "?limit=2"; next != ""; {
		p := r.list(next)
		for _, item := range p.Items {
			got = append(got, fmt.Sprint(item["slug"]))
		}
		if next = ""; p.NextCursor != nil {
			next = tenants + "?limit=2&cursor=" + *p.NextCursor
		}
		add(fmt.Sprint("late", len(got)))
	}
	slices.Sort(got[3:])
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("slugs (-want +got):\n%s", diff)
	}
}

func TestUsageIsShown(t *testing.T) {
	r := setUp(t)
	day := r.clock.Now().UTC().Truncate(24 * time.Hour)
	r.must(r.db.AddTenantCounts(t.Context(), 1, []eventhook.TenantCount{
		{TenantID: r.acme, Day: day, Events: 3, Bytes: 500}, {TenantID: r.acme, Day: day.AddDate(0, 0, -1), Events: 40, Bytes: 70}}))
	want := map[string]any{"events_today": 3.0, "storage_bytes": 570.0}
	if diff := cmp.Diff(want, r.admin("GET", tenants+"/acme", nil).want(http.StatusOK).object()["usage"]); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	for _, item := range r.list(tenants).Items {
		if diff := cmp.Diff(want, item["usage"]); (item["slug"] == "acme") != (diff == "") {
			t.Errorf("listed %v", item)
		}
	}
}

func TestUpdateTenant(t *testing.T) {
	r := setUp(t)
	r.admin("PATCH", tenants+"/acme", `{"max_events_per_day":10,"max_storage_bytes":20}`).want(http.StatusOK)
	const acme = `{"name":"Acme","status":"active","max_events_per_day":10,"max_storage_bytes":20}`
	for _, c := range []struct{ claim, patch, want string }{
		{"nothing", `{}`, acme},
		{"the name", `{"name":"Acme Inc."}`, strings.Replace(acme, "Acme", "Acme Inc.", 1)},
		{"the status", `{"status":"suspended"}`, strings.Replace(acme, "active", "suspended", 1)},
		{"a quota of nothing", `{"max_events_per_day":0}`, strings.Replace(acme, "10", "0", 1)},
		{"no quota", `{"max_storage_bytes":null}`, strings.Replace(acme, "20", "null", 1)},
		{"all at once", `{"name":"A","status":"suspended","max_events_per_day":null,"max_storage_bytes":1}`, `{"name":"A","status":"suspended","max_events_per_day":null,"max_storage_bytes":1}`},
		{"all back", acme, acme},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := r.subtest(t)
			a := r.admin("PATCH", tenants+"/acme", c.patch).want(http.StatusOK)
			var got, want map[string]any
			a.into(&got)
			(&answer{t: t, ResponseRecorder: recorded(c.want)}).into(&want)
			for field, value := range want {
				if got[field] != value {
					t.Errorf("%s is %v, want %v", field, got[field], value)
				}
			}
			if a.Header().Get("ETag") != fmt.Sprintf(`"%v"`, got["version"]) {
				t.Errorf("got the ETag %s of version %v", a.Header().Get("ETag"), got["version"])
			}
			r.admin("PATCH", tenants+"/acme", acme).want(http.StatusOK)
		})
	}
}

func TestAllFaultsOfATenantAreReportedAtOnce(t *testing.T) {
	r := setUp(t)
	for _, c := range []struct {
		claim, method, body string
		want                int
		at                  []string
	}{
		{"wrong types and broken rules", "POST", `{"slug":"Not A Slug","name":7,"max_events_per_day":-1,"max_storage_bytes":"x","max":1}`, 422,
			[]string{"body.max", "body.max_events_per_day", "body.max_storage_bytes", "body.name", "body.slug"}},
		{"what is required", "POST", `{}`, 422, []string{"body.name", "body.slug"}},
		{"a name too long", "POST", `{"slug":"x","name":"` + strings.Repeat("n", 201) + `"}`, 422, []string{"body.name"}},
		{"a quota that no integer can hold", "POST", `{"slug":"x","name":"x","max_events_per_day":1e30}`, 422, []string{"body.max_events_per_day"}},
		{"a slug that is taken", "POST", `{"slug":"acme","name":"Acme"}`, 409, nil},
		{"a patch of all", "PATCH", `{"slug":"other","name":"","status":"asleep","max_events_per_day":-1,"max_storage_bytes":1.5}`, 422,
			[]string{"body.max_events_per_day", "body.max_storage_bytes", "body.name", "body.slug", "body.status"}},
		{"closing is no patch", "PATCH", `{"status":"closed"}`, 422, []string{"body.status"}},
		{"nulls for what there must be", "PATCH", `{"name":null,"status":null}`, 422, []string{"body.name", "body.status"}},
		{"no object", "PATCH", `[]`, 422, []string{"body"}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := r.subtest(t)
			path := tenants
			if c.method == "PATCH" {
				path += "/acme"
			}
			got := r.admin(c.method, path, c.body).want(c.want).problem()
			at := got.locations()
			slices.Sort(at)
			if diff := cmp.Diff(c.at, at); diff != "" {
				t.Errorf("%+v: locations (-want +got):\n%s", got, diff)
			}
		})
	}
	r.admin("PATCH", tenants+"/nobody", `{"name":"N"}`).want(http.StatusNotFound)
}

func TestStaleUpdateIsRefused(t *testing.T) {
	r := setUp(t)
	patch := func(ifMatch string, want int) {
		t.Helper()
		r.withHeader(adminKey, "PATCH", tenants+"/acme", `{"name":"`+ifMatch[1:len(ifMatch)-1]+`"}`, "If-Match", ifMatch).want(want)
	}
	patch(`"1"`, http.StatusOK)
	for _, stale := range []string{`"1"`, `"3"`, `W/"2"`, `"two"`} {
		r.withHeader(adminKey, "PATCH", tenants+"/acme", `{"name":"stale"}`, "If-Match", stale).want(http.StatusPreconditionFailed)
	}
	patch(`"2"`, http.StatusOK)
	r.withHeader(adminKey, "PATCH", tenants+"/acme", `{"name":"any"}`, "If-Match", "*").want(http.StatusOK)
	if got := r.admin("GET", tenants+"/acme", nil).object(); got["name"] != "any" || got["version"] != 4.0 {
		t.Errorf("got %v, want the changes that were not stale", got)
	}
}

// Of concurrent requests with one slug, exactly one succeeds.
func TestConcurrentCreatesOfATenantSlug(t *testing.T) {
	r := setUp(t)
	var all []<-chan *answer
	for range 8 {
		all = append(all, r.sendAsync(adminKey, "POST", tenants, `{"slug":"fresh","name":"Fresh"}`))
	}
	got := map[int]int{}
	for _, a := range all {
		got[receive(t, "an answer", a).Code]++
	}
	if diff := cmp.Diff(map[int]int{http.StatusCreated: 1, http.StatusConflict: 7}, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
}

// TestSuspendedTenant: the keys cannot change or publish anything, but can read and
// process what was accepted.
func TestSuspendedTenant(t *testing.T) {
	r := setUp(t)
	all, _ := r.key("acme", eventhook.Scopes...)
	e := r.event()
	r.settle(e, r.plannedExecution(eventhook.Workflow, "pay"))
	r.call(all, "GET", T("acme")+"/audit", nil).want(http.StatusOK)
	r.admin("PATCH", tenants+"/acme", `{"status":"suspended"}`).want(http.StatusOK)

	var claimed struct{ Items []item }
	r.call(all, "POST", T("acme")+"/work/claim", `{}`).want(http.StatusOK).into(&claimed)
	if len(claimed.Items) != 1 {
		t.Fatalf("claimed %d, want the work that was accepted before", len(claimed.Items))
	}
	done := claimed.Items[0]
	r.call(all, "POST", T("acme")+"/promises", `{"idempotency_key":"k"}`).want(http.StatusCreated)
	r.call(all, "POST", T("acme")+"/work/"+done.ID+"/complete", map[string]any{"lease_token": done.LeaseToken}).want(http.StatusOK)
	r.call(all, "GET", T("acme")+"/events/"+e.ID.String(), nil).want(http.StatusOK)
	r.call(all, "GET", T("acme")+"/audit", nil).want(http.StatusOK)
	for _, op := range r.operations() {
		if scope := op.Metadata["scope"].(eventhook.Scope); (scope != eventhook.ScopeManage && scope != eventhook.ScopePublish) || op.Method == "GET" {
			continue
		}
		if p := r.call(all, op.Method, pathOf(op, "acme"), `{}`).want(http.StatusForbidden).problem(); !strings.Contains(p.Detail, "suspended") {
			t.Errorf("%s %s: refused with %q, want the reason", op.Method, op.Path, p.Detail)
		}
		if a := r.admin(op.Method, pathOf(op, "acme"), `{}`); a.Code == http.StatusForbidden {
			t.Errorf("%s %s: the admin was answered 403", op.Method, op.Path)
		}
	}
	r.admin("PATCH", tenants+"/acme", `{"status":"active"}`).want(http.StatusOK)
	r.call(all, "POST", T("acme")+"/sources/crm/test", `{}`).want(http.StatusOK)
}

func TestClosedTenant(t *testing.T) {
	r := setUp(t)
	key, _ := r.key("acme", eventhook.Scopes...)
	r.clock.Advance(time.Minute)
	r.call(key, "GET", T("acme")+"/events", nil).want(http.StatusOK) // it is known from now on

	closed := r.admin("POST", tenants+"/acme/close", nil).want(http.StatusOK)
	if got := closed.object(); got["status"] != "closed" || got["version"] != 2.0 || closed.Header().Get("ETag") != `"2"` {
		t.Errorf("closed %v (%s), want version 2 of it", got, closed.Header().Get("ETag"))
	}
	r.call(key, "GET", T("acme")+"/events", nil).want(http.StatusUnauthorized)
	for _, c := range []struct{ method, path, body string }{
		{"POST", tenants + "/acme/close", ""},
		{"PATCH", tenants + "/acme", `{"status":"active"}`},
		{"PATCH", tenants + "/acme", `{"name":"Acme Inc."}`},
		{"POST", tenants + "/acme/keys", `{"name":"k","scopes":["read"]}`},
		{"POST", tenants, `{"slug":"acme","name":"Acme"}`},
	} {
		r.admin(c.method, c.path, c.body).want(http.StatusConflict)
	}
	for _, op := range r.operations() {
		if scope := op.Metadata["scope"].(eventhook.Scope); (scope == eventhook.ScopeManage || scope == eventhook.ScopePublish || scope == eventhook.ScopeWork) && op.Method != "GET" {
			r.admin(op.Method, pathOf(op, "acme"), `{}`).want(http.StatusConflict)
		}
	}

	told := map[string]int{}
	correlation := ""
	for _, e := range r.list(T("acme") + "/events").Items {
		if e["correlation_id"] != nil {
			told[fmt.Sprint(e["event_type"])]++
			correlation = fmt.Sprint(e["correlation_id"])
		}
	}
	if diff := cmp.Diff(map[string]int{"tenant.closed": 1, "source.disabled_via_tenant_cascade": 2, "api_key.revoked_via_tenant_cascade": 1}, told); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if entry := r.list(T("acme") + "/audit?action=tenant.closed").Items[0]; entry["correlation_id"] != correlation || correlation == "" {
		t.Errorf("the entry's correlation is %v, its events' %q; want one", entry["correlation_id"], correlation)
	}
	if keys := r.list(tenants + "/acme/keys").Items; keys[0]["expires_at"] != "2026-03-10T15:01:00Z" {
		t.Errorf("the key is listed as %v, want it ended by the closing", keys[0])
	}
}

func TestPurge(t *testing.T) {
	r := setUp(t)
	progress := func(a *answer) (closing, purge map[string]any) {
		o := a.object()
		closing, _ = o["closing"].(map[string]any)
		purge, _ = o["purge"].(map[string]any)
		return closing, purge
	}
	if closing, purge := progress(r.admin("GET", tenants+"/acme", nil).want(http.StatusOK)); closing != nil || purge != nil {
		t.Errorf("an active tenant shows %v and %v, want neither", closing, purge)
	}
	r.admin("POST", tenants+"/acme/purge", nil).want(http.StatusConflict)
	r.admin("POST", tenants+"/unknown/purge", nil).want(http.StatusNotFound)
	closing, purge := progress(r.admin("POST", tenants+"/acme/close", nil).want(http.StatusOK))
	if closing["status"] != "running" || closing["completed_at"] != nil || closing["correlation_id"] == "" || purge != nil {
		t.Errorf("closed: got %v and %v, want a running closing", closing, purge)
	}
	if _, purge := progress(r.admin("POST", tenants+"/acme/purge", nil).want(http.StatusAccepted)); purge["status"] != "running" {
		t.Errorf("got the purge %v, want a running one", purge)
	}
	r.clock.Advance(time.Minute) // a purge begins half a minute after the closing
	for more := true; more; {
		var err error
		more, err = r.db.CleanUpTenants(t.Context())
		r.must(err)
	}
	closing, purge = progress(r.admin("GET", tenants+"/acme", nil).want(http.StatusOK))
	if closing["status"] != "completed" || purge["status"] != "completed" || purge["deleted_rows"].(float64) < 4 || purge["completed_at"] == nil {
		t.Errorf("got %v and %v, want both completed", closing, purge)
	}
	if list := r.list(T("acme") + "/sources").Items; len(list) != 0 {
		t.Errorf("got the sources %v, want none", list)
	}
	r.admin("POST", tenants+"/acme/purge", nil).want(http.StatusAccepted)
}
