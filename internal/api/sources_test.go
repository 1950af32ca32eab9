package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/api"
	"github.com/eventhook/eventhook/verify"
)

const sources = "/sources"

// object is a JSON object in tests.
type object = map[string]any

// matching sends a request with the admin key and If-Match.
func (r *fixture) matching(etag, method, path, body string) *answer {
	r.Helper()
	req := httptest.NewRequestWithContext(r.Context(), method, path, strings.NewReader(body))
	req.Header.Set("Authorization", "Bearer "+adminKey)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("If-Match", etag)
	return r.do(req)
}

// specOf returns the stored verifier of a source.
func (r *fixture) specOf(slug string) verify.Spec {
	r.Helper()
	s, err := r.db.FindSource(r.Context(), "acme", slug)
	r.must(err)
	spec, err := verify.ReadSpec(s.Verifier)
	r.must(err)
	return spec
}

func TestASourceHasADescription(t *testing.T) {
	r := setUp(t)
	const text = "Pushes of\nthe payments team"
	got := r.admin("POST", T("acme")+sources, object{"slug": "hub", "provider": "github", "secrets": []string{hush}, "description": text}).want(http.StatusCreated).object()
	if got["description"] != text {
		t.Errorf("created with %q, want %q", got["description"], text)
	}
	patched := func(body string) any {
		return r.admin("PATCH", T("acme")+sources+"/hub", body).want(http.StatusOK).object()["description"]
	}
	if got := patched(`{"name":"x"}`); got != text {
		t.Errorf("another change left %q, want %q", got, text)
	}
	if got := patched(`{"description":null}`); got != nil {
		t.Errorf("null left %q, want none", got)
	}
	for _, wrong := range []string{"a\x00b", strings.Repeat("é", 1001)} {
		if p := r.admin("PATCH", T("acme")+sources+"/hub", object{"description": wrong}).want(http.StatusUnprocessableEntity).problem(); p.locations()[0] != "body.description" {
			t.Errorf("%.10q: got %v, want a fault of body.description", wrong, p.Errors)
		}
	}
}

func TestSourceWithProvider(t *testing.T) {
	r := setUp(t)
	a := r.admin("POST", T("acme")+sources, object{"slug": "hub", "provider": "github", "secrets": []string{hush, hush + "2"}}).want(http.StatusCreated)
	if got, want := a.Header().Get("Location"), T("acme")+sources+"/hub"; got != want {
		t.Errorf("the Location is %q, want %q", got, want)
	}
	made := a.object()
	want := object{
		"id": made["id"], "slug": "hub", "name": "hub", "description": nil, "is_enabled": true, "provider": "github", "scheme": nil, "secrets_count": 2.0,
		"ingest_url": "https://hooks.example" + T("acme") + "/in/hub", "public_keys": []any{}, "options": object{}, "tolerance_seconds": nil,
		"idempotency_key_paths": []any{"header.x-github-delivery"}, "event_type_paths": []any{"header.x-github-event"}, "require_idempotency_key": false,
		"rate_limit":        object{"requests_per_second": 100.0, "requests_per_minute": 1000.0, "burst_size": 50.0},
		"retry":             object{"max_retries": 3.0, "initial_delay_ms": 10000.0, "backoff_multiplier": 3.0, "max_delay_ms": 3600000.0},
		"allowed_ip_ranges": []any{}, "max_body_bytes": 1048576.0, "content_types": []any{}, "replay_protection": "off",
		"warnings": []any{},
		"stats":    object{"events_last_hour": 0.0, "events_last_24h": 0.0, "failed_last_24h": 0.0},
		"version":  1.0, "created_at": "2026-03-10T15:00:00Z", "updated_at": "2026-03-10T15:00:00Z",
	}
	if diff := cmp.Diff(want, made); diff != "" {
		t.Errorf("created (-want +got):\n%s", diff)
	}
	read := r.admin("GET", T("acme")+sources+"/hub", nil).want(http.StatusOK)
	if diff := cmp.Diff(made, read.object()); diff != "" || read.Header().Get("ETag") != `"1"` || a.Header().Get("ETag") != `"1"` {
		t.Errorf("read with the ETag %s (-created +got):\n%s", read.Header().Get("ETag"), diff)
	}
}

func TestSourceWithVerifier(t *testing.T) {
	r := setUp(t)
	body := object{
		"slug": "erp", "name": "ERP", "is_enabled": false,
		"verifier":              object{"type": "hmac", "header": "X-Sign", "algorithm": "sha256", "encoding": "hex", "prefix": "sha256=", "secrets": []string{hush}},
		"idempotency_key_paths": []string{"header.x-request-id", "body.id"}, "event_type_paths": []string{"header.x-topic"}, "require_idempotency_key": true,
		"rate_limit": object{"burst_size": 7}, "retry": object{"schedule_seconds": []int{30, 120}}, "allowed_ip_ranges": []string{"192.0.2.0/24"},
		"max_body_bytes": 1000, "content_types": []string{"application/json"}, "response": object{"status": 202, "content_type": "text/plain", "body": "ok"},
	}
	made := r.admin("POST", T("acme")+sources, body).want(http.StatusCreated)
	if strings.Contains(made.Body.String(), hush) {
		t.Errorf("answered %s, want no secret", made.Body)
	}
	got := made.object()
	for name, want := range map[string]any{
		"name": "ERP", "is_enabled": false, "provider": nil, "secrets_count": 1.0,
		"verifier":              object{"type": "hmac", "header": "X-Sign", "algorithm": "sha256", "encoding": "hex", "prefix": "sha256="},
		"idempotency_key_paths": []any{"header.x-request-id", "body.id"}, "event_type_paths": []any{"header.x-topic"}, "require_idempotency_key": true,
		"rate_limit": object{"requests_per_second": 100.0, "requests_per_minute": 1000.0, "burst_size": 7.0},
		"retry":      object{"schedule_seconds": []any{30.0, 120.0}}, "allowed_ip_ranges": []any{"192.0.2.0/24"},
		"max_body_bytes": 1000.0, "content_types": []any{"application/json"}, "response": object{"status": 202.0, "content_type": "text/plain", "body": "ok"},
	} {
		if diff := cmp.Diff(want, got[name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if s := r.specOf("erp"); s.Verifier == nil || !slices.Equal(s.Verifier.Secrets, []string{hush}) {
		t.Error("the stored verifier does not contain the secret")
	}
}

func TestUpdateSource(t *testing.T) {
	r := setUp(t)
	path := T("acme") + sources + "/erp"
	r.admin("POST", T("acme")+sources, object{"slug": "erp", "name": "ERP", "rate_limit": object{"burst_size": 7},
		"verifier": object{"type": "hmac", "header": "X-Sign", "secrets": []string{hush}}}).want(http.StatusCreated)
	version := 1.0
	for _, c := range []struct {
		claim, patch string
		want         object
	}{
		{"no change", `{}`, nil},
		{"the current values", `{"name":"ERP","slug":"erp"}`, nil},
		{"a name", `{"name":"New"}`, object{"name": "New", "secrets_count": 1.0}},
		{"the default name", `{"name":null}`, object{"name": "erp"}},
		{"a part of a limit", `{"rate_limit":{"requests_per_second":5}}`, object{"rate_limit": object{"requests_per_second": 5.0, "requests_per_minute": 1000.0, "burst_size": 7.0}}},
		{"a part of a limit, reset", `{"rate_limit":{"burst_size":null}}`, object{"rate_limit": object{"requests_per_second": 5.0, "requests_per_minute": 1000.0, "burst_size": 50.0}}},
		{"a limit, reset", `{"rate_limit":null}`, object{"rate_limit": object{"requests_per_second": 100.0, "requests_per_minute": 1000.0, "burst_size": 50.0}}},
		{"retries", `{"retry":{"schedule_seconds":[5]}}`, object{"retry": object{"schedule_seconds": []any{5.0}}}},
		{"retries beside a schedule", `{"retry":{"max_retries":7,"max_delay_ms":60000}}`,
			object{"retry": object{"schedule_seconds": []any{5.0}, "max_retries": 7.0, "max_delay_ms": 60000.0}}},
		{"retries without the schedule", `{"retry":{"schedule_seconds":null,"initial_delay_ms":0}}`,
			object{"retry": object{"max_retries": 7.0, "initial_delay_ms": 10000.0, "backoff_multiplier": 3.0, "max_delay_ms": 60000.0}}},
		{"a list is replaced as a whole", `{"allowed_ip_ranges":["192.0.2.0/24"]}`, object{"allowed_ip_ranges": []any{"192.0.2.0/24"}}},
		{"a part of the verifier keeps its secret", `{"verifier":{"prefix":"v="}}`, object{"verifier": object{"type": "hmac", "header": "X-Sign", "prefix": "v="}, "secrets_count": 1.0}},
		{"a secret", `{"verifier":{"secrets":["a","b"]}}`, object{"verifier": object{"type": "hmac", "header": "X-Sign", "prefix": "v="}, "secrets_count": 2.0}},
		{"another type replaces the verifier", `{"verifier":{"type":"api_key","header":"X-Key","values":["` + hush + `"]}}`,
			object{"verifier": object{"type": "api_key", "header": "X-Key"}, "secrets_count": 1.0}},
		{"a provider instead of the verifier", `{"verifier":null,"provider":"github","secrets":["` + hush + `"]}`, object{"verifier": nil, "provider": "github", "secrets_count": 1.0}},
		{"disabled", `{"is_enabled":false}`, object{"is_enabled": false, "secrets_count": 1.0}},
		{"enabled by default", `{"is_enabled":null}`, object{"is_enabled": true}},
		{"a response", `{"response":{"status":202}}`, object{"response": object{"status": 202.0}}},
		{"a part of the response", `{"response":{"body":"ok"}}`, object{"response": object{"status": 202.0, "body": "ok"}}},
		{"no response", `{"response":null}`, object{"response": nil}},
	} {
		r.clock.Advance(1)
		a := r.admin("PATCH", path, c.patch)
		got := a.want(http.StatusOK).object()
		if c.want != nil {
			version++
		}
		if got["version"] != version || a.Header().Get("ETag") != fmt.Sprintf(`"%v"`, version) {
			t.Errorf("%s: version %v with the tag %s, want %v", c.claim, got["version"], a.Header().Get("ETag"), version)
		}
		for name, want := range c.want {
			if diff := cmp.Diff(want, got[name]); diff != "" {
				t.Errorf("%s: %s (-want +got):\n%s", c.claim, name, diff)
			}
		}
		if strings.Contains(a.Body.String(), hush) {
			t.Errorf("%s: answered %s, want no secret", c.claim, a.Body)
		}
	}
	if s := r.specOf("erp"); !slices.Equal(s.Secrets, []string{hush}) || s.Verifier != nil {
		t.Error("the stored verifier does not contain only the secret of the provider")
	}
}

func TestSourceVersions(t *testing.T) {
	r := setUp(t)
	path := T("acme") + sources + "/shop"
	tag := r.admin("GET", path, nil).want(http.StatusOK).Header().Get("ETag")
	for _, condition := range []string{tag, "", "*"} {
		r.matching(condition, "PATCH", path, `{"name":"`+fmt.Sprintf("%x", condition)+`"}`).want(http.StatusOK)
	}
	for _, condition := range []string{tag, `W/` + tag, "1", `"0"`, `"-1"`, `"99999999999999999999"`, `"x"`, `"1", "2"`} {
		r.matching(condition, "PATCH", path, `{"name":"never"}`).want(http.StatusPreconditionFailed)
		r.matching(condition, "DELETE", path, "").want(http.StatusPreconditionFailed)
	}
	got := r.admin("GET", path, nil).want(http.StatusOK)
	if got.object()["name"] == "never" {
		t.Error("a stale update changed the source")
	}
	r.matching(got.Header().Get("ETag"), "DELETE", path, "").want(http.StatusNoContent)
	r.admin("GET", path, nil).want(http.StatusNotFound)
	r.matching(tag, "PATCH", path, `{}`).want(http.StatusNotFound)
}

func TestDeleteSource(t *testing.T) {
	r := setUp(t)
	event := r.event()
	path := T("acme") + sources + "/crm"
	if p := r.admin("DELETE", path, nil).want(http.StatusConflict).problem(); !strings.Contains(p.Detail, "cascade=true") {
		t.Errorf("the detail is %q, want what to do", p.Detail)
	}
	if p := r.admin("DELETE", path, nil).problem(); !strings.Contains(p.Detail, "1 route, and 1 event is still to be processed") {
		t.Errorf("the detail is %q, want the routes and open events", p.Detail)
	}
	r.admin("DELETE", path+"?cascade=perhaps", nil).want(http.StatusBadRequest)
	r.admin("DELETE", path+"?cascade=false", nil).want(http.StatusConflict)
	r.admin("DELETE", path+"?cascade=true", nil).want(http.StatusNoContent)
	r.admin("DELETE", path, nil).want(http.StatusNotFound)
	r.admin("GET", path+"/routes", nil).want(http.StatusNotFound)
	r.admin("GET", T("acme")+"/events/"+event.ID.String(), nil).want(http.StatusOK)
	r.admin("DELETE", T("acme")+sources+"/shop", nil).want(http.StatusNoContent)
}

func TestConcurrentCreatesOfASourceSlug(t *testing.T) {
	r := setUp(t)
	const many = 8
	codes := make([]int, many)
	var all sync.WaitGroup
	for i := range many {
		all.Go(func() {
			codes[i] = r.send(t.Context(), adminKey, "POST", T("acme")+sources, []byte(`{"slug":"race","verifier":{"type":"none"}}`)).Code
		})
	}
	all.Wait()
	slices.Sort(codes)
	want := slices.Concat([]int{http.StatusCreated}, slices.Repeat([]int{http.StatusConflict}, many-1))
	if diff := cmp.Diff(want, codes); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
}

func TestSourceFaults(t *testing.T) {
	r := setUp(t)
	list := func(n int, of string) string { return "[" + strings.TrimSuffix(strings.Repeat(of+",", n), ",") + "]" }
	none := `,"verifier":{"type":"none"}`
	for _, c := range []struct {
		claim, body string
		want        int
		at          []string
	}{
		{"no slug", `{"provider":"github","secrets":["x"]}`, 422, []string{"body.slug"}},
		{"an invalid slug", `{"slug":"Not A Slug"` + none + `}`, 422, []string{"body.slug"}},
		{"a slug that is too long", `{"slug":"` + strings.Repeat("x", 64) + `"` + none + `}`, 422, []string{"body.slug"}},
		{"a reserved slug", `{"slug":"new"` + none + `}`, 422, []string{"body.slug"}},
		{"an existing slug", `{"slug":"crm"` + none + `}`, 409, nil},
		{"no verifier", `{"slug":"x"}`, 422, []string{"body.provider"}},
		{"an unknown provider", `{"slug":"x","provider":"nobody"}`, 422, []string{"body.provider"}},
		{"a provider without its secret", `{"slug":"x","provider":"github"}`, 422, []string{"body.secrets"}},
		{"an unknown verifier type", `{"slug":"x","verifier":{"type":"rot13"}}`, 422, []string{"body.verifier.type"}},
		{"a verifier without a type", `{"slug":"x","verifier":{}}`, 422, []string{"body.verifier.type"}},
		{"a verifier with a field of another type", `{"slug":"x","verifier":{"type":"none","header":"X"}}`, 422, []string{"body.verifier.header"}},
		{"a name that is too long", `{"slug":"x","name":"` + strings.Repeat("n", 201) + `"` + none + `}`, 422, []string{"body.name"}},
		{"a name that is too long in bytes", `{"slug":"x","name":"` + strings.Repeat("é", 101) + `"` + none + `}`, 422, []string{"body.name"}},
		{"a name with a NUL", `{"slug":"x","name":"a\u0000"` + none + `}`, 422, []string{"body.name"}},
		{"invalid ranges", `{"slug":"x","allowed_ip_ranges":["192.0.2.0/24","192.0.2.1","x"]` + none + `}`, 422, []string{"body.allowed_ip_ranges[1]", "body.allowed_ip_ranges[2]"}},
		{"too many ranges", `{"slug":"x","allowed_ip_ranges":` + list(1001, `"192.0.2.0/24"`) + none + `}`, 422, []string{"body.allowed_ip_ranges"}},
		{"invalid paths", `{"slug":"x","idempotency_key_paths":["id"],"event_type_paths":["body.a..b"]` + none + `}`, 422,
			[]string{"body.idempotency_key_paths[0]", "body.event_type_paths[0]"}},
		{"numbers out of range", `{"slug":"x","max_body_bytes":33554433,"rate_limit":{"burst_size":-1},"retry":{"max_retries":26,"backoff_multiplier":0.5}` + none + `}`, 422,
			[]string{"body.max_body_bytes", "body.rate_limit.burst_size", "body.retry.max_retries", "body.retry.backoff_multiplier"}},
		{"a number beyond an integer", `{"slug":"x","max_body_bytes":1e400` + none + `}`, 422, []string{"body.max_body_bytes"}},
		{"an integer with an exponent", `{"slug":"x","rate_limit":{"burst_size":1e3}` + none + `}`, 422, []string{"body.rate_limit.burst_size"}},
		{"an invalid response", `{"slug":"x","response":{"status":404,"content_type":"a\r\nb"}` + none + `}`, 422, []string{"body.response.status", "body.response.content_type"}},
		{"a response without a status", `{"slug":"x","response":{}` + none + `}`, 422, []string{"body.response.status"}},
		{"unknown fields", `{"slug":"x","colour":1,"rate_limit":{"speed":1}` + none + `}`, 422, []string{"body.colour", "body.rate_limit.speed"}},
		{"a field in upper case", `{"slug":"x","Name":"N"` + none + `}`, 422, []string{"body.Name"}},
		{"wrong types", `{"slug":1,"name":[],"secrets":"x","options":{"a":1},"is_enabled":"yes","provider":"github"}`, 422,
			[]string{"body.slug", "body.name", "body.secrets", "body.options.a", "body.is_enabled"}},
		{"a secret in the wrong field", `{"slug":"x","provider":"github","secrets":"` + hush + `","verifier":{"type":"` + hush + `","secrets":["` + hush + `"]}}`, 422, []string{"body.secrets", "body.verifier.type"}},
		{"shape and rules together", `{"slug":"x","colour":1,"allowed_ip_ranges":["x"]` + none + `}`, 422, []string{"body.colour", "body.allowed_ip_ranges[0]"}},
		{"an array", `[]`, 422, []string{"body"}},
		{"null", `null`, 422, []string{"body"}},
		{"a text", `"x"`, 422, []string{"body"}},
		{"an empty body", ``, 400, []string{"body"}},
		{"invalid JSON", `{"slug":`, 400, []string{"body"}},
		{"more than a megabyte", `{"slug":"x","name":"` + strings.Repeat("n", 1<<20) + `"}`, 413, nil},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := r.subtest(t)
			r.wantFaults(r.admin("POST", T("acme")+sources, c.body), c.want, c.at)
		})
	}
}

// wantFaults compares the status and the locations of faults, in any order.
func (r *fixture) wantFaults(a *answer, status int, at []string) {
	r.Helper()
	p := a.want(status).problem()
	got := p.locations()
	slices.Sort(got)
	slices.Sort(at)
	got = slices.Compact(got)
	if diff := cmp.Diff(at, got); diff != "" {
		r.Errorf("%+v: locations (-want +got):\n%s", p, diff)
	}
	for _, f := range p.Errors {
		if f.Message == "" || strings.Contains(f.Message, "Go ") || strings.Contains(f.Message, hush) {
			r.Errorf("at %s it says %q, want a message that tells the caller what to do", f.Location, f.Message)
		}
	}
}

func TestSourcePatchFaults(t *testing.T) {
	r := setUp(t)
	r.github()
	path := T("acme") + sources + "/hub"
	for _, c := range []struct {
		claim, body string
		want        int
		at          []string
	}{
		{"another slug", `{"slug":"other"}`, 422, []string{"body.slug"}},
		{"no slug", `{"slug":null}`, 422, []string{"body.slug"}},
		{"no secret", `{"secrets":null}`, 422, []string{"body.secrets"}},
		{"a provider and a verifier", `{"verifier":{"type":"none"}}`, 422, []string{"body.secrets"}},
		{"unknown fields, with a value or null", `{"colour":1,"shape":null}`, 422, []string{"body.colour", "body.shape"}},
		{"null in a list", `{"allowed_ip_ranges":[null]}`, 422, []string{"body.allowed_ip_ranges[0]"}},
		{"wrong types of nested members", `{"rate_limit":3,"retry":{"schedule_seconds":{}}}`, 422, []string{"body.rate_limit", "body.retry.schedule_seconds"}},
		{"members of responses only", `{"version":3,"ingest_url":"x"}`, 422, []string{"body.version", "body.ingest_url"}},
		{"an array", `[]`, 422, []string{"body"}},
		{"null", `null`, 422, []string{"body"}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := r.subtest(t)
			r.wantFaults(r.admin("PATCH", path, c.body), c.want, c.at)
		})
	}
	for _, slug := range []string{"nowhere", "%00", "a%00b", "%ff", "..%2f", strings.Repeat("x", 3000)} {
		for _, method := range []string{"GET", "PATCH", "DELETE"} {
			r.admin(method, T("acme")+sources+"/"+slug, map[string]string{"PATCH": `{}`}[method]).want(http.StatusNotFound)
		}
	}
}

func TestBodiesMustBeJSON(t *testing.T) {
	r := setUp(t)
	send := func(contentType, body string) *answer {
		req := httptest.NewRequestWithContext(t.Context(), "PATCH", T("acme")+sources+"/shop", strings.NewReader(body))
		req.Header.Set("Authorization", "Bearer "+adminKey)
		req.Header.Set("Content-Type", contentType)
		return r.do(req)
	}
	for _, fine := range []string{"application/json", "application/merge-patch+json", "application/json; charset=utf-8"} {
		send(fine, `{"name":"n"}`).want(http.StatusOK)
	}
	for _, other := range []string{"text/plain", "application/xml", "a;b+c"} {
		if p := send(other, `{"name":"n"}`).want(http.StatusUnsupportedMediaType).problem(); p.Errors != nil || !strings.Contains(p.Detail, "application/json") {
			t.Errorf("%q: got %+v, want only the accepted type", other, p)
		}
	}
	for _, none := range []string{`{`, `{}{}`, `{"a"}`, "\x00", nested(11_000)} {
		r.wantFaults(send("application/json", none), http.StatusBadRequest, []string{"body"})
	}
}

func TestFaultsAreLimited(t *testing.T) {
	r := setUp(t)
	for claim, body := range map[string]string{
		"of shape": `{"slug":"x","secrets":[` + strings.TrimSuffix(strings.Repeat("1,", 200_000), ",") + `]}`,
		"of rules": `{"slug":"x","options":{` + strings.TrimSuffix(func() (s string) {
			var b strings.Builder
			for i := range 30_000 {
				fmt.Fprintf(&b, `"o%d":"",`, i)
			}
			return b.String()
		}(), ",") + `},"provider":"github"}`,
	} {
		if a := r.admin("POST", T("acme")+sources, body).want(http.StatusUnprocessableEntity); len(a.problem().Errors) > 110 {
			t.Errorf("%s: got %d faults, want about a hundred", claim, len(a.problem().Errors))
		}
	}
}

func TestSourceStatistics(t *testing.T) {
	r := setUp(t)
	r.must(r.db.AddSourceCounts(t.Context(), 1, []eventhook.SourceCount{
		{SourceID: r.crm, At: noon.Truncate(eventhook.SourceCountSpan), Events: 5, Failed: 2},
		{SourceID: r.crm, At: noon.Add(-3 * 3600e9).Truncate(eventhook.SourceCountSpan), Events: 7, Failed: 1},
	}))
	want := map[any]any{
		"crm":  object{"events_last_hour": 5.0, "events_last_24h": 12.0, "failed_last_24h": 3.0},
		"shop": object{"events_last_hour": 0.0, "events_last_24h": 0.0, "failed_last_24h": 0.0},
	}
	got := map[any]any{}
	for _, s := range r.list(T("acme") + sources).Items {
		got[s["slug"]] = s["stats"]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("listed (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want["crm"], r.admin("GET", T("acme")+sources+"/crm", nil).object()["stats"]); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
}

func TestSourcesWithoutStatistics(t *testing.T) {
	r := setUp(t, func(d *api.Deps) { d.Usage = nil })
	if got := r.list(T("acme") + sources); len(got.Items) != 2 {
		t.Errorf("got %v, want both sources", got.Items)
	}
}

func TestSuspendedAndClosedTenants(t *testing.T) {
	r := setUp(t)
	key, _ := r.key("acme", eventhook.Scopes...)
	changes := []struct{ method, path, body string }{
		{"POST", sources, `{"slug":"x","verifier":{"type":"none"}}`},
		{"PATCH", sources + "/shop", `{"name":"New"}`},
		{"DELETE", sources + "/shop", ""},
		{"POST", sources + "/shop/routes", `{"name":"x","targets":[{"type":"task","task_kind":"x"}]}`},
		{"PATCH", sources + "/crm/routes/" + r.route.ID.String(), `{"priority":3}`},
		{"DELETE", sources + "/crm/routes/" + r.route.ID.String(), ""},
		{"PUT", sources + "/crm/routes/reorder", `{"order":[{"id":"` + r.route.ID.String() + `","priority":1}]}`},
		{"PUT", "/event-types/a", `{}`},
	}
	suspend := func(t eventhook.Tenant) (eventhook.Tenant, error) {
		t.Status = eventhook.TenantSuspended
		return t, nil
	}
	_, err := r.db.UpdateTenant(t.Context(), operator, "acme", 0, suspend)
	r.must(err)
	for _, c := range changes {
		r.call(key, c.method, T("acme")+c.path, c.body).want(http.StatusForbidden)
	}
	r.call(key, "GET", T("acme")+sources, nil).want(http.StatusOK)
	r.admin("PATCH", T("acme")+sources+"/shop", `{"name":"By the admin"}`).want(http.StatusOK)
	_, err = r.db.CloseTenant(t.Context(), operator, "acme")
	r.must(err)
	for _, c := range changes {
		r.admin(c.method, T("acme")+c.path, c.body).want(http.StatusConflict)
	}
	r.admin("GET", T("acme")+sources, nil).want(http.StatusOK)
}

// TestVerifierHasTheFieldsOfVerifyConfig compares names and types of the JSON members.
// The compiler checks the Go fields where one type is converted into the other.
func TestVerifierHasTheFieldsOfVerifyConfig(t *testing.T) {
	ours, theirs := reflect.TypeFor[api.Verifier](), reflect.TypeFor[verify.Config]()
	for i := range ours.NumField() {
		if got, want := ours.Field(i).Tag.Get("json"), theirs.Field(i).Tag.Get("json"); got != want {
			t.Errorf("%s is %q in the API and %q in files", ours.Field(i).Name, got, want)
		}
	}
	if got, want := ours.Field(0).Tag.Get("enum"), strings.Join(verify.Types(), ","); got != want {
		t.Errorf("the API has the types %s, want %s", got, want)
	}
}
