package api_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/api"
)

// peer trusts the address of the connection.
func peer(d *api.Deps) {
	d.ClientAddress = func(r *http.Request) netip.Addr {
		a, _ := netip.ParseAddrPort(r.RemoteAddr)
		return a.Addr()
	}
}

// withHeader is a call with an additional header.
func (r *fixture) withHeader(key, method, path, body string, headers ...string) *answer {
	r.Helper()
	req := httptest.NewRequestWithContext(r.Context(), method, path, strings.NewReader(body))
	req.Header.Set("Authorization", "Bearer "+key)
	for pair := range slices.Chunk(headers, 2) { // names and values
		req.Header.Set(pair[0], pair[1])
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	return r.do(req)
}

// recorded is a response with a given text.
func recorded(text string) *httptest.ResponseRecorder {
	return &httptest.ResponseRecorder{Body: bytes.NewBufferString(text)}
}

func TestChangesAreAudited(t *testing.T) {
	r := setUp(t, peer)
	manager, managed := r.key("acme", eventhook.ScopeManage)
	r.clock.Advance(time.Minute)
	r.learning("notion", "notion")
	notion, err := r.db.FindSource(t.Context(), "acme", "notion")
	r.must(err)
	r.must(r.db.StoreLearnedSecret(t.Context(), notion.ID, eventhook.NewSecret("s3cr3t-of-notion")))
	tenant := map[string]any{"type": "tenant", "id": r.acme.String(), "name": "acme"}
	source := map[string]any{"type": "source", "id": notion.ID.String(), "name": "notion"}
	change := func(field string, from, to any) []any {
		return []any{map[string]any{"field": field, "from": from, "to": to}}
	}
	admin := map[string]any{"type": "admin", "id": nil, "name": "admin key"}
	onBehalf := map[string]any{"type": "admin_on_behalf_of", "id": nil, "name": "admin key"}
	its := map[string]any{"type": "api_key", "id": managed.ID.String(), "name": "test"}
	for _, c := range []struct {
		claim, key, method, path, body string
		actor                          map[string]any
		action                         string
		resource                       map[string]any
		changes                        []any
	}{
		{"a change of a tenant by the admin", adminKey, "PATCH", tenants + "/acme", `{"max_events_per_day":9007199254740993}`, admin,
			"tenant.updated", tenant, change("max_events_per_day", nil, 9007199254740993.0)},
		{"a change of a tenant's source by the admin", adminKey, "POST", T("acme") + "/sources/notion/handshake/reveal", "", onBehalf,
			"source.handshake_secret_revealed", source, change("secret_is_revealed", false, true)},
		{"a change by a tenant's key", manager, "POST", T("acme") + "/sources/notion/handshake/reset", "", its,
			"source.handshake_reset", source, change("secret_is_learned", true, false)},
	} {
		r.clock.Advance(time.Second)
		if a := r.withHeader(c.key, c.method, c.path, c.body, "X-Request-Id", "req-"+c.action, "Traceparent", "00-"+auditTrace+"-00f067aa0ba902b7-01"); a.Code >= 300 {
			t.Fatalf("%s: answered %d %s", c.claim, a.Code, a.Body)
		}
		list := r.admin("GET", "/api/admin/audit?limit=1", nil).want(http.StatusOK)
		if strings.Contains(list.Body.String(), "s3cr3t-of-notion") {
			t.Errorf("%s: got the entries %s", c.claim, list.Body)
		}
		var p page
		list.into(&p)
		got := p.Items[0]
		want := map[string]any{"id": got["id"], "at": r.clock.Now().UTC().Format(time.RFC3339Nano), "tenant": "acme", "actor": c.actor, "action": c.action,
			"resource": c.resource, "changes": c.changes, "via": nil, "source_ip": "192.0.2.1", "request_id": "req-" + c.action, "correlation_id": nil, "trace_id": auditTrace}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.claim, diff)
		}
	}
	r.admin("POST", tenants+"/acme/keys", `{"name":"ci","scopes":["read"]}`).want(http.StatusCreated)
	for _, e := range r.list("/api/admin/audit?tenant=acme&action=api_key.created&limit=1").Items {
		if diff := cmp.Diff(onBehalf, e["actor"]); diff != "" {
			t.Errorf("a key that the admin creates (-want +got):\n%s", diff)
		}
	}
	if raw := r.admin("GET", "/api/admin/audit?action=tenant.updated", nil).Body.String(); !strings.Contains(raw, `"to":9007199254740993`) {
		t.Errorf("listed %s, want the number unchanged", raw)
	}
	r.call(manager, "POST", T("acme")+"/sources/notion/handshake/reset", nil).want(http.StatusNoContent)
	if n := len(r.list("/api/admin/audit?action=source.handshake_reset").Items); n != 1 {
		t.Errorf("after a reset without a secret there are %d entries, want one", n)
	}
}

func TestAuditLists(t *testing.T) {
	r := setUp(t)
	manager, _ := r.key("acme", eventhook.ScopeManage)
	for n := range 4 {
		r.clock.Advance(time.Second)
		r.admin("PATCH", tenants+"/acme", fmt.Sprintf(`{"name":"Acme %d"}`, n)).want(http.StatusOK)
	}
	r.clock.Advance(time.Second)
	r.admin("PATCH", tenants+"/umbrella", `{"status":"suspended"}`).want(http.StatusOK)
	count := func(key, path string) (n int) {
		t.Helper()
		for next := path; next != ""; {
			var p page
			r.call(key, "GET", next, nil).want(http.StatusOK).into(&p)
			for _, item := range p.Items {
				if n++; key == manager && item["tenant"] != "acme" {
					t.Errorf("%s returned %v, want no entry of another tenant", path, item)
				}
			}
			if next = ""; p.NextCursor != nil {
				next = path + "&cursor=" + *p.NextCursor
			}
		}
		return n
	}
	for _, c := range []struct {
		claim, key, path string
		want             int
	}{
		{"all tenants, one action", adminKey, "/api/admin/audit?limit=2&action=tenant.updated", 4},
		{"one tenant", adminKey, "/api/admin/audit?limit=2&tenant=umbrella", 2},
		{"one tenant, one action", adminKey, "/api/admin/audit?limit=2&tenant=acme&action=tenant.updated", 4},
		{"an unknown action", adminKey, "/api/admin/audit?limit=2&action=nothing", 0},
		{"the tenant's list, one action", manager, T("acme") + "/audit?limit=2&action=tenant.updated", 4},
		{"the tenant's list, an action of another tenant", manager, T("acme") + "/audit?limit=2&action=tenant.suspended", 0},
		{"the tenant's list", manager, T("acme") + "/audit?limit=2", 4 + 5},
	} {
		if got := count(c.key, c.path); got != c.want {
			t.Errorf("%s: %d entries, want %d", c.claim, got, c.want)
		}
	}
	for _, tenant := range []string{"nobody", "%00", "No%20Slug"} {
		r.admin("GET", "/api/admin/audit?tenant="+tenant, nil).want(map[bool]int{true: 400, false: 404}[tenant == "%00"])
	}
	first := r.list("/api/admin/audit?limit=1")
	r.admin("GET", "/api/admin/audit?tenant=acme&cursor="+*first.NextCursor, nil).want(http.StatusBadRequest)
	r.call(manager, "GET", T("acme")+"/audit?cursor="+*first.NextCursor, nil).want(http.StatusBadRequest)
}

func TestRequestIDs(t *testing.T) {
	var log bytes.Buffer
	var failure error
	r := setUp(t, func(d *api.Deps) {
		d.Events, d.Log = brokenEvents{err: &failure}, slog.New(slog.NewTextHandler(&log, nil))
	})
	for _, c := range []struct {
		claim, key, sent string
		status           int
	}{
		{"a success", adminKey, "mine-1", http.StatusOK},
		{"a refusal", api.NewKey(), "mine-2", http.StatusUnauthorized},
		{"an id that is not UTF-8", adminKey, "caf\xe9", http.StatusOK},
		{"a long id", adminKey, strings.Repeat("x", 300), http.StatusOK},
	} {
		a := r.withHeader(c.key, "GET", tenants, "", "X-Request-Id", c.sent).want(c.status)
		if got := a.Header().Get("X-Request-Id"); got != eventhook.SanitizeLabel(c.sent) {
			t.Errorf("%s: answered with the id %q, want %q", c.claim, got, eventhook.SanitizeLabel(c.sent))
		}
	}
	seen := map[string]bool{}
	for range 3 {
		id := r.admin("GET", tenants, nil).Header().Get("X-Request-Id")
		if _, err := eventhook.ParseID[eventhook.Event](id); err != nil || seen[id] {
			t.Errorf("generated the id %q, want a new id", id)
		}
		seen[id] = true
	}
	for _, c := range []struct {
		id     string
		err    error
		status int
	}{
		{"mine-3", errBroken, http.StatusInternalServerError},
		{"mine-4", &eventhook.Error{Kind: eventhook.KindUnavailable, Message: "down", Cause: errors.New("refused")}, http.StatusServiceUnavailable},
	} {
		failure = c.err
		a := r.withHeader(adminKey, "GET", T("acme")+"/events", "", "X-Request-Id", c.id).want(c.status)
		if !strings.Contains(log.String(), "request_id="+c.id) || !strings.Contains(a.Body.String(), `"request_id":"`+c.id+`"`) {
			t.Errorf("logged %s and answered %s, want the request id %s", &log, a.Body, c.id)
		}
	}
}

// auditTrace is the trace id of the requests of TestChangesAreAudited.
const auditTrace = "0af7651916cd43dd8448eb211c80319c"
