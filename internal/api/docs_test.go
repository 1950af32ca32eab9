package api_test

import (
	"encoding/json"
	"html"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDocumentDescribesEveryRoute(t *testing.T) {
	r := setUp(t)
	a := r.call("", "GET", "/openapi.json", nil).want(http.StatusOK)
	if got := a.Header().Get("Content-Type"); got != "application/openapi+json" {
		t.Errorf("the content type is %q", got)
	}
	var doc struct {
		OpenAPI    string
		Info       struct{ Title, Version string }
		Paths      map[string]map[string]any
		Components struct {
			SecuritySchemes map[string]struct{ Type, Scheme string } `json:"securitySchemes"`
		}
	}
	a.into(&doc)
	if !strings.HasPrefix(doc.OpenAPI, "3.1.") || doc.Info.Title != "Eventhook" || doc.Info.Version != "test" || doc.Components.SecuritySchemes["key"].Scheme != "bearer" {
		t.Errorf("got %+v, want OpenAPI 3.1 of this version with bearer keys", doc)
	}
	var described, routed []string
	for path, methods := range doc.Paths {
		for method := range methods {
			described = append(described, strings.ToUpper(method)+" "+path)
		}
	}
	for _, route := range r.router.Routes() {
		if route.Path != "/openapi.json" && route.Path != "/docs" {
			routed = append(routed, route.Method+" "+regexp.MustCompile(`:(\w+)`).ReplaceAllString(route.Path, "{$1}"))
		}
	}
	slices.Sort(described)
	slices.Sort(routed)
	if diff := cmp.Diff(routed, described); diff != "" {
		t.Errorf("described (-routed +described):\n%s", diff)
	}
}

func TestDocumentFollowsTheContract(t *testing.T) {
	r := setUp(t)
	seen := map[string]bool{}
	for _, op := range r.operations() {
		if seen[op.OperationID] || !regexp.MustCompile(`^[a-z-]+$`).MatchString(op.OperationID) {
			t.Errorf("%s %s has the id %q, want a unique id of lower-case letters and hyphens", op.Method, op.Path, op.OperationID)
		}
		seen[op.OperationID] = true
		if op.Summary == "" || len(op.Tags) != 1 || len(op.Security) != 1 {
			t.Errorf("%s %s: want a summary, a tag and the required key", op.Method, op.Path)
		}
		failures := []string{"400", "401", "403", "404", "422", "500"}
		if op.Method == http.MethodPost {
			failures = append(failures, "409", "413")
		}
		for _, status := range failures {
			response := op.Responses[status]
			if response == nil || len(response.Content) != 1 || response.Content["application/problem+json"] == nil ||
				response.Content["application/problem+json"].Schema.Ref != "#/components/schemas/Problem" {
				t.Errorf("%s %s: %s is not described as a problem", op.Method, op.Path, status)
			}
		}
	}
	schema := r.openAPI.Components.Schemas.Map()["Problem"]
	raw, err := json.Marshal(schema)
	r.must(err)
	var got struct {
		Properties map[string]struct {
			Items struct {
				Ref string `json:"$ref"`
			}
		}
		Required []string
	}
	r.must(json.Unmarshal(raw, &got))
	var names []string
	for name := range got.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"detail", "errors", "request_id", "status", "title"}, names); diff != "" {
		t.Errorf("a problem's members (-want +got):\n%s", diff)
	}
	fault := r.openAPI.Components.Schemas.SchemaFromRef(got.Properties["errors"].Items.Ref)
	if fault == nil || fault.Properties["location"] == nil || fault.Properties["message"] == nil || len(fault.Properties) != 2 {
		t.Errorf("a fault is described as %+v, want location and message", fault)
	}
}

func TestPageLoadsNothing(t *testing.T) {
	r := setUp(t)
	a := r.call("", "GET", "/docs", nil).want(http.StatusOK)
	page := a.Body.String()
	if got := a.Header().Get("Content-Type"); !strings.HasPrefix(got, "text/html") {
		t.Errorf("the content type is %q", got)
	}
	if got := a.Header().Get("Content-Security-Policy"); !strings.HasPrefix(got, "default-src 'none'") {
		t.Errorf("the policy is %q, want one that allows nothing by default", got)
	}
	markup, _, _ := strings.Cut(page, "<script>")
	if found := regexp.MustCompile(`(?i)<img|<link|<iframe|@import|url\(|\ssrc=|href="(https?:)?//`).FindAllString(markup, -1); found != nil {
		t.Errorf("the page contains %v, want no external resource", found)
	}
	for _, op := range r.operations() {
		if !strings.Contains(page, html.EscapeString(op.Path)) || !strings.Contains(page, html.EscapeString(op.Summary)) {
			t.Errorf("%s %s is not on the page", op.Method, op.Path)
		}
	}
	for _, member := range []string{"lease_token", "workflow_execution_id", "wait_seconds", "next_cursor"} {
		if !strings.Contains(page, member) {
			t.Errorf("%s is not on the page", member)
		}
	}
}

func TestConcurrentReadsOfDocuments(t *testing.T) {
	r := setUp(t)
	var readers sync.WaitGroup
	for range 4 {
		for _, path := range []string{"/openapi.json", "/docs"} {
			readers.Go(func() { r.call("", "GET", path, nil) })
		}
	}
	readers.Wait()
}
