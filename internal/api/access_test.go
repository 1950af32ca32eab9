package api_test

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/api"
)

// scopes maps each part of a tenant's API to the scope that it requires. An
// operation without an entry fails the tests.
var scopes = map[string]eventhook.Scope{
	"GET /audit":  eventhook.ScopeManage,
	"POST /apply": eventhook.ScopeManage,
	"GET /export": eventhook.ScopeManage,
	"GET /events": eventhook.ScopeRead,
	"GET /keys":   eventhook.ScopeManage,
	"GET /lookup": eventhook.ScopeRead,

	"POST /portal-links": eventhook.ScopeManage,
	// These POST under events publish no event.
	"POST /events/reprocess": eventhook.ScopeManage,
	"POST /events/search":    eventhook.ScopeRead,
	"GET /work":              eventhook.ScopeWork,
	"POST /work":             eventhook.ScopeWork,
	"GET /promises":          eventhook.ScopeWork,
	"POST /promises":         eventhook.ScopeWork,
	"GET /sources":           eventhook.ScopeRead,
	"GET /providers":         eventhook.ScopeRead,
	"POST /sources":          eventhook.ScopeManage,
	"PATCH /sources":         eventhook.ScopeManage,
	"PUT /sources":           eventhook.ScopeManage,
	"DELETE /sources":        eventhook.ScopeManage,
	"GET /event-types":       eventhook.ScopeRead,
	"PUT /event-types":       eventhook.ScopeManage,
	"DELETE /event-types":    eventhook.ScopeManage,
	"POST /events":           eventhook.ScopePublish,
	"GET /subscriptions":     eventhook.ScopeRead,
	"POST /subscriptions":    eventhook.ScopeManage,
	"PATCH /subscriptions":   eventhook.ScopeManage,
	"DELETE /subscriptions":  eventhook.ScopeManage,
	"GET /deliveries":        eventhook.ScopeRead,
	"POST /deliveries":       eventhook.ScopeManage,
	"GET /agents":            eventhook.ScopeRead,
	"POST /agents":           eventhook.ScopeManage,
	"PATCH /agents":          eventhook.ScopeManage,
	"DELETE /agents":         eventhook.ScopeManage,

	"POST /agents/claim":                  eventhook.ScopeDeliver,
	"POST /agents/deliveries/results":     eventhook.ScopeDeliver,
	"POST /agents/deliveries/{id}/result": eventhook.ScopeDeliver,

	// Evaluates existing routes without side effects.
	"POST /events/{id}/test": eventhook.ScopeRead,
	// Runs scripts of the request, as a new route would.
	"POST /routes/backtest":  eventhook.ScopeManage,
	"POST /expressions/test": eventhook.ScopeRead,
}

const tenantBase = "/api/tenants/{tenant}/eventhook"

// scopeOf returns the scope that the contract requires for an operation, "" for the
// admin key.
func scopeOf(t *testing.T, op *huma.Operation) eventhook.Scope {
	t.Helper()
	if strings.HasPrefix(op.Path, "/api/admin/") {
		return ""
	}
	rest, ok := strings.CutPrefix(op.Path, tenantBase)
	part := strings.SplitN(rest, "/", 3)
	if !ok || len(part) < 2 {
		t.Fatalf("%s %s is under no known path", op.Method, op.Path)
	}
	scope, ok := scopes[op.Method+" "+rest]
	if !ok {
		scope, ok = scopes[op.Method+" /"+part[1]]
	}
	if !ok {
		t.Fatalf("%s %s: no entry in scopes", op.Method, op.Path)
	}
	return scope
}

// operations returns all operations of the document.
func (r *fixture) operations() []*huma.Operation {
	r.Helper()
	var all []*huma.Operation
	for _, path := range r.openAPI.Paths {
		for _, op := range []*huma.Operation{path.Get, path.Put, path.Post, path.Delete, path.Options, path.Head, path.Patch, path.Trace} {
			if op != nil {
				all = append(all, op)
			}
		}
	}
	slices.SortFunc(all, func(a, b *huma.Operation) int { return strings.Compare(a.Path+a.Method, b.Path+b.Method) })
	if len(all) < 20 {
		r.Fatalf("the document describes %d operations, want the whole API", len(all))
	}
	return all
}

// pathOf fills in the parameters of a path: the slug of a tenant and an id that does
// not exist.
func pathOf(op *huma.Operation, tenant string) string {
	return strings.NewReplacer("{tenant}", tenant, "{slug}", "nowhere", "{name}", "nothing", "{id}", eventhook.NewID[eventhook.Event](noon).String()).Replace(op.Path)
}

func TestEveryOperationIsGuarded(t *testing.T) {
	r := setUp(t)
	close(r.stopping) // streams and waits end at once
	acme, _ := r.key("acme", eventhook.Scopes...)
	umbrella, _ := r.key("umbrella", eventhook.Scopes...)
	keyWith := map[eventhook.Scope]string{}
	for _, s := range eventhook.Scopes {
		keyWith[s], _ = r.key("acme", s)
	}
	// The body is invalid on purpose: authorization comes first.
	const invalid = `{"no such field":1}`
	for _, op := range r.operations() {
		t.Run(op.Method+" "+op.Path, func(t *testing.T) {
			r := r.subtest(t)
			send := func(key, tenant string) int {
				t.Helper()
				a := r.call(key, op.Method, pathOf(op, tenant), invalid)
				if a.Code >= 400 {
					a.problem()
				}
				return a.Code
			}
			want := func(claim string, got, want int) {
				t.Helper()
				if got != want {
					t.Errorf("%s: answered %d, want %d", claim, got, want)
				}
			}
			want("no key", send("", "acme"), http.StatusUnauthorized)
			want("an unknown key", send(api.NewKey(), "acme"), http.StatusUnauthorized)
			if op.OperationID == "get-identity" { // for every key
				for _, key := range append(slices.Collect(maps.Values(keyWith)), adminKey) {
					want("a valid key, which is told that no body is expected", send(key, ""), http.StatusBadRequest)
				}
				return
			}
			scope := scopeOf(t, op)
			needs := cmp.Or(string(scope), "admin")
			if want := []map[string][]string{{"key": {needs}}}; !slices.EqualFunc(op.Security, want, func(a, b map[string][]string) bool { return slices.Equal(a["key"], b["key"]) }) {
				t.Errorf("security in the document: got %v, want %v", op.Security, want)
			}
			if !strings.Contains(op.Description, needs) {
				t.Errorf("description: got %q, want %s in it", op.Description, needs)
			}
			if scope == "" {
				want("a tenant's key", send(acme, "acme"), http.StatusForbidden)
				want("a tenant's key for an unknown tenant", send(acme, "unknown"), http.StatusForbidden)
				if code := send(adminKey, "unknown"); code == http.StatusUnauthorized || code == http.StatusForbidden {
					t.Errorf("the admin key: answered %d, want access", code)
				}
				return
			}
			if code := send(adminKey, "acme"); code == http.StatusUnauthorized || code == http.StatusForbidden {
				t.Errorf("the admin key: answered %d, want access", code)
			}
			want("the admin key for an unknown tenant", send(adminKey, "unknown"), http.StatusNotFound)
			want("another tenant's key", send(umbrella, "acme"), http.StatusNotFound)
			want("a key for an unknown tenant", send(acme, "unknown"), http.StatusNotFound)
			for s, key := range keyWith {
				code := send(key, "acme")
				if allowed := code != http.StatusUnauthorized && code != http.StatusForbidden; allowed != (s == scope) {
					t.Errorf("a key with the scope %s: answered %d, want access only with %s", s, code, scope)
				}
			}
		})
	}
}

func TestAuthorizationHeaders(t *testing.T) {
	r := setUp(t)
	good, _ := r.key("acme", eventhook.ScopeRead)
	soon := noon.Add(time.Minute)
	expiring, _ := r.keyExpiringAt("acme", &soon, eventhook.ScopeRead)
	for _, c := range []struct {
		claim, authorization string
		want                 int
	}{
		{"a key", "Bearer " + good, http.StatusOK},
		{"the scheme in lower case", "bearer " + good, http.StatusOK},
		{"a key that expires later", "Bearer " + expiring, http.StatusOK},
		{"the admin key", "Bearer " + adminKey, http.StatusOK},
		{"no scheme", good, http.StatusUnauthorized},
		{"another scheme", "Basic " + good, http.StatusUnauthorized},
		{"a scheme without a key", "Bearer ", http.StatusUnauthorized},
		{"a part of a key", "Bearer " + good[:len(good)-1], http.StatusUnauthorized},
		{"a part of the admin key", "Bearer " + adminKey[:len(adminKey)-1], http.StatusUnauthorized},
		{"bytes that are not UTF-8", "Bearer ehk_\xff\x00", http.StatusUnauthorized},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := r.subtest(t)
			a := r.withAuthorization(c.authorization, "GET", T("acme")+"/events")
			a.want(c.want)
		})
	}
}

func TestWithoutAdminKeyNoCallerIsAdmin(t *testing.T) {
	r := setUp(t, func(d *api.Deps) { d.AdminKeys = nil })
	for _, authorization := range []string{"", "Bearer", "Bearer ", "Bearer  ", "Bearer " + adminKey} {
		r.withAuthorization(authorization, "GET", "/api/admin/tenants").want(http.StatusUnauthorized)
	}
}

func TestKeysExpire(t *testing.T) {
	t.Run("a key deleted on another instance, within one second", func(t *testing.T) {
		r := setUp(t)
		key, stored := r.key("acme", eventhook.ScopeRead)
		r.call(key, "GET", T("acme")+"/events", nil).want(http.StatusOK)
		r.must(r.db.DeleteKey(t.Context(), operator, r.acme, stored.ID))
		r.clock.Advance(time.Second)
		r.call(key, "GET", T("acme")+"/events", nil).want(http.StatusUnauthorized)
	})
	t.Run("a key deleted on this instance, at once", func(t *testing.T) {
		r := setUp(t)
		key, stored := r.key("acme", eventhook.ScopeRead)
		r.call(key, "GET", T("acme")+"/events", nil).want(http.StatusOK)
		r.admin("DELETE", "/api/admin/tenants/acme/keys/"+stored.ID.String(), nil).want(http.StatusNoContent)
		r.call(key, "GET", T("acme")+"/events", nil).want(http.StatusUnauthorized)
	})
	t.Run("an expiring key, at its expiry", func(t *testing.T) {
		r := setUp(t)
		end := noon.Add(500 * time.Millisecond)
		key, _ := r.keyExpiringAt("acme", &end, eventhook.ScopeRead)
		r.call(key, "GET", T("acme")+"/events", nil).want(http.StatusOK)
		r.clock.Advance(500 * time.Millisecond)
		r.call(key, "GET", T("acme")+"/events", nil).want(http.StatusUnauthorized)
	})
}

func TestNewTenantIsUsableAtOnce(t *testing.T) {
	r := setUp(t)
	r.admin("GET", T("fresh")+"/events", nil).want(http.StatusNotFound)
	r.admin("POST", "/api/admin/tenants", map[string]any{"slug": "fresh", "name": "Fresh"}).want(http.StatusCreated)
	r.admin("GET", T("fresh")+"/events", nil).want(http.StatusOK)
}

// TestResourcesOfOtherTenantsAreNotFound reads resources that exist with a key of
// another tenant that has the required scope.
func TestResourcesOfOtherTenantsAreNotFound(t *testing.T) {
	r := setUp(t)
	e := r.event()
	work := r.plannedExecution(eventhook.Workflow, "pay")
	r.settle(e, work)
	claimed := r.claimOne()
	promise := r.createPromise("order-1", http.StatusCreated)
	subscription, delivery := r.delivered()
	agent := fmt.Sprint(r.createAgent("berlin", "env:prod")["id"])
	_, key := r.key("acme", eventhook.ScopeRead)
	replay, _ := r.admin("POST", subscriptionPath(subscription)+"/replay", object{"since": "2020-01-01T00:00:00Z"}).want(http.StatusAccepted).object()["replay_id"].(string)
	other, _ := r.key("umbrella", eventhook.Scopes...)
	token := map[string]any{"lease_token": claimed.LeaseToken}
	for _, c := range []struct {
		method, path string
		body         any
	}{
		{"GET", "/events/" + e.ID.String(), nil},
		{"GET", "/events/" + e.ID.String() + "/payload", nil},
		{"POST", "/events/" + e.ID.String() + "/test", nil},
		{"GET", "/subscriptions/" + subscription, nil},
		{"PATCH", "/subscriptions/" + subscription, object{"name": "mine"}},
		{"DELETE", "/subscriptions/" + subscription, nil},
		{"POST", "/subscriptions/" + subscription + "/test", nil},
		{"POST", "/subscriptions/" + subscription + "/pause", nil},
		{"POST", "/subscriptions/" + subscription + "/resume", nil},
		{"POST", "/subscriptions/" + subscription + "/enable", nil},
		{"POST", "/subscriptions/" + subscription + "/disable", nil},
		{"POST", "/subscriptions/" + subscription + "/rotate-secret", nil},
		{"POST", "/subscriptions/" + subscription + "/replay", object{"since": "2020-01-01T00:00:00Z"}},
		{"GET", "/subscriptions/" + subscription + "/replays", nil},
		{"GET", "/subscriptions/" + subscription + "/replays/" + replay, nil},
		{"POST", "/subscriptions/" + subscription + "/replays/" + replay + "/cancel", nil},
		{"GET", "/subscriptions/" + subscription + "/stats", nil},
		{"GET", "/subscriptions/" + subscription + "/deliveries", nil},
		{"GET", "/subscriptions/" + subscription + "/public-key", nil},
		{"GET", "/deliveries/" + delivery, nil},
		{"POST", "/deliveries/" + delivery + "/retry", nil},
		{"GET", "/agents/" + agent, nil},
		{"PATCH", "/agents/" + agent, object{"name": "mine"}},
		{"DELETE", "/agents/" + agent, nil},
		{"POST", "/agents/" + agent + "/rotate-key", nil},
		{"GET", "/work/" + claimed.ID, nil},
		{"POST", "/work/" + claimed.ID + "/heartbeat", token},
		{"POST", "/work/" + claimed.ID + "/complete", token},
		{"POST", "/work/" + claimed.ID + "/fail", map[string]any{"lease_token": claimed.LeaseToken, "error": "x"}},
		{"POST", "/work/" + claimed.ID + "/cancel", nil},
		{"POST", "/work/" + claimed.ID + "/retry", nil},
		{"GET", "/promises/" + promise.ID, nil},
		{"POST", "/promises/" + promise.ID + "/resolve", map[string]any{"value": 1}},
		{"POST", "/promises/" + promise.ID + "/reject", map[string]any{"error": "x"}},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			r := r.subtest(t)
			r.call(other, c.method, T("umbrella")+c.path, c.body).want(http.StatusNotFound)
		})
	}
	t.Run("a promise of another tenant cannot be awaited", func(t *testing.T) {
		r := r.subtest(t)
		u, err := r.db.Tenant(t.Context(), "umbrella")
		r.must(err)
		foreign, _, err := r.db.CreatePromise(t.Context(), eventhook.Promise{TenantID: u.ID, IdempotencyKey: "theirs"})
		r.must(err)
		r.admin("POST", T("acme")+"/work/"+claimed.ID+"/suspend", map[string]any{"lease_token": claimed.LeaseToken, "await": []string{foreign.ID.String()}}).
			want(http.StatusUnprocessableEntity)
	})
	t.Run("a promise cannot be created for another tenant's workflow", func(t *testing.T) {
		r := r.subtest(t)
		r.call(other, "POST", T("umbrella")+"/promises", map[string]any{"idempotency_key": "k", "workflow_execution_id": claimed.ID}).
			want(http.StatusUnprocessableEntity)
	})
	t.Run("another tenant's key cannot be deleted", func(t *testing.T) {
		r := r.subtest(t)
		r.admin("DELETE", "/api/admin/tenants/umbrella/keys/"+key.ID.String(), nil).want(http.StatusNotFound)
	})
	for _, list := range []string{"/events", "/work", "/promises", "/subscriptions", "/deliveries", "/agents"} {
		t.Run("lists do not contain resources of other tenants: "+list, func(t *testing.T) {
			r := r.subtest(t)
			var got page
			r.call(other, "GET", T("umbrella")+list, nil).want(http.StatusOK).into(&got)
			for _, i := range got.Items {
				if i["idempotency_key"] != "theirs" && i["origin"] != "system" {
					t.Errorf("got %v, want no resource of acme", i)
				}
			}
		})
	}
	if x := r.admin("GET", T("acme")+"/work/"+claimed.ID, nil).want(http.StatusOK).object(); x["status"] != "running" {
		t.Errorf("the status is %v after the requests of another tenant, want running", x["status"])
	}
}

func TestInvalidTenantSlugIsNotFound(t *testing.T) {
	r := setUp(t)
	for _, tenant := range []string{"%00", "a%00b", "%ff", strings.Repeat("x", 5000), "'%3B--"} {
		for _, path := range []string{T(tenant) + "/events", "/api/admin/tenants/" + tenant, "/api/admin/tenants/" + tenant + "/keys"} {
			if a := r.admin("GET", path, nil); a.Code != http.StatusNotFound {
				t.Errorf("%.60s: answered %d, want 404", path, a.Code)
			}
		}
	}
}

func (r *fixture) withAuthorization(authorization, method, path string) *answer {
	r.Helper()
	req, err := http.NewRequestWithContext(r.Context(), method, path, nil)
	r.must(err)
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	return r.do(req)
}

func (r *fixture) createPromise(key string, status int) promiseJSON {
	r.Helper()
	var p promiseJSON
	r.admin("POST", T("acme")+"/promises", map[string]any{"idempotency_key": key}).want(status).into(&p)
	return p
}

func TestDatabaseErrorIsNotUnauthorized(t *testing.T) {
	r := setUp(t, func(d *api.Deps) { d.Keys = brokenKeys{} })
	for _, key := range []string{api.NewKey(), adminKey} {
		a := r.call(key, "GET", T("acme")+"/events", nil).want(http.StatusInternalServerError)
		if strings.Contains(a.Body.String(), errBroken.Error()) {
			t.Errorf("answered %s, want no text of the cause", a.Body)
		}
	}
}
