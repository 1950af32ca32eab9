package api_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

// author generates requests that follow the OpenAPI document, and some that do not. The
// seed determines all requests.
type author struct {
	*rand.Rand
	doc *huma.OpenAPI
	ids map[string]string // existing ids by the path segment before {id}
}

// hostile are JSON values that are seldom valid.
var hostile = []string{
	`null`, `true`, `-0`, `1e400`, `99999999999999999999`, `-9223372036854775809`, `0.1`, `""`, `" "`, `"\u0000"`, `"\ud800"`, "\"\xff\"",
	`"` + strings.Repeat("ä", 300) + `"`, `"${HOME}"`, `"'; DROP TABLE tenant;--"`, `"enc:0:AA=="`, `[]`, `{}`, `[null]`, `{"":{}}`,
	`{"a":1,"a":2}`, strings.Repeat("[", 500) + strings.Repeat("]", 500), strings.Repeat(`{"$not":`, 300) + `1` + strings.Repeat("}", 300),
	`"2026-13-01T00:00:00Z"`, `"9999-12-31T23:59:59Z"`, `"0001-01-01T00:00:00Z"`, `{"$regex":"(a+)+$"}`, `"*.*"`, `"300.1.1.1/33"`,
}

// ordinary are strings that are valid somewhere.
var ordinary = []string{
	"a", "acme", "crm", "github", "stripe", "none", "hmac", "payment.*", "push", "body.id", "header.x-id", "body.a.0.b", "192.0.2.0/24",
	"X-Signature", "sha256", "hex", "s3cr3t", "application/json", "task", "promise", "workflow", "build", "default", "read", "manage",
	"body.a > 1", "{id: id}", "function filter(event) { return true }", "function transform(event) { return event }", "jmespath", "active", "tenant",
}

func pick[T any](a *author, list []T) T { return list[a.IntN(len(list))] }

// chance returns true once in n calls on average.
func (a *author) chance(n int) bool { return a.IntN(n) == 0 }

// value returns JSON of a value that matches a schema, or a hostile one.
func (a *author) value(s *huma.Schema, depth int) string {
	if s != nil && s.Ref != "" {
		s = a.doc.Components.Schemas.SchemaFromRef(s.Ref)
	}
	switch {
	case a.chance(12) || depth > 6:
		return pick(a, hostile)
	case s == nil:
		return strconv.Quote(pick(a, ordinary))
	case len(s.OneOf) > 0:
		return a.value(pick(a, s.OneOf), depth)
	case len(s.Enum) > 0:
		raw, _ := json.Marshal(pick(a, s.Enum))
		return string(raw)
	}
	switch s.Type {
	case huma.TypeObject:
		return a.object(s, depth)
	case huma.TypeArray:
		var items []string
		for range a.IntN(4) {
			items = append(items, a.value(s.Items, depth+1))
		}
		return "[" + strings.Join(items, ",") + "]"
	case huma.TypeInteger, huma.TypeNumber:
		return pick(a, []string{"0", "1", "-1", "5", "100", "1000000", "2147483648", "9007199254740993", "1.5"})
	case huma.TypeBoolean:
		return pick(a, []string{"true", "false"})
	case huma.TypeString:
		return a.text(s)
	}
	return pick(a, []string{`1`, `"x"`, `{"body.a":{"$gt":1}}`, `{"type":"object"}`, `{"a":[1,2,{"b":null}]}`})
}

func (a *author) text(s *huma.Schema) string {
	switch s.Format {
	case "uuid":
		return strconv.Quote(pick(a, slices.Sorted(maps.Values(a.ids))))
	case "date-time":
		return pick(a, []string{`"2026-03-11T00:00:00Z"`, `"2030-01-01T00:00:00+02:00"`, `"1969-01-01T00:00:00Z"`})
	}
	return strconv.Quote(pick(a, ordinary))
}

func (a *author) object(s *huma.Schema, depth int) string {
	var members []string
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if wanted := slices.Contains(s.Required, name); wanted && !a.chance(10) || a.chance(4) {
			members = append(members, strconv.Quote(name)+":"+a.value(s.Properties[name], depth+1))
		}
	}
	if a.chance(10) || len(s.Properties) == 0 {
		members = append(members, strconv.Quote(pick(a, ordinary))+":"+a.value(nil, depth+1))
	}
	return "{" + strings.Join(members, ",") + "}"
}

// request returns a request for an operation.
func (a *author) request(op *huma.Operation) *http.Request {
	path, query := op.Path, url.Values{}
	body := ""
	if op.RequestBody != nil {
		body = a.body(op)
	}
	header := http.Header{"Authorization": {"Bearer " + adminKey}}
	for _, p := range op.Parameters {
		text := strings.Trim(a.value(p.Schema, 1), `"`)
		switch p.In {
		case "path":
			if !a.chance(8) {
				text = a.pathValue(op.Path, p.Name)
			}
			path = strings.ReplaceAll(path, "{"+p.Name+"}", url.PathEscape(text))
		case "query":
			if a.chance(3) {
				query.Add(p.Name, text)
			}
		case "header":
			if a.chance(3) {
				header.Set(p.Name, pick(a, []string{`"1"`, `"2"`, `*`, `W/"1"`, `1`, `"x"`, "\x7f"}))
			}
		}
	}
	if a.chance(15) {
		query.Add(pick(a, ordinary), "x")
	}
	r := httptest.NewRequest(op.Method, "/", strings.NewReader(body))
	r.URL = &url.URL{Path: mustUnescape(path), RawPath: path, RawQuery: query.Encode()}
	r.Header = header
	if body != "" {
		r.Header.Set("Content-Type", pick(a, []string{"application/json", "application/json", "application/json", "application/json; charset=utf-8", "text/plain", ""}))
	}
	return r
}

func mustUnescape(path string) string {
	plainSealer, err := url.PathUnescape(path)
	if err != nil {
		return path
	}
	return plainSealer
}

// pathValue returns a path parameter of a resource that exists.
func (a *author) pathValue(path, name string) string {
	switch name {
	case "tenant":
		return "acme"
	case "slug":
		return "crm"
	case "name":
		return "payment.succeeded"
	}
	before, _, _ := strings.Cut(path, "/{"+name+"}")
	return a.ids[before[strings.LastIndexByte(before, '/')+1:]]
}

// body returns a request body, sometimes one that is not JSON.
func (a *author) body(op *huma.Operation) string {
	var schema *huma.Schema
	for _, media := range op.RequestBody.Content {
		schema = media.Schema
	}
	text := a.value(schema, 0)
	switch a.IntN(30) {
	case 0:
		return text[:a.IntN(len(text)+1)]
	case 1:
		return "\xef\xbb\xbf" + text
	case 2:
		return text + text
	case 3:
		return strings.Repeat(" ", 1<<20) + text
	}
	return text
}

// checkResponse checks the response to any request.
func (a *author) checkResponse(t *testing.T, op *huma.Operation, got *answer) {
	t.Helper()
	if got.Code >= 500 {
		t.Errorf("answered %d %s", got.Code, got.Body)
		return
	}
	response := op.Responses[strconv.Itoa(got.Code)]
	if response == nil {
		t.Errorf("answered %d %.300s, a status that the document does not list", got.Code, got.Body)
		return
	}
	if got.Code >= 400 {
		p := got.problem()
		for _, f := range p.Errors {
			if f.Location == "" || f.Message == "" {
				t.Errorf("a fault without a location or a message: %s", got.Body)
			}
		}
		return
	}
	media := response.Content["application/json"]
	if media == nil || !strings.HasPrefix(got.Header().Get("Content-Type"), "application/json") {
		return
	}
	var value any
	got.into(&value)
	var found huma.ValidateResult
	huma.Validate(a.doc.Components.Schemas, media.Schema, huma.NewPathBuffer(nil, 0), huma.ModeReadFromServer, value, &found)
	for _, err := range found.Errors {
		t.Errorf("the response does not match the document: %v in %.500s", err, got.Body)
	}
}

// existingIDs returns ids of existing resources by the path segment before them.
func (r *fixture) existingIDs() map[string]string {
	r.Helper()
	_, key := r.key("acme", eventhook.ScopeRead)
	e := r.event()
	subscription, delivery := r.delivered()
	promise := r.admin("POST", T("acme")+"/promises", map[string]any{"idempotency_key": "p"}).object()
	return map[string]string{"keys": key.ID.String(), "events": e.ID.String(), "routes": r.route.ID.String(), "work": eventhook.NewID[eventhook.Execution](noon).String(),
		"promises": fmt.Sprint(promise["id"]), "subscriptions": subscription, "deliveries": delivery,
		"agents": fmt.Sprint(r.createAgent("berlin", "env:prod")["id"])}
}

// TestGeneratedRequestsAreNeverA500 sends valid and invalid requests generated from the
// OpenAPI document, and checks that each response is documented.
func TestGeneratedRequestsAreNeverA500(t *testing.T) {
	const each = 80
	doc := setUp(t)
	for i, op := range doc.operations() {
		t.Run(op.Method+" "+op.Path, func(t *testing.T) {
			r := setUp(t)
			close(r.stopping) // nothing waits
			ids := r.existingIDs()
			for n := range uint64(each) {
				a := &author{rand.New(rand.NewPCG(uint64(i), n)), r.openAPI, ids}
				request := a.request(op)
				t.Logf("%d: %s %s", n, request.Method, request.URL)
				a.checkResponse(t, op, r.subtest(t).do(request))
			}
		})
	}
}

// FuzzRequests does the same as a fuzz test.
func FuzzRequests(f *testing.F) {
	f.Add(uint(0), uint64(0))
	f.Fuzz(func(t *testing.T, which uint, seed uint64) {
		r := setUp(t)
		close(r.stopping)
		all := r.operations()
		op := all[which%uint(len(all))]
		a := &author{rand.New(rand.NewPCG(seed, 0)), r.openAPI, r.existingIDs()}
		request := a.request(op)
		t.Logf("%s %s", request.Method, request.URL)
		a.checkResponse(t, op, r.do(request))
	})
}
