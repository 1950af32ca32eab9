package consolepages_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/browsertest"
	"github.com/eventhook/eventhook/internal/browsertest/gatewaytest"
	"github.com/eventhook/eventhook/internal/console"
)

// visit opens every page of a scene and calls check for each. It fails the test if a page of the
// console is not among them.
func visit(t *testing.T, s *scene, check func(t *testing.T, p *browsertest.Page, page shown)) {
	t.Helper()
	admin := s.gateway.SignIn(t, gatewaytest.AdminKey, "/console")
	admin.Allow("/events/" + missing) // is answered 404
	v := newVisits()
	for _, page := range s.pages() {
		t.Run(page.name, func(t *testing.T) {
			p := s.browser(t, admin, page)
			s.open(t, p, page)
			check(t, p, page)
			v.add(p, page)
		})
	}
	t.Run("none-is-missing", func(t *testing.T) { v.check(t) })
}

// visits are the patterns and the templates of the pages that were checked.
type visits struct {
	mux      *http.ServeMux
	patterns map[string]string // all, with their templates
	seen     map[string]bool
}

func newVisits() *visits {
	v := &visits{mux: http.NewServeMux(), patterns: console.Patterns(), seen: map[string]bool{}}
	for pattern := range v.patterns {
		v.mux.HandleFunc(pattern, func(http.ResponseWriter, *http.Request) {})
	}
	return v
}

// add adds the document that a browser shows.
func (v *visits) add(p *browsertest.Page, page shown) {
	requests := slices.DeleteFunc(p.Requests(), func(r browsertest.Request) bool { return r.Type != "Document" })
	last := requests[len(requests)-1]
	_, pattern := v.mux.Handler(httptest.NewRequest(last.Method, last.URL, nil))
	template := v.patterns[pattern]
	if page.template != "" {
		template = page.template
	} else {
		v.seen[pattern] = true
	}
	v.seen[template] = true
}

// notVisited are templates of pages that need a provider of OpenID Connect, or leave at once.
var notVisited = []string{"choose", "continue"}

// check fails the test for each page that was not checked. An act counts as its template, which other
// acts may show, too.
func (v *visits) check(t *testing.T) {
	t.Helper()
	for pattern, template := range v.patterns {
		isPage := strings.HasPrefix(pattern, http.MethodGet) && template != "" && !slices.Contains(notVisited, template)
		if isPage && !v.seen[pattern] {
			t.Errorf("no page of the scene has the pattern %s", pattern)
		}
	}
	for _, template := range console.Templates() {
		if !v.seen[template] && !slices.Contains(notVisited, template) {
			t.Errorf("no page of the scene shows the template %s", template)
		}
	}
}
