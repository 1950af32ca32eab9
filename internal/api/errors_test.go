package api_test

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/api"
)

func TestFaults(t *testing.T) {
	r := setUp(t)
	id := eventhook.NewID[eventhook.Event](noon).String()
	for _, c := range []struct {
		claim, method, path, body string
		want                      int
		at                        []string // the faults' locations, in any order
	}{
		{"an invalid id", "GET", "/events/17", "", 400, []string{"path.id"}},
		{"an id with a NUL", "GET", "/events/%00", "", 400, []string{"path.id"}},
		{"an id without hyphens", "GET", "/events/" + strings.ReplaceAll(id, "-", ""), "", 400, []string{"path.id"}},
		{"an unknown id", "GET", "/events/" + id, "", 404, nil},
		{"an invalid id and faults of the body", "POST", "/work/17/complete", `{}`, 400, []string{"path.id", "body.lease_token"}},
		{"invalid ids in a body", "POST", "/work/" + id + "/suspend", `{"lease_token":1,"await":["x","` + id + `","y"]}`, 400, []string{"body.await[0]", "body.await[2]"}},
		{"an invalid id of a workflow", "POST", "/promises", `{"idempotency_key":"k","workflow_execution_id":"x"}`, 400, []string{"body.workflow_execution_id"}},
		{"an unknown workflow", "POST", "/promises", `{"idempotency_key":"k","workflow_execution_id":"` + id + `"}`, 422, []string{"body.workflow_execution_id"}},
		{"an invalid cursor", "GET", "/events?cursor=17", "", 400, []string{"query.cursor"}},
		{"a cursor of another length", "GET", "/work?cursor=AAAA", "", 400, []string{"query.cursor"}},
		{"a cursor with invalid characters", "GET", "/promises?cursor=%21", "", 400, []string{"query.cursor"}},
		{"a limit that is not a number", "GET", "/events?limit=abc", "", 400, []string{"query.limit"}},
		{"a limit beyond int64", "GET", "/events?limit=99999999999999999999", "", 400, []string{"query.limit"}},
		{"a limit with a fraction", "GET", "/work?limit=1.5", "", 400, []string{"query.limit"}},
		{"a limit of zero", "GET", "/events?limit=0", "", 422, []string{"query.limit"}},
		{"a limit too high", "GET", "/promises?limit=251", "", 422, []string{"query.limit"}},
		{"an invalid time", "GET", "/events?received_after=nonsense", "", 400, []string{"query.received_after"}},
		{"a day that does not exist", "GET", "/events?received_before=2026-02-30T00:00:00Z", "", 400, []string{"query.received_before"}},
		{"an unknown status", "GET", "/events?status=lost", "", 422, []string{"query.status"}},
		{"a type with a misplaced *", "GET", "/events?event_type=pay*", "", 422, []string{"query.event_type"}},
		{"a type of deliveries with a misplaced *", "GET", "/deliveries?event_type=*.paid", "", 422, []string{"query.event_type"}},
		{"a type of subscriptions with a misplaced *", "GET", "/subscriptions?event_type=a.*.b", "", 422, []string{"query.event_type"}},
		{"a bulk filter's type with a misplaced *", "POST", "/subscriptions/pause", `{"filter":{"event_type":"pay*"}}`, 422, []string{"body.filter.event_type"}},
		{"a query that cannot be parsed", "GET", "/events?status=%zz", "", 400, []string{"query"}},
		{"an unknown query parameter", "GET", "/events?statsu=failed", "", 422, []string{"query.statsu"}},
		{"faults in several parameters", "GET", "/events?limit=0&status=lost&received_after=x", "", 400, []string{"query.limit", "query.status", "query.received_after"}},
		{"a wait too long", "GET", "/promises/" + id + "?wait_seconds=61", "", 422, []string{"query.wait_seconds"}},
		{"a missing body", "POST", "/work/claim", "", 400, []string{"body"}},
		{"broken JSON", "POST", "/work/claim", `{"max":`, 400, []string{"body"}},
		{"two values", "POST", "/work/claim", `{}{}`, 400, []string{"body"}},
		{"not an object", "POST", "/work/claim", `[]`, 422, []string{"body"}},
		{"an unknown field", "POST", "/work/claim", `{"quue":"ci"}`, 422, []string{"body.quue"}},
		{"a wrong type", "POST", "/work/claim", `{"max":"10"}`, 422, []string{"body.max"}},
		{"a number beyond int64", "POST", "/work/" + id + "/complete", `{"lease_token":1e30}`, 422, []string{"body.lease_token"}},
		{"faults in several fields", "POST", "/work/claim", `{"max":0,"wait_seconds":61,"lease_seconds":"x","quue":1}`, 422,
			[]string{"body.max", "body.wait_seconds", "body.lease_seconds", "body.quue"}},
		{"faults beyond the schema", "POST", "/work/claim", `{"queue":"a\u0000","kinds":["a","b\u0000"]}`, 422, []string{"body.queue", "body.kinds[1]"}},
		{"missing required members", "POST", "/work/" + id + "/fail", `{}`, 422, []string{"body.error", "body.lease_token"}},
		{"no promises to await", "POST", "/work/" + id + "/suspend", `{"lease_token":1,"await":[]}`, 422, []string{"body.await"}},
		{"a key too long", "POST", "/promises", `{"idempotency_key":"` + strings.Repeat("k", 256) + `"}`, 422, []string{"body.idempotency_key"}},
		{"a key too long in bytes", "POST", "/promises", `{"idempotency_key":"` + strings.Repeat("é", 200) + `"}`, 422, []string{"body.idempotency_key"}},
		{"an empty key", "POST", "/promises", `{"idempotency_key":""}`, 422, []string{"body.idempotency_key"}},
		{"a key with a NUL", "POST", "/promises", `{"idempotency_key":"a\u0000"}`, 422, []string{"body.idempotency_key"}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := r.subtest(t)
			got := r.send(t.Context(), adminKey, c.method, T("acme")+c.path, []byte(c.body)).want(c.want).problem()
			at := got.locations()
			slices.Sort(at)
			slices.Sort(c.at)
			if diff := cmp.Diff(c.at, at); diff != "" {
				t.Errorf("%+v: locations (-want +got):\n%s", got, diff)
			}
			for _, f := range got.Errors {
				if f.Message == "" || strings.Contains(f.Message, "Go ") {
					t.Errorf("message at %s: got %q, want one without Go types", f.Location, f.Message)
				}
			}
		})
	}
}

func TestSyntaxErrorsHaveLineAndColumn(t *testing.T) {
	r := setUp(t)
	for _, c := range []struct{ claim, path, body, want string }{
		{"a comma too many", "/work/claim", `{"max":1,}`, "is not JSON: line 1, column 10: invalid character '}' looking for beginning of object key string"},
		{"on another line", "/sources", "{\n  \"name\": oops\n}", "is not JSON: line 2, column 11: invalid character 'o' looking for beginning of value"},
		{"cut short", "/sources", `{"name":`, "is not JSON: line 1, column 8: unexpected end of JSON input"},
		{"beside a fault of the path", "/work/17/complete", `{"lease_token":1,}`, "is not JSON: line 1, column 18: invalid character '}' looking for beginning of object key string"},
		{"two values", "/promises", `{}{}`, "is not JSON: line 1, column 3: invalid character '{' after top-level value"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := r.subtest(t)
			got := r.send(t.Context(), adminKey, "POST", T("acme")+c.path, []byte(c.body)).want(http.StatusBadRequest).problem()
			if !slices.Contains(got.Errors, struct{ Location, Message string }{"body", c.want}) {
				t.Errorf("got %+v, want %q at body", got.Errors, c.want)
			}
		})
	}
}

func TestAdminFaults(t *testing.T) {
	r := setUp(t)
	for _, c := range []struct {
		claim, path, body string
		want              int
		at                []string
	}{
		{"all faults of a tenant", "/tenants", `{"slug":"Not A Slug","name":""}`, 422, []string{"body.slug", "body.name"}},
		{"a name with a NUL", "/tenants", `{"slug":"x","name":"a\u0000"}`, 422, []string{"body.name"}},
		{"an existing slug", "/tenants", `{"slug":"acme","name":"Acme"}`, 409, nil},
		{"all faults of a key", "/tenants/acme/keys", `{"name":"","scopes":["fly","read"],"expires_at":"2020-01-01T00:00:00Z"}`, 422,
			[]string{"body.scopes[0]", "body.name", "body.expires_at"}},
		{"a key without a scope", "/tenants/acme/keys", `{"name":"k","scopes":[]}`, 422, []string{"body.scopes"}},
		{"an invalid expiry", "/tenants/acme/keys", `{"name":"k","scopes":["read"],"expires_at":"soon"}`, 422, []string{"body.expires_at"}},
		{"an expiry beyond the year 9999 in UTC", "/tenants/acme/keys", `{"name":"k","scopes":["read"],"expires_at":"9999-12-31T23:59:59-14:00"}`, 422, []string{"body.expires_at"}},
		{"a key of an unknown tenant", "/tenants/unknown/keys", `{"name":"k","scopes":["read"]}`, 404, nil},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := r.subtest(t)
			got := r.admin("POST", "/api/admin"+c.path, c.body).want(c.want).problem()
			if diff := cmp.Diff(c.at, got.locations()); diff != "" {
				t.Errorf("%+v: locations (-want +got):\n%s", got, diff)
			}
		})
	}
}

func TestUnknownPathsAndMethods(t *testing.T) {
	r := setUp(t)
	r.admin("GET", T("acme")+"/nothing", nil).want(http.StatusNotFound)
	r.admin("GET", "/nothing", nil).want(http.StatusNotFound)
	p := r.admin("DELETE", T("acme")+"/sources/crm/routes", nil).want(http.StatusMethodNotAllowed).problem()
	if want := "Method not allowed: use GET or POST."; p.Detail != want {
		t.Errorf("the detail is %q, want %q", p.Detail, want)
	}
}

func TestBodies(t *testing.T) {
	const limit = 64 << 10
	r := setUp(t)
	body := func(size int) []byte {
		const before, after = `{"kinds":["`, `"]}`
		return []byte(before + strings.Repeat("k", size-len(before)-len(after)) + after)
	}
	send := func(body []byte, contentType string) *answer {
		req := httptest.NewRequestWithContext(t.Context(), "POST", T("acme")+"/work/claim", bytes.NewReader(body))
		req.Header.Set("Authorization", "Bearer "+adminKey)
		req.Header.Set("Content-Type", contentType)
		return r.do(req)
	}
	send(body(limit), "application/json").want(http.StatusOK)
	p := send(body(limit+1), "application/json").want(http.StatusRequestEntityTooLarge).problem()
	if !strings.Contains(p.Detail, "65536") {
		t.Errorf("the detail is %q, want the limit in it", p.Detail)
	}
	send(body(4*limit), "application/json").want(http.StatusRequestEntityTooLarge)
	send([]byte(`{}`), "application/json; charset=utf-8").want(http.StatusOK)
	for _, other := range []string{"text/plain", "application/x-www-form-urlencoded", "application/xml", "a;b+c", "\x01"} {
		if p := send([]byte(`{}`), other).want(http.StatusUnsupportedMediaType).problem(); !strings.Contains(p.Detail, "application/json") || p.Errors != nil {
			t.Errorf("%q: got %+v, want the accepted type in the detail, and no faults", other, p)
		}
	}
}

// truncatedBody returns a part of a body and then fails, like a broken connection.
type truncatedBody struct{ io.Reader }

func (c truncatedBody) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func TestTruncatedBodyIsABadRequest(t *testing.T) {
	r := setUp(t)
	req := httptest.NewRequestWithContext(t.Context(), "POST", T("acme")+"/work/claim", truncatedBody{strings.NewReader(`{"max`)})
	req.Header.Set("Authorization", "Bearer "+adminKey)
	r.do(req).want(http.StatusBadRequest)
}

// TestFaultsOverTheWire checks what httptest.ResponseRecorder does not show: the
// connection can be used again.
func TestFaultsOverTheWire(t *testing.T) {
	r := setUp(t)
	server := httptest.NewServer(r.router)
	defer server.Close()
	for range 2 {
		resp, err := server.Client().Get(server.URL + T("acme") + "/events")
		r.must(err)
		line, err := bufio.NewReader(resp.Body).ReadString('\n')
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized || resp.Header.Get("WWW-Authenticate") != "Bearer" || !strings.HasPrefix(line, `{"title":"Unauthorized","status":401,`) {
			t.Errorf("got %s %q (%v), want a 401 problem", resp.Status, line, err)
		}
	}
}

func TestInternalErrorsDoNotRevealTheCause(t *testing.T) {
	r := setUp(t, func(d *api.Deps) { d.Events = brokenEvents{} })
	got := r.admin("GET", T("acme")+"/events", nil).want(http.StatusInternalServerError)
	if strings.Contains(got.Body.String(), errBroken.Error()) {
		t.Errorf("answered %s, want no text of the cause", got.Body)
	}
}
