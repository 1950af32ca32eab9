package console_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/console"
)

// documentedAPI answers each operation of the API's document with the example of the document, to a
// person with the scope that the document demands. An act that expects to change nothing is refused
// with the count 12. It records the operations that were called.
type documentedAPI struct {
	*http.ServeMux
	who   client.Identity
	mu    sync.Mutex
	calls []operation
}

// operation is an operation of the API's document. Scope is what a key needs; "admin" for the admin
// key only, "" for every key.
type operation struct{ Method, Path, Scope string }

// isChange reports whether the operation is for more than reading.
func (o operation) isChange() bool {
	return o.Scope != "" && o.Scope != "read" && o.Method != http.MethodGet
}

// documented is an operation in the document.
type documented struct {
	Security  []map[string][]string
	Responses map[string]struct {
		Content map[string]struct{ Example json.RawMessage }
	}
}

// nextCursor matches a cursor in an example: each list of the fixture ends with its first page.
var nextCursor = regexp.MustCompile(`"next_cursor": *"[^"]*"`)

// newDocumented returns a fixture whose API is that of the document, for a person.
func newDocumented(t *testing.T, who client.Identity) (*fixture, *documentedAPI) {
	t.Helper()
	a := &documentedAPI{ServeMux: http.NewServeMux(), who: who}
	text, err := os.ReadFile("../../docs/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths map[string]map[string]documented
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	for path, operations := range document.Paths {
		for method, described := range operations {
			o := operation{Method: strings.ToUpper(method), Path: path}
			if scopes := described.Security[0]["key"]; len(scopes) > 0 {
				o.Scope = scopes[0]
			}
			a.HandleFunc(o.Method+" "+path, func(w http.ResponseWriter, r *http.Request) { a.answer(w, r, o, described) })
		}
	}
	f := newFixtureOf(t, who)
	f.config.API = a
	f.console = console.New(f.config)
	return f, a
}

func (a *documentedAPI) answer(w http.ResponseWriter, r *http.Request, o operation, described documented) {
	if o.Path == "/api/identity" {
		_ = json.NewEncoder(w).Encode(a.who)
		return
	}
	a.mu.Lock()
	a.calls = append(a.calls, o)
	a.mu.Unlock()
	if problem := a.refuse(o, r.PathValue("tenant")); problem != nil {
		writeProblem(w, problem)
		return
	}
	if body, _ := io.ReadAll(r.Body); bytes.Contains(body, []byte(`"expected_count":0`)) {
		writeProblem(w, &client.Problem{Title: "Conflict", Status: http.StatusConflict,
			Errors: []client.Fault{{Location: "body.expected_count", Message: "is 0, but 12 match"}}})
		return
	}
	for _, status := range []int{http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNoContent} {
		response, ok := described.Responses[strconv.Itoa(status)]
		if !ok {
			continue
		}
		w.Header().Set("ETag", `"1"`)
		for contentType, content := range response.Content {
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(status)
			_, _ = w.Write(nextCursor.ReplaceAll(content.Example, []byte(`"next_cursor":null`)))
			return
		}
		w.WriteHeader(status)
		return
	}
}

// refuse returns why the person may not call an operation, as the API does.
func (a *documentedAPI) refuse(o operation, tenant string) *client.Problem {
	isAdminRead := a.who.Type == "admin_read"
	switch {
	case a.who.Type == "admin", isAdminRead && !o.isChange() && (o.Method == http.MethodGet || o.Scope == "read"):
		return nil
	case isAdminRead:
		return &client.Problem{Title: "Forbidden", Status: http.StatusForbidden,
			Detail: "The admin read key can change nothing."}
	case o.Scope == "admin":
		return &client.Problem{Title: "Forbidden", Status: http.StatusForbidden,
			Detail: "This operation requires the admin key."}
	case len(a.scopes(tenant)) == 0:
		return &client.Problem{Title: "Not Found", Status: http.StatusNotFound, Detail: "no such tenant"}
	case !slices.Contains(a.scopes(tenant), o.Scope):
		return &client.Problem{Title: "Forbidden", Status: http.StatusForbidden,
			Detail: "The API key lacks the scope " + o.Scope + "."}
	}
	return nil
}

// scopes returns the scopes of the person on a tenant.
func (a *documentedAPI) scopes(tenant string) []string {
	all := map[string][]string{}
	for _, t := range a.who.Tenants {
		all[t.Slug] = t.Scopes
	}
	if a.who.Tenant != nil {
		all[a.who.Tenant.Slug] = a.who.Scopes
	}
	return all[tenant]
}

// changes returns the operations for more than reading that were called since the last time.
func (a *documentedAPI) changes() []operation {
	a.mu.Lock()
	defer a.mu.Unlock()
	changes := slices.DeleteFunc(a.calls, func(o operation) bool { return !o.isChange() })
	a.calls = nil
	return changes
}
