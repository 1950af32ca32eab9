package api

import (
	"bytes"
	"encoding/json"
	"html"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// summaryVerbs are the verbs with which a summary may begin: those that users search
// for. Add a verb here only if none of these fits.
var summaryVerbs = []string{"Apply", "Cancel", "Claim", "Close", "Complete", "Create", "Delete", "Disable", "Enable", "Explain", "Export", "Extend", "Fail", "Get", "List", "Pause",
	"Publish", "Reject", "Reorder", "Replay", "Report", "Reprocess", "Reset", "Resolve", "Resume", "Retry", "Reveal", "Rotate", "Search", "Send", "Start", "Stream", "Suspend", "Test", "Update"}

func TestSummariesBeginWithAVerb(t *testing.T) {
	for op := range operationsOf(Document("test")) {
		verb, _, _ := strings.Cut(op.Summary, " ")
		if !slices.Contains(summaryVerbs, verb) {
			t.Errorf("%s: the summary is %q, want one that begins with one of %q", op.OperationID, op.Summary, summaryVerbs)
		}
		if strings.HasSuffix(op.Summary, ".") {
			t.Errorf("%s: the summary %q ends with a full stop", op.OperationID, op.Summary)
		}
	}
}

func TestEveryParameterIsDescribed(t *testing.T) {
	for op := range operationsOf(Document("test")) {
		for _, p := range op.Parameters {
			if p.Description == "" {
				t.Errorf("%s: the parameter %s has no description", op.OperationID, p.Name)
			}
		}
	}
}

// schemas compiles the schemas of a document, by the path to a media type.
type schemas struct {
	*testing.T
	compiler *jsonschema.Compiler
}

func newSchemas(t *testing.T, doc *huma.OpenAPI) *schemas {
	t.Helper()
	raw, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	s := &schemas{t, jsonschema.NewCompiler()}
	s.compiler.AssertFormat()
	if err := s.compiler.AddResource("openapi.json", parsed); err != nil {
		t.Fatal(err)
	}
	return s
}

// check validates the examples of a media type against its schema.
func (s *schemas) check(what string, media *huma.MediaType, steps ...string) {
	s.Helper()
	values := []any{media.Example}
	for _, x := range media.Examples {
		values = append(values, x.Value)
	}
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	at := "openapi.json#"
	for _, step := range append(steps, "schema") {
		at += "/" + escape.Replace(step)
	}
	schema, err := s.compiler.Compile(at)
	if err != nil {
		s.Fatal(err)
	}
	checked := 0
	for _, value := range values {
		if value == nil {
			continue
		}
		raw, err := json.Marshal(value)
		if err != nil {
			s.Errorf("%s: the example is not JSON: %v", what, err)
			continue
		}
		parsed, _ := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if err := schema.Validate(parsed); err != nil {
			s.Errorf("%s: the example %s does not match the schema: %v", what, raw, err)
		}
		checked++
	}
	if checked == 0 {
		s.Errorf("%s: has no example", what)
	}
}

func TestExamplesMatchTheSchemas(t *testing.T) {
	doc := Document("test")
	s := newSchemas(t, doc)
	for op := range operationsOf(doc) {
		at := []string{"paths", op.Path, strings.ToLower(op.Method)}
		if op.RequestBody != nil {
			for contentType, media := range op.RequestBody.Content {
				s.check(op.OperationID+" "+contentType, media, append(slices.Clone(at), "requestBody", "content", contentType)...)
			}
		}
		for status, response := range op.Responses {
			for contentType, media := range response.Content {
				if contentType == problemType {
					if ref := media.Examples["problem"].Ref; doc.Components.Examples[strings.TrimPrefix(ref, "#/components/examples/")] == nil {
						t.Errorf("%s %s: the example %q does not exist", op.OperationID, status, ref)
					}
					continue
				}
				s.check(op.OperationID+" "+status+" "+contentType, media, append(slices.Clone(at), "responses", status, "content", contentType)...)
			}
		}
	}
	for name, x := range doc.Components.Examples {
		problems := &huma.MediaType{Example: x.Value}
		s.check(name, problems, "paths", "/api/admin/tenants", "get", "responses", "404", "content", problemType)
	}
}

func TestExamplesBelongToOperations(t *testing.T) {
	all := examples()
	for op := range operationsOf(Document("test")) {
		if _, ok := all[op.OperationID]; !ok {
			t.Errorf("%s has no example", op.OperationID)
		}
		delete(all, op.OperationID)
	}
	if len(all) > 0 {
		t.Errorf("got examples of %q, want none of operations that do not exist", slices.Sorted(maps.Keys(all)))
	}
}

// docsOf serves the page and returns it with its policy.
func docsOf(t *testing.T) (page, policy string) {
	t.Helper()
	router := echo.New()
	Register(router, Deps{Version: "test", Keys: noKeys{}, PublicURL: "https://hooks.example/"})
	w := httptest.NewRecorder()
	router.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/docs", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("got %d, want 200", w.Code)
	}
	return w.Body.String(), w.Header().Get("Content-Security-Policy")
}

func TestPolicyAllowsTheScriptAndTheStyleOfThePage(t *testing.T) {
	page, policy := docsOf(t)
	for element, directive := range map[string]string{"script": "script-src", "style": "style-src"} {
		found := regexp.MustCompile(`(?s)<`+element+`>(.*?)</`+element+`>`).FindAllStringSubmatch(page, -1)
		if len(found) != 1 {
			t.Fatalf("the page has %d %s elements, want 1", len(found), element)
		}
		if want := directive + " '" + cspHash(found[0][1]) + "'"; !strings.Contains(policy, want) {
			t.Errorf("the policy %q lacks %q", policy, want)
		}
	}
	if strings.Contains(policy, "unsafe") {
		t.Errorf("the policy is %q, want no unsafe source", policy)
	}
	if found := regexp.MustCompile(`(?i) style=| on\w+=`).FindAllString(page, -1); found != nil {
		t.Errorf("the page has the inline attributes %q, which the policy blocks", found)
	}
}

func TestPageHasACurlCommandForEveryOperation(t *testing.T) {
	page, _ := docsOf(t)
	commands := map[string]string{} // by operation id
	for _, found := range regexp.MustCompile(`(?s)<article id="([^"]+)">.*?<code class="curl">(.*?)</code>`).FindAllStringSubmatch(page, -1) {
		commands[found[1]] = html.UnescapeString(found[2])
	}
	body := regexp.MustCompile(`(?s)-d '([^']*)'$`)
	all, doc := examples(), Document("test")
	s := newSchemas(t, doc)
	for op := range operationsOf(doc) {
		command := commands[op.OperationID]
		if !strings.Contains(command, `-H "Authorization: Bearer $KEY"`) || !strings.Contains(command, "'https://hooks.example/api/") || strings.Contains(command, "{tenant}") {
			t.Errorf("%s: got the command %q, want one with a URL and a key", op.OperationID, command)
		}
		if all[op.OperationID].request == "" {
			continue
		}
		sent := body.FindStringSubmatch(command)
		if sent == nil {
			t.Errorf("%s: the command %q has no body in single quotes", op.OperationID, command)
			continue
		}
		s.check("curl for "+op.OperationID, &huma.MediaType{Example: json.RawMessage(sent[1])},
			"paths", op.Path, strings.ToLower(op.Method), "requestBody", "content", "application/json")
	}
}
