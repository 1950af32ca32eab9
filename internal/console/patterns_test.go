package console_test

import (
	"cmp"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/html"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/console"
)

// keyOf returns the identity of a key of a tenant.
func keyOf(tenant string, scopes ...string) client.Identity {
	return client.Identity{Type: "tenant", Name: "ci", Scopes: scopes,
		Tenant: &client.IdentityTenant{Slug: tenant, Name: tenant, Status: "active"}}
}

// personOf returns a person with scopes for tenants.
func personOf(tenants ...client.TenantScopes) client.Identity {
	return client.Identity{Type: "session", Name: "ada", Tenants: tenants}
}

// holderOf returns a person with one permission, and the scope to read.
func holderOf(needs string) client.Identity {
	if needs == "admin" {
		return adminOf
	}
	return keyOf("acme", "read", needs)
}

const someID = "0195d3a4-6000-7e54-8d72-6fa08192a3b4"

// values are the values of the wildcards of patterns.
var values = strings.NewReplacer("{tenant}", "acme", "{slug}", "github", "{id}", someID, "{replay}", someID,
	"{name}", "payment.succeeded")

// queries are the queries of pages whose form needs one.
var queries = map[string]string{"GET /console/t/{tenant}/sources/new": "?provider=github"}

// addressOf returns the method and an address of a pattern.
func addressOf(pattern string) (method, target string) {
	method, path, _ := strings.Cut(pattern, " ")
	return method, values.Replace(path) + queries[pattern]
}

// eachPattern runs a test for each page and act. isFor chooses them by what they need.
func eachPattern(t *testing.T, isFor func(pattern, needs string) bool,
	check func(t *testing.T, pattern, needs string)) {
	t.Helper()
	needs := console.Needs()
	for _, pattern := range slices.Sorted(maps.Keys(needs)) {
		if isFor(pattern, needs[pattern]) {
			t.Run(pattern, func(t *testing.T) { check(t, pattern, needs[pattern]) })
		}
	}
}

func isEach(string, string) bool { return true }

func isAct(pattern, _ string) bool { return strings.HasPrefix(pattern, http.MethodPost) }

func isOfTenant(pattern, _ string) bool { return strings.Contains(pattern, "{tenant}") }

// isForm is true for pages that need a permission.
func isForm(pattern, needs string) bool { return !isAct(pattern, needs) && needs != "" }

// open opens a page, or sends the form of an act, with a token.
func (f *fixture) open(pattern string) reply {
	f.Helper()
	method, target := addressOf(pattern)
	if method == http.MethodPost {
		return f.post(target, nil)
	}
	return f.get(target)
}

// element is an element of a page: its name and its attributes.
type element struct {
	name       string
	attributes map[string]string
}

// elements returns all elements of a page.
func (r reply) elements() (all []element) {
	r.Helper()
	document, err := html.Parse(strings.NewReader(r.body))
	if err != nil {
		r.Fatal(err)
	}
	for n := range document.Descendants() {
		e := element{n.Data, map[string]string{}}
		for _, a := range n.Attr {
			e.attributes[a.Key] = a.Val
		}
		all = append(all, e)
	}
	return all
}

// acts returns the addresses to which a page posts, besides the sign-out.
func (r reply) acts(page string) (acts []string) {
	r.Helper()
	for _, e := range r.elements() {
		action, isPosted := e.attributes["action"], strings.EqualFold(e.attributes["method"], http.MethodPost)
		for _, name := range []string{"formaction", "hx-post", "hx-put", "hx-patch", "hx-delete"} {
			if to, ok := e.attributes[name]; ok {
				action, isPosted = to, true
			}
		}
		if isPosted && action != "/console/sign-out" {
			acts = append(acts, cmp.Or(action, page))
		}
	}
	return acts
}

// forms returns the links of a page that lead to a page with a need.
func (r reply) forms() (forms []string) {
	r.Helper()
	for _, e := range r.elements() {
		to, isLink := e.attributes["href"]
		if at, err := url.Parse(to); isLink && err == nil && at.Path != "" && needOf(http.MethodGet, at.Path) != "" {
			forms = append(forms, to)
		}
	}
	return forms
}

// router finds the pattern of an address.
var router = sync.OnceValue(func() *http.ServeMux {
	mux := http.NewServeMux()
	for pattern := range console.Needs() {
		mux.Handle(pattern, http.NotFoundHandler())
	}
	return mux
})

// needOf returns what a page or an act needs; "" for other addresses, too.
func needOf(method, target string) string {
	_, pattern := router().Handler(httptest.NewRequest(method, target, nil))
	return console.Needs()[pattern]
}

// sent are the values of the acts that call the API only with some. Other acts are sent empty.
var sent = map[string]url.Values{
	"POST /console/t/{tenant}/deliveries/chosen":           {"selected": {someID}},
	"POST /console/t/{tenant}/events/{id}/retry-delivery":  {"delivery": {someID}},
	"POST /console/t/{tenant}/events/{id}/retry-execution": {"execution": {someID}},
	"POST /console/t/{tenant}/events/{id}/send":            {"subscription": {someID}},
	"POST /console/t/{tenant}/new-type":                    {"name": {"payment.succeeded"}},
	"POST /console/t/{tenant}/sources/new":                 {"provider": {"github"}},
	"POST /console/t/{tenant}/sources/{slug}/routes/form":  {"backtest": {"true"}},
	"POST /console/t/{tenant}/sources/{slug}/routes/{id}":  {"confirm": {"true"}},
	"POST /console/t/{tenant}/subscriptions/bulk":          {"act": {"pause"}},
	"POST /console/t/{tenant}/subscriptions/chosen":        {"act": {"pause"}, "selected": {someID}},
	"POST /console/t/{tenant}/subscriptions/{id}/replay":   {"since": {"2026-01-31T13:00:00Z"}},
	"POST /console/t/{tenant}/subscriptions/{id}/status":   {"act": {"pause"}},
	"POST /console/t/{tenant}/types/{name}/publish":        {"data": {"{}"}},
	"POST /console/tenants/{tenant}/close":                 {"slug": {"acme"}},
	"POST /console/tenants/{tenant}/purge":                 {"slug": {"acme"}},
}
