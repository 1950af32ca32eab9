package api_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

// oddJSON returns JSON values that often break parsers, databases and encoders.
func oddJSON() []string {
	return []string{
		`null`, `true`, `0`, `-1`, `-0`, `1.5`, `1e400`, `1e-400`, `9223372036854775807`, `9223372036854775808`, `-9223372036854775809`,
		strings.Repeat("9", 5000), `""`, `"\u0000"`, `"a\u0000b"`, `"\ud800"`, `"\udc00\ud800"`, "\"\xff\xfe\"", "\"\xed\xa0\x80\"", `"\uffff"`, `"💥"`,
		`"` + strings.Repeat("x", 70_000) + `"`, `"2026-01-01T00:00:00Z"`, `"0000-01-01T00:00:00Z"`, `"9999-12-31T23:59:59-23:59"`, `"17"`,
		`"00000000-0000-0000-0000-000000000000"`, `"ffffffff-ffff-ffff-ffff-ffffffffffff"`, `"%s%n"`, `"'; DROP TABLE tenant; --"`,
		`[]`, `[null]`, `["\u0000"]`, "[\"\xff\"]", `[[]]`, `[1]`, `{}`, `{"":null}`, `{"\u0000":"\u0000"}`, `{"a":1,"a":2}`, "{\"\xff\":1}",
		nested(900), nested(9_000), nested(200_000), `{"a":` + nested(9_990) + `}`,
	}
}

func nested(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }

func oddText() []string {
	return []string{"", "\x00", "a\x00b", "\xff", "\xed\xa0\x80", "0", "-1", "1e9", "99999999999999999999", "null", "'", "%", "💥", "..", "/",
		"00000000-0000-0000-0000-000000000000", "urn:uuid:00000000-0000-0000-0000-000000000000", "0001-01-01T00:00:00Z", "1960-01-01T00:00:00Z",
		"9999-12-31T23:59:59-23:59", "2026-01-01", "AAAAAAAAAAAAAAAAAAAAAA", "_____________________w", strings.Repeat("x", 3000)}
}

// TestOddValuesCauseNoInternalError sends every operation each odd value in each
// parameter and member, and then random combinations. Internal errors fail the test.
func TestOddValuesCauseNoInternalError(t *testing.T) {
	r := setUp(t)
	close(r.stopping) // streams end at once
	id := r.execution(eventhook.Workflow, "pay")
	for _, op := range r.operations() {
		t.Run(op.Method+" "+op.Path, func(t *testing.T) {
			r := r.subtest(t)
			g := &generator{fixture: r, op: op, id: id, random: rand.New(rand.NewPCG(1, 2))}
			g.varyEachPlace(t)
			for range 40 {
				g.send(t, g.pick(oddText()), g.mixedQuery(), g.mixedBody())
			}
		})
	}
	if got := r.list(T("acme") + "/events?limit=250").withoutSystemEvents(); len(got) != 1 {
		t.Errorf("the API lists %d events at the end, want one", len(got))
	}
}

type generator struct {
	fixture *fixture
	op      *huma.Operation
	id      string
	random  *rand.Rand
}

func (g *generator) pick(from []string) string { return from[g.random.IntN(len(from))] }

// send sends a request with the id in the path. On admin operations it sometimes
// uses an odd slug of the tenant.
func (g *generator) send(t *testing.T, id, query, body string) {
	t.Helper()
	tenant := "acme"
	if scopeOf(t, g.op) == "" && g.random.IntN(3) == 0 {
		tenant = url.PathEscape(g.pick(oddText()))
	}
	if (g.op.OperationID == "close-tenant" || g.op.OperationID == "purge-tenant") && tenant == "acme" {
		tenant = "umbrella" // later operations need acme
	}
	path := strings.NewReplacer("{tenant}", tenant, "{id}", url.PathEscape(id), "{slug}", url.PathEscape(id), "{name}", url.PathEscape(id)).Replace(g.op.Path)
	req := httptest.NewRequestWithContext(t.Context(), g.op.Method, "http://x/", strings.NewReader(body))
	u, err := url.Parse("http://x" + path)
	if err != nil {
		return // cannot be sent
	}
	u.RawQuery = query
	req.URL = u
	req.Header.Set("Authorization", "Bearer "+adminKey)
	req.Header.Set("Content-Type", "application/json")
	a := g.fixture.do(req)
	if a.Code >= http.StatusInternalServerError || a.Code < http.StatusOK || a.Code >= http.StatusMultipleChoices && a.Code < http.StatusBadRequest {
		t.Errorf("%.200s?%.200s with %.200q: answered %d %.300s", path, query, body, a.Code, a.Body)
	}
	if len(a.Body.Bytes()) > 0 && !json.Valid(a.Body.Bytes()) && a.Header().Get("Content-Type") != "text/event-stream" {
		t.Errorf("%.200s?%.200s with %.200q: answered %.300q, want JSON", path, query, body, a.Body)
	}
}

// varyEachPlace varies one place of the request at a time; all other places are
// valid.
func (g *generator) varyEachPlace(t *testing.T) {
	t.Helper()
	for _, text := range oddText() {
		if strings.Contains(g.op.Path, "{id}") || strings.Contains(g.op.Path, "{slug}") || strings.Contains(g.op.Path, "{name}") {
			g.send(t, text, "", g.object("", ""))
		}
		for _, p := range g.op.Parameters {
			if p.In == "query" {
				g.send(t, g.id, url.Values{p.Name: {text}}.Encode(), "")
			}
		}
	}
	if g.op.RequestBody == nil {
		return
	}
	for _, odd := range oddJSON() {
		g.send(t, g.id, "", odd)
		for name := range g.schema().Properties {
			g.send(t, g.id, "", g.object(name, odd))
		}
	}
}

func (g *generator) schema() *huma.Schema {
	s := g.op.RequestBody.Content["application/json"].Schema
	if s.Ref != "" {
		s = g.fixture.openAPI.Components.Schemas.SchemaFromRef(s.Ref)
	}
	return s
}

// object returns a body that is valid except for one member.
func (g *generator) object(odd, value string) string {
	if g.op.RequestBody == nil {
		return ""
	}
	s := g.schema()
	members := map[string]json.RawMessage{}
	for _, name := range s.Required {
		members[name] = g.valid(name, s.Properties[name])
	}
	var b strings.Builder
	for name, v := range members {
		if name != odd {
			fmt.Fprintf(&b, ",%q:%s", name, v)
		}
	}
	if odd != "" {
		fmt.Fprintf(&b, ",%q:%s", odd, value)
	}
	return "{" + strings.TrimPrefix(b.String(), ",") + "}"
}

func (g *generator) valid(name string, s *huma.Schema) json.RawMessage {
	switch {
	case name == "slug":
		return fmt.Appendf(nil, `"s%d"`, g.random.Uint32())
	case name == "scopes":
		return json.RawMessage(`["read"]`)
	case s.Type == "array":
		return fmt.Appendf(nil, `[%q]`, g.id)
	case s.Type == "integer":
		return json.RawMessage(`1`)
	case s.Type == "string":
		return json.RawMessage(`"k"`)
	}
	return json.RawMessage(`{}`)
}

func (g *generator) mixedQuery() string {
	q := url.Values{}
	for _, p := range g.op.Parameters {
		if p.In == "query" && p.Name != "wait_seconds" && g.random.IntN(2) == 0 {
			q.Add(p.Name, g.pick(oddText()))
		}
	}
	return q.Encode()
}

func (g *generator) mixedBody() string {
	if g.op.RequestBody == nil {
		return g.pick([]string{"", "", `{}`, "\x00"})
	}
	var b strings.Builder
	for name := range g.schema().Properties {
		if name != "wait_seconds" && g.random.IntN(3) > 0 {
			fmt.Fprintf(&b, ",%q:%s", name, g.pick(oddJSON()))
		}
	}
	return "{" + strings.TrimPrefix(b.String(), ",") + "}"
}
