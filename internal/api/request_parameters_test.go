package api_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/client"
)

func TestNamesSurviveARoundTrip(t *testing.T) {
	r := setUp(t)
	server := httptest.NewServer(r.router)
	t.Cleanup(server.Close)
	c, err := client.New(server.URL, adminKey)
	r.must(err)
	for _, name := range []string{"a/b", "a,b", "a;b", "a:b", "a%b", "a%40b", "a%2540", "a+b", "a b", "é", "a/b%2Fc d", "a&b=c?d#e"} {
		t.Run(name, func(t *testing.T) {
			r := r.subtest(t)
			put, err := c.PutEventType(t.Context(), "acme", name, client.PutEventTypeParams{}, client.EventTypePut{Description: new("d")})
			r.must(err)
			got, err := c.GetEventType(t.Context(), "acme", name)
			r.must(err)
			if put.Name != name || got.Name != name {
				t.Errorf("put %q and got %q, want %q", put.Name, got.Name, name)
			}
			if stored, err := r.db.EventType(t.Context(), r.acme, name); err != nil || stored.Name != name {
				t.Errorf("stored %q (%v), want %q", stored.Name, err, name)
			}
		})
	}
}

// rawPath sends a request with an encoded path.
func (r *fixture) rawPath(key, method, path string) *answer {
	r.Helper()
	req := httptest.NewRequestWithContext(r.Context(), method, "/", nil)
	req.URL = &url.URL{Path: mustUnescape(path), RawPath: path}
	req.Header.Set("Authorization", "Bearer "+key)
	return r.do(req)
}

func TestPathsAreDecodedOnce(t *testing.T) {
	r := setUp(t)
	acme, _ := r.key("acme", eventhook.ScopeRead)
	id := r.event().ID.String()
	for _, c := range []struct {
		claim, path string
		want        int
	}{
		{"an encoded letter", T("acme") + "/sources/%63rm", 200},
		{"an encoded letter of the key's tenant", T("%61cme") + "/sources/crm", 200},
		{"an encoded letter of another tenant", T("%75mbrella") + "/sources/crm", 404},
		{"an encoded slash in the tenant", T("acme%2Fx") + "/sources/crm", 404},
		{"an encoded hyphen in an id", T("acme") + "/events/" + id[:8] + "%2D" + id[9:], 200},
		{"encoded twice", T("acme") + "/sources/%2563rm", 404},
		{"an invalid encoding", T("acme") + "/sources/%zz", 400},
		{"an invalid encoding in the tenant", T("%zz") + "/sources/crm", 404},
	} {
		t.Run(c.claim, func(t *testing.T) {
			p := r.subtest(t).rawPath(acme, "GET", c.path).want(c.want)
			if c.want == http.StatusBadRequest && !slices.Equal(p.problem().locations(), []string{"path.slug"}) {
				t.Errorf("got %s, want the fault at path.slug", p.Body)
			}
		})
	}
}

func TestAllFaultsOfARequestAreReportedAtOnce(t *testing.T) {
	r := setUp(t)
	id := eventhook.NewID[eventhook.Event](noon).String()
	for _, c := range []struct {
		claim, method, path, body string
		want                      int
		at                        []string
	}{
		{"a query", "GET", "/events?received_before=x&status=bogus&limit=0&foo=1", "", 400, []string{"query.foo", "query.limit", "query.received_before", "query.status"}},
		{"a query that can be parsed", "GET", "/events?status=bogus&limit=251&foo=1", "", 422, []string{"query.foo", "query.limit", "query.status"}},
		{"a value given twice", "GET", "/events?source=a&source=b&status=bogus", "", 400, []string{"query.source", "query.status"}},
		{"not a boolean", "DELETE", "/sources/crm?cascade=perhaps&x=1", "", 400, []string{"query.cascade", "query.x"}},
		{"a query with an invalid part", "GET", "/events?status=bogus&x=%zz", "", 400, []string{"query", "query.status"}},
		{"a NUL", "GET", "/events?source=%00&limit=0", "", 400, []string{"query.limit", "query.source"}},
		{"a path and a query", "GET", "/promises/17?wait_seconds=x&foo=1", "", 400, []string{"path.id", "query.foo", "query.wait_seconds"}},
		{"an id without hyphens", "GET", "/events/" + id[:8] + id[9:], "", 400, []string{"path.id"}},
		{"a path, a query and a body", "POST", "/work/17/fail?x=1", `{"lease_token":"a","y":1}`, 400,
			[]string{"body.error", "body.lease_token", "body.y", "path.id", "query.x"}},
		{"a query and a document", "POST", "/sources?x=1", `{"slug":"No","slug":"No","verifier":7}`, 422, []string{"body.slug", "body.verifier", "query.x"}},
		{"a query and a body that is not JSON", "POST", "/sources?x=1", `{"slug"`, 400, []string{"body", "query.x"}},
		{"a query and a missing body", "POST", "/sources?x=1", "", 400, []string{"body", "query.x"}},
		{"a query and a patch", "PATCH", "/sources/crm?x=1", `{"name":"a","name":"b"}`, 422, []string{"body.name", "query.x"}},
		{"a path and an unexpected body", "POST", "/work/17/cancel?x=1", `{"y":1}`, 400, []string{"body", "path.id", "query.x"}},
		{"a missing body", "POST", "/sources", "", 400, []string{"body"}},
		{"a cursor that was changed", "GET", "/sources?cursor=AAAA", "", 400, []string{"query.cursor"}},
		{"a cursor of the catalogue that was changed", "GET", "/event-types?cursor=AAAA", "", 400, []string{"query.cursor"}},
		{"a cursor of the providers that was changed", "GET", "/providers?cursor=AAAA", "", 400, []string{"query.cursor"}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			p := r.subtest(t).send(t.Context(), adminKey, c.method, T("acme")+c.path, []byte(c.body)).want(c.want).problem()
			at := p.locations()
			slices.Sort(at)
			if diff := cmp.Diff(c.at, at); diff != "" {
				t.Errorf("%+v: locations (-want +got):\n%s", p, diff)
			}
		})
	}
}

func TestIfMatchAcceptsSeveralVersions(t *testing.T) {
	r := setUp(t)
	r.admin("PUT", T("acme")+"/event-types/t", object{"description": "0"}).want(http.StatusCreated) // its version is 1
	for _, c := range []struct {
		ifMatch string
		want    int
	}{
		{`"9", "1"`, 200}, {`"9","1"`, 412}, {`"2" ,W/"3", x`, 200}, {`W/"3", "4"`, 412}, {`"1", *`, 412}, {`"3"`, 200},
		{`"4","5","6","7","8","9","10","11","12","13","14","15","16","17","18","19","20","21","22","23","24"`, 400},
	} {
		r.withHeader(adminKey, "PUT", T("acme")+"/event-types/t", `{"description":"`+r.clock.Now().String()+`"}`, "If-Match", c.ifMatch).want(c.want)
		r.clock.Advance(time.Second)
	}
	for path, body := range map[string]string{
		T("acme") + "/sources/crm":                               `{"name":"x"}`,
		T("acme") + "/sources/crm/routes/" + r.route.ID.String(): `{"name":"x"}`,
		"/api/admin/tenants/acme":                                `{"name":"x"}`,
	} {
		r.withHeader(adminKey, "PATCH", path, body, "If-Match", `"8", "9"`).want(http.StatusPreconditionFailed)
		r.withHeader(adminKey, "PATCH", path, body, "If-Match", `"1", "9", "2", "3"`).want(http.StatusOK)
	}
	r.withHeader(adminKey, "DELETE", T("acme")+"/sources/crm/routes/"+r.route.ID.String(), "", "If-Match", `"9", "2", "3"`).want(http.StatusNoContent)
	r.withHeader(adminKey, "DELETE", T("acme")+"/sources/crm", "", "If-Match", `"9", "2", "3"`).want(http.StatusNoContent)
	r.withHeader(adminKey, "DELETE", T("acme")+"/event-types/t", "", "If-Match", `"9", "4"`).want(http.StatusNoContent)
}

func TestTimesHaveStoredPrecision(t *testing.T) {
	r := setUp(t)
	r.clock.Advance(123456789)
	for path, body := range map[string]object{
		tenants:                {"slug": "fresh", "name": "Fresh"},
		T("acme") + "/sources": {"slug": "fresh", "verifier": object{"type": "none"}},
	} {
		created := r.admin("POST", path, body).want(http.StatusCreated).object()
		read := r.admin("GET", path+"/fresh", nil).want(http.StatusOK).object()
		if created["created_at"] != "2026-03-10T15:00:00.123456Z" || created["created_at"] != read["created_at"] || created["updated_at"] != read["updated_at"] {
			t.Errorf("%s: created at %v, read as %v; want microseconds in both", path, created["created_at"], read["created_at"])
		}
	}
	key := r.admin("POST", tenants+"/acme/keys", object{"name": "k", "scopes": []string{"read"}, "expires_at": "2026-04-01T00:00:00.123456789Z"}).want(http.StatusCreated).object()
	if read := r.list(tenants + "/acme/keys").Items[0]; key["expires_at"] != read["expires_at"] || key["created_at"] != read["created_at"] {
		t.Errorf("a key was created as %v and is read as %v", key, read)
	}
}

func TestDocumentDescribesRetryAfterScopesAndSlugs(t *testing.T) {
	r := setUp(t)
	for _, op := range r.operations() {
		for _, status := range []string{"429", "503"} {
			if a := op.Responses[status]; a == nil || a.Headers["Retry-After"] == nil {
				t.Errorf("%s: Retry-After of %s is not documented", op.OperationID, status)
			}
		}
	}
	schemas := r.openAPI.Components.Schemas.Map()
	if got := schemas["KeyCreate"].Properties["scopes"].Items.Enum; len(got) != len(eventhook.Scopes) {
		t.Errorf("enum of scopes: got %v, want %v", got, eventhook.Scopes)
	}
	for _, name := range []string{"TenantCreate", "SourceCreate"} {
		if s := schemas[name].Properties["slug"]; s.Pattern == "" || s.MinLength == nil || s.MaxLength == nil {
			t.Errorf("%s: the slug is described as %+v, want pattern, minLength and maxLength", name, s)
		}
	}
	for slug, want := range map[string]int{"": 1, "A": 1, string(make([]byte, 70)): 1} {
		p := r.admin("POST", tenants, object{"slug": slug, "name": "x"}).want(http.StatusUnprocessableEntity).problem()
		if len(p.Errors) != want {
			t.Errorf("the slug %q: got %+v, want one fault", slug, p.Errors)
		}
	}
}
