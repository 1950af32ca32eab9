package api_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/api"
)

// as sends a request of a session, as the console does.
func (r *fixture) as(s api.Session, method, path, body string) *answer {
	r.Helper()
	return r.send(api.WithSession(r.Context(), s), "", method, path, []byte(body))
}

func byKey(key string) api.Session {
	hash := sha256.Sum256([]byte(key))
	return api.Session{KeyHash: hash[:], Via: eventhook.ViaConsole}
}

func byGrant(g eventhook.Grant) api.Session { return api.Session{Grant: &g, Via: eventhook.ViaPortal} }

// person returns a grant with scopes for acme.
func person(scopes ...eventhook.Scope) eventhook.Grant {
	return eventhook.Grant{Name: "zoe@example.com", Tenants: map[string][]eventhook.Scope{"acme": scopes}}
}

func TestASessionHasThePermissionsOfItsKeyOrGrant(t *testing.T) {
	r := setUp(t)
	reader, _ := r.key("acme", eventhook.ScopeRead)
	admin, adminReader := eventhook.Grant{Name: "a", Admin: true}, eventhook.Grant{Name: "a", AdminReadOnly: true}
	mixed := person(eventhook.ScopeManage)
	mixed.AdminReadOnly = true
	both := eventhook.Grant{Name: "a", Admin: true, AdminReadOnly: true}
	const change = "/sources/crm"
	for _, c := range []struct {
		claim        string
		s            api.Session
		method, path string
		want         int
	}{
		{"a reader's key reads", byKey(reader), "GET", T("acme") + "/events", 200},
		{"a reader's key on another tenant", byKey(reader), "GET", T("umbrella") + "/events", 404},
		{"a reader's key changes something", byKey(reader), "PATCH", T("acme") + change, 403},
		{"the admin key", byKey(adminKey), "GET", tenants, 200},
		{"an unknown key", byKey(api.NewKey()), "GET", T("acme") + "/events", 401},
		{"a hash of another length", api.Session{KeyHash: []byte("x")}, "GET", T("acme") + "/events", 401},
		{"a session without anything", api.Session{}, "GET", T("acme") + "/events", 401},
		{"a session with both", api.Session{KeyHash: byKey(adminKey).KeyHash, Grant: &admin}, "GET", tenants, 401},
		{"a grant with the scope", byGrant(person(eventhook.ScopeRead)), "GET", T("acme") + "/events", 200},
		{"a grant without the scope", byGrant(person(eventhook.ScopeRead)), "PATCH", T("acme") + change, 403},
		{"a grant on another tenant", byGrant(person(eventhook.ScopeRead)), "GET", T("umbrella") + "/events", 404},
		{"a grant on an unknown tenant", byGrant(person(eventhook.ScopeRead)), "GET", T("unknown") + "/events", 404},
		{"a grant without scopes", byGrant(person()), "GET", T("acme") + "/events", 404},
		{"a grant for tenants on an admin path", byGrant(person(eventhook.Scopes...)), "GET", tenants, 403},
		{"an admin's grant", byGrant(admin), "GET", tenants, 200},
		{"an admin's grant changes something", byGrant(admin), "PATCH", T("acme") + change, 200},
		{"an admin's grant for reading", byGrant(adminReader), "GET", tenants, 200},
		{"an admin's grant for reading changes something", byGrant(adminReader), "PATCH", T("acme") + change, 403},
		{"an admin's grant that is restricted to reading", byGrant(both), "PATCH", T("acme") + change, 403},
		{"a grant for reading with a scope for the tenant", byGrant(mixed), "PATCH", T("acme") + change, 200},
		{"a grant for reading with a scope for another tenant", byGrant(mixed), "PATCH", T("umbrella") + change, 403},
		{"a grant for reading with a scope on an admin path", byGrant(mixed), "PATCH", tenants + "/acme", 403},
	} {
		t.Run(c.claim, func(t *testing.T) {
			body := ""
			if c.method != "GET" {
				body = `{"name":"CRM"}`
			}
			r.subtest(t).as(c.s, c.method, c.path, body).want(c.want)
		})
	}
}

func TestASessionReplacesTheAuthorizationHeader(t *testing.T) {
	r := setUp(t)
	good, _ := r.key("acme", eventhook.ScopeRead)
	r.send(api.WithSession(t.Context(), byKey(api.NewKey())), good, "GET", T("acme")+"/events", nil).want(http.StatusUnauthorized)
	r.send(api.WithSession(t.Context(), byKey(good)), "ehk_wrong", "GET", T("acme")+"/events", nil).want(http.StatusOK)
}

func TestASessionEndsWithItsKey(t *testing.T) {
	const aSecond = time.Second
	for claim, end := range map[string]func(r *fixture, k eventhook.APIKey){
		"the key is deleted here": func(r *fixture, k eventhook.APIKey) {
			r.admin("DELETE", tenants+"/acme/keys/"+k.ID.String(), nil).want(http.StatusNoContent)
		},
		"another instance deletes the key": func(r *fixture, k eventhook.APIKey) {
			r.must(r.db.DeleteKey(r.Context(), operator, k.TenantID, k.ID))
			r.clock.Advance(aSecond)
		},
		"the key expires": func(r *fixture, _ eventhook.APIKey) { r.clock.Advance(time.Hour) },
	} {
		t.Run(claim, func(t *testing.T) {
			r := setUp(t)
			soon := noon.Add(time.Hour)
			key, stored := r.keyExpiringAt("acme", &soon, eventhook.ScopeRead)
			r.as(byKey(key), "GET", T("acme")+"/events", "").want(http.StatusOK)
			end(r, stored)
			r.as(byKey(key), "GET", T("acme")+"/events", "").want(http.StatusUnauthorized)
		})
	}
}

func TestASessionEndsWithTheAdminKey(t *testing.T) {
	for key, want := range map[string]int{adminKey: http.StatusUnauthorized, "the-next-admin-key": http.StatusOK} {
		t.Run(key, func(t *testing.T) {
			r := setUp(t, func(d *api.Deps) { d.AdminKeys = []eventhook.Secret{eventhook.NewSecret("the-next-admin-key")} })
			r.as(byKey(key), "GET", tenants, "").want(want)
		})
	}
}

func TestASuspendedTenantRefusesChangesOfASession(t *testing.T) {
	r := setUp(t)
	s := byGrant(person(eventhook.ScopeRead, eventhook.ScopeManage))
	r.admin("PATCH", tenants+"/acme", `{"status":"suspended"}`).want(http.StatusOK)
	r.as(s, "PATCH", T("acme")+"/sources/crm", `{"name":"CRM"}`).want(http.StatusForbidden)
	r.as(s, "GET", T("acme")+"/events", "").want(http.StatusOK)
	r.admin("POST", tenants+"/acme/close", nil).want(http.StatusOK)
	r.clock.Advance(time.Second)
	r.as(s, "GET", T("acme")+"/events", "").want(http.StatusNotFound)
}

func TestAnEntryForTheAdminIsHiddenFromASession(t *testing.T) {
	r := setUp(t)
	r.admin("PUT", T("acme")+"/event-types/secret.type", `{"visibility":"admin"}`).want(http.StatusCreated)
	s := byGrant(person(eventhook.ScopeRead))
	r.as(s, "GET", T("acme")+"/event-types/secret.type", "").want(http.StatusNotFound)
	var p page
	r.as(s, "GET", T("acme")+"/event-types", "").want(http.StatusOK).into(&p)
	if names := fmt.Sprint(p.Items); strings.Contains(names, "secret.type") || !strings.Contains(names, "source.created") {
		t.Errorf("got %v, want other entries only", names)
	}
}

func TestTheAuditLogNamesTheSession(t *testing.T) {
	r := setUp(t)
	manager, managed := r.key("acme", eventhook.ScopeManage)
	for n, c := range []struct {
		claim string
		send  func(body string) *answer
		actor map[string]any
		via   any
	}{
		{"a key", func(body string) *answer { return r.call(manager, "PATCH", T("acme")+"/sources/crm", body) },
			map[string]any{"type": "api_key", "id": managed.ID.String(), "name": "test"}, nil},
		{"a session with a key", func(body string) *answer { return r.as(byKey(manager), "PATCH", T("acme")+"/sources/crm", body) },
			map[string]any{"type": "api_key", "id": managed.ID.String(), "name": "test"}, "console"},
		{"a session with the admin key", func(body string) *answer { return r.as(byKey(adminKey), "PATCH", T("acme")+"/sources/crm", body) },
			map[string]any{"type": "admin_on_behalf_of", "id": nil, "name": "admin key"}, "console"},
		{"a session with a grant", func(body string) *answer {
			return r.as(byGrant(person(eventhook.ScopeManage)), "PATCH", T("acme")+"/sources/crm", body)
		}, map[string]any{"type": "session", "id": nil, "name": "zoe@example.com"}, "portal"},
		{"a session with an admin's grant", func(body string) *answer {
			return r.as(byGrant(eventhook.Grant{Name: "ada", Admin: true}), "PATCH", T("acme")+"/sources/crm", body)
		}, map[string]any{"type": "admin_on_behalf_of", "id": nil, "name": "ada"}, "portal"},
	} {
		r.clock.Advance(time.Second)
		c.send(fmt.Sprintf(`{"name":"crm %d"}`, n)).want(http.StatusOK)
		var p page
		r.admin("GET", "/api/admin/audit?limit=1", nil).want(http.StatusOK).into(&p)
		got := map[string]any{"actor": p.Items[0]["actor"], "via": p.Items[0]["via"]}
		if diff := cmp.Diff(map[string]any{"actor": c.actor, "via": c.via}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.claim, diff)
		}
	}
}

func TestWrongKeysOfSessionsUseUpTheBudgetOfTheirAddress(t *testing.T) {
	r := setUp(t, peer)
	send := func(s api.Session) *answer {
		req := httptest.NewRequestWithContext(api.WithSession(t.Context(), s), "GET", "/api/identity", nil)
		req.RemoteAddr = attacker
		return r.do(req)
	}
	for range burst {
		send(byKey(api.NewKey())).want(http.StatusUnauthorized)
	}
	send(byKey(api.NewKey())).want(http.StatusTooManyRequests)
	send(byKey(adminKey)).want(http.StatusOK)
	send(byGrant(person())).want(http.StatusOK)
}

// blockedBody is the body of a request that is in flight until rest is closed.
type blockedBody struct {
	begin         sync.Once
	reading, rest chan struct{}
}

func (b *blockedBody) Read([]byte) (int, error) {
	b.begin.Do(func() { close(b.reading) })
	<-b.rest
	return 0, io.EOF
}

func TestEachGrantHasABudgetOfItsOwn(t *testing.T) {
	r := setUp(t, func(d *api.Deps) { d.Limits = api.Limits{KeyRequests: 1} })
	zoe := person(eventhook.ScopePublish)
	adam := person(eventhook.ScopePublish)
	adam.Name = "adam@example.com"
	body := &blockedBody{reading: make(chan struct{}), rest: make(chan struct{})}
	done := make(chan *answer)
	go func() {
		req := httptest.NewRequestWithContext(api.WithSession(context.Background(), byGrant(zoe)), "POST", T("acme")+"/events", body)
		req.Header.Set("Content-Type", "application/json")
		done <- r.do(req)
	}()
	<-body.reading
	r.as(byGrant(zoe), "POST", T("acme")+"/events", `{}`).want(http.StatusTooManyRequests)
	r.as(byGrant(adam), "POST", T("acme")+"/events", `{}`).want(http.StatusUnprocessableEntity)
	close(body.rest)
	<-done
}
