package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
)

func eventTypePath(name string) string { return T("acme") + "/event-types/" + url.PathEscape(name) }

func TestEventType(t *testing.T) {
	r := setUp(t)
	body := object{"description": "A payment succeeded.", "category": "payment", "schema": object{"type": "object", "required": []any{"amount"}}, "visibility": "admin"}
	a := r.admin("PUT", eventTypePath("payment.succeeded"), body).want(http.StatusCreated)
	want := object{"name": "payment.succeeded", "is_builtin": false, "version": 1.0, "created_at": "2026-03-10T15:00:00Z", "updated_at": "2026-03-10T15:00:00Z"}
	for name, value := range body {
		want[name] = value
	}
	if diff := cmp.Diff(want, a.object()); diff != "" || a.Header().Get("ETag") != `"1"` {
		t.Errorf("created with the ETag %s (-want +got):\n%s", a.Header().Get("ETag"), diff)
	}
	if diff := cmp.Diff(want, r.admin("GET", eventTypePath("payment.succeeded"), nil).want(http.StatusOK).object()); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	r.admin("PUT", eventTypePath("payment.succeeded"), body).want(http.StatusOK)
	r.clock.Advance(time.Hour)
	want = object{"name": "payment.succeeded", "is_builtin": false, "description": "", "category": "", "visibility": "tenant",
		"version": 2.0, "created_at": "2026-03-10T15:00:00Z", "updated_at": "2026-03-10T16:00:00Z"}
	if diff := cmp.Diff(want, r.admin("PUT", eventTypePath("payment.succeeded"), object{}).want(http.StatusOK).object()); diff != "" {
		t.Errorf("replaced (-want +got):\n%s", diff)
	}
	r.matching(`"1"`, "PUT", eventTypePath("payment.succeeded"), `{}`).want(http.StatusPreconditionFailed)
	r.matching(`"1"`, "PUT", eventTypePath("another"), `{}`).want(http.StatusPreconditionFailed)
	r.matching(`"1"`, "DELETE", eventTypePath("payment.succeeded"), "").want(http.StatusPreconditionFailed)
	r.matching(`"2"`, "DELETE", eventTypePath("payment.succeeded"), "").want(http.StatusNoContent)
	for _, name := range []string{"payment.succeeded", "another"} {
		r.admin("GET", eventTypePath(name), nil).want(http.StatusNotFound)
		r.admin("DELETE", eventTypePath(name), nil).want(http.StatusNotFound)
	}
}

func TestAdminEventTypes(t *testing.T) {
	r := setUp(t)
	key, _ := r.key("acme", eventhook.Scopes...)
	r.admin("PUT", eventTypePath("secret.thing"), object{"visibility": "admin"}).want(http.StatusCreated)
	r.call(key, "PUT", eventTypePath("open.thing"), object{}).want(http.StatusCreated)
	r.call(key, "PUT", eventTypePath("other.thing"), object{"visibility": "admin"}).want(http.StatusForbidden)
	r.call(key, "PUT", eventTypePath("secret.thing"), object{}).want(http.StatusForbidden)
	r.call(key, "GET", eventTypePath("secret.thing"), nil).want(http.StatusNotFound)
	r.call(key, "DELETE", eventTypePath("secret.thing"), nil).want(http.StatusNotFound)
	r.call(key, "GET", eventTypePath("tenant.created"), nil).want(http.StatusNotFound)
	names := func(key string) []string {
		var p page
		r.call(key, "GET", T("acme")+"/event-types?limit=250", nil).want(http.StatusOK).into(&p)
		var all []string
		for _, i := range p.Items {
			all = append(all, fmt.Sprint(i["name"]))
		}
		return all
	}
	for name, want := range map[string]bool{"open.thing": true, "source.updated": true, "secret.thing": false, "tenant.created": false} {
		if got := slices.Contains(names(key), name); got != want {
			t.Errorf("%s is listed for a tenant's key: %v, want %v", name, got, want)
		}
		if !slices.Contains(names(adminKey), name) {
			t.Errorf("%s is not listed for the admin", name)
		}
	}
	r.admin("GET", eventTypePath("secret.thing"), nil).want(http.StatusOK)
	other, _ := r.key("umbrella", eventhook.Scopes...)
	r.call(other, "GET", T("umbrella")+"/event-types/open.thing", nil).want(http.StatusNotFound)
}

func TestBuiltinEventTypes(t *testing.T) {
	r := setUp(t)
	for _, builtin := range eventhook.SystemEventTypes() {
		a := r.admin("GET", eventTypePath(builtin.Name), nil).want(http.StatusOK)
		got := a.object()
		if got["is_builtin"] != true || got["visibility"] != string(builtin.Visibility) || got["created_at"] != nil || a.Header().Get("ETag") != "" {
			t.Errorf("got %v with the tag %q, want a built-in entry", got, a.Header().Get("ETag"))
		}
		if faults := builtin.Validate(); len(faults) > 0 {
			t.Errorf("%s: %v", builtin.Name, faults)
		}
		r.admin("PUT", eventTypePath(builtin.Name), `{}`).want(http.StatusConflict)
		r.admin("DELETE", eventTypePath(builtin.Name), nil).want(http.StatusConflict)
	}
}

// TestLifecycleEventTypesAreNotReserved describes a tenant's own events of such a type.
func TestLifecycleEventTypesAreNotReserved(t *testing.T) {
	r := setUp(t)
	if got := r.admin("GET", eventTypePath("task.dead"), nil).want(http.StatusOK).object(); got["is_builtin"] != true || got["visibility"] != "tenant" {
		t.Errorf("got %v, want a built-in entry", got)
	}
	r.admin("PUT", eventTypePath("task.dead"), `{"description":"Ours."}`).want(http.StatusCreated)
	if got := r.admin("GET", eventTypePath("task.dead"), nil).want(http.StatusOK).object(); got["is_builtin"] != false || got["description"] != "Ours." {
		t.Errorf("got %v, want the tenant's entry", got)
	}
	r.admin("DELETE", eventTypePath("task.dead"), nil).want(http.StatusNoContent)
	r.admin("GET", eventTypePath("task.dead"), nil).want(http.StatusOK)
	r.publish(map[string]any{"event_type": "task.dead", "data": 1}).want(http.StatusAccepted)
}

func TestEventTypesArePaged(t *testing.T) {
	r := setUp(t)
	var want []string
	for i := range 4 {
		r.clock.Advance(time.Second)
		name := fmt.Sprintf("own.%d", i)
		r.admin("PUT", eventTypePath(name), `{}`).want(http.StatusCreated)
		want = slices.Insert(want, 0, name)
	}
	own := len(want)
	for _, t := range slices.Concat(eventhook.SystemEventTypes(), eventhook.LifecycleEventTypes()) {
		want = append(want, t.Name)
	}
	slices.Sort(want[own:])
	for _, limit := range []int{1, 3, 4, 5, len(want), 250} {
		var got []string
		for path := fmt.Sprintf("%s/event-types?limit=%d&cursor=", T("acme"), limit); ; {
			p := r.list(path)
			for _, i := range p.Items {
				got = append(got, fmt.Sprint(i["name"]))
			}
			if p.NextCursor == nil {
				break
			}
			path = fmt.Sprintf("%s/event-types?limit=%d&cursor=%s", T("acme"), limit, *p.NextCursor)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("pages of %d (-want +got):\n%s", limit, diff)
		}
	}
	r.admin("GET", T("acme")+"/event-types?cursor=AAAA", nil).want(http.StatusBadRequest)
}

func TestEventTypeFaults(t *testing.T) {
	r := setUp(t)
	schema := func(s string) string { return `{"schema":` + s + `}` }
	file := filepath.Join(t.TempDir(), "schema.json")
	r.must(os.WriteFile(file, []byte(`{"type":"string"}`), 0o600))
	for _, c := range []struct {
		claim, name, body string
		want              int
		at                []string
	}{
		{"a name that is a pattern", "a.*", `{}`, 422, []string{"path.name"}},
		{"a name with a NUL", "a\x00", `{}`, 422, []string{"path.name"}},
		{"a name that is too long", strings.Repeat("n", 256), `{}`, 422, []string{"path.name"}},
		{"several faults", "a*", `{"description":"` + strings.Repeat("d", 2001) + `","category":"\u0000","visibility":"all","colour":1,"schema":[]}`, 422,
			[]string{"path.name", "body.description", "body.category", "body.visibility", "body.colour", "body.schema"}},
		{"a schema with an unknown type", "a", schema(`{"type":"money","properties":{"a":{"minLength":-1}}}`), 422, []string{"body.schema.properties.a.minLength", "body.schema.type"}},
		{"a schema with a broken pattern", "a", schema(`{"pattern":"("}`), 422, []string{"body.schema.pattern"}},
		{"a schema at a URL", "a", schema(`{"$ref":"https://example.com/schema"}`), 422, []string{"body.schema"}},
		{"a schema in a file", "a", schema(`{"$ref":"file://` + file + `"}`), 422, []string{"body.schema"}},
		{"a schema at a relative URL", "a", schema(`{"$ref":"other.json"}`), 422, []string{"body.schema"}},
		{"an unknown meta schema", "a", schema(`{"$schema":"https://example.com/meta"}`), 422, []string{"body.schema"}},
		{"a missing definition", "a", schema(`{"$ref":"#/$defs/none"}`), 422, []string{"body.schema"}},
		{"a number with a million digits", "a", schema(`{"multipleOf":1e-999999}`), 422, []string{"body.schema"}},
		{"a number with an exponent beyond int64", "a", schema(`{"multipleOf":1e-99999999999999999999}`), 422, []string{"body.schema"}},
		{"a number beyond a float", "a", schema(`{"maximum":1e400}`), 422, []string{"body.schema", "body.schema.maximum"}},
		{"a schema that is nested too deeply", "a", schema(strings.Repeat(`{"not":`, 65) + `{}` + strings.Repeat(`}`, 65)), 422, []string{"body.schema"}},
		{"a schema that is too large", "a", schema(`{"description":"` + strings.Repeat("d", 32<<10) + `"}`), 422, []string{"body.schema"}},
		{"an array", "a", `[]`, 422, []string{"body"}},
		{"an empty body", "a", ``, 400, []string{"body"}},
		{"more than a megabyte", "a", schema(`{"description":"` + strings.Repeat("d", 1<<20) + `"}`), 413, nil},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := r.subtest(t)
			r.wantFaults(r.admin("PUT", eventTypePath(c.name), c.body), c.want, c.at)
		})
	}
	for _, fine := range []string{`{}`, `{"$ref":"#/$defs/a","$defs":{"a":{"type":"string"}}}`, `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}`,
		`{"$id":"https://example.com/a","$defs":{"b":{"$id":"b"}},"properties":{"c":{"$ref":"b"}}}`, `{"maximum":12345678901234567890,"minimum":-1e6,"pattern":"^a+$"}`, `{"$ref":"#"}`} {
		r.admin("PUT", eventTypePath("fine"), schema(fine)).want(http.StatusOK + map[bool]int{true: 1}[fine == `{}`])
	}
	for _, name := range []string{"none", "\x00", "\xff", "a.*", strings.Repeat("n", 3000)} {
		r.admin("GET", eventTypePath(name), nil).want(http.StatusNotFound)
		r.admin("DELETE", eventTypePath(name), nil).want(http.StatusNotFound)
	}
}
