package portalstories_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/browsertest/gatewaytest"
)

// path returns the path of a pattern with ids.
func (r resource) path(pattern string) string {
	_, path, _ := strings.Cut(pattern, "/")
	ids := strings.NewReplacer("{endpoint}", r.endpoint, "{delivery}", r.delivery, "{replay}", r.replay, "{$}", "")
	return ids.Replace("/" + path)
}

// withoutID lists the routes without an id in their path, which show nothing of others: a test of this package
// sends requests to each.
var withoutID = []string{
	"/portal/", "GET /portal", "GET /portal/{$}", "GET /portal/endpoints", "GET /portal/static/", "GET /portal/enter",
	"GET /portal/entered", "GET /portal/types", "GET /portal/endpoints/new", "POST /portal/endpoints/new",
	"POST /portal/theme", "POST /portal/leave",
}

// ownActs are the acts that concern the browser only.
var ownActs = []string{"POST /portal/theme", "POST /portal/leave"}

var methods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
	http.MethodDelete, http.MethodOptions}

// isRefused reports whether a response is a refusal that reveals nothing.
func (r reply) isRefused() bool {
	return (r.status == http.StatusNotFound || r.status == http.StatusMethodNotAllowed || r.status == http.StatusForbidden) &&
		!strings.Contains(r.body, secretName)
}

func TestNoURLReachesWhatIsOfOthers(t *testing.T) {
	t.Parallel()
	g := gatewaytest.Shared(t)
	a, other := newAccount(t, g, "limits"), newAccount(t, g, "limits-2")
	a.foreign["another tenant"] = other.own
	a.foreign["no id"] = resource{"1", "%2e%2e", "%2e%2e%2f"}
	v := newVisitor(t, g, a.PortalLink(globex, false))
	before, beforeOther := stateOf(t, a.Tenant), stateOf(t, other.Tenant)
	for _, pattern := range routes() {
		if !strings.Contains(pattern, "/{") || strings.HasSuffix(pattern, "/{$}") {
			continue
		}
		for name, of := range a.foreign {
			path := of.path(pattern)
			if strings.Contains(path, "{") {
				t.Errorf("no test checks the ids of the route %s", pattern)
			}
			for _, method := range methods {
				if got := v.do(method, path, form(v.csrf)); !got.isRefused() {
					t.Errorf("%s %s (%s) is answered %s", method, path, name, got)
				}
			}
		}
	}
	isUnchanged(t, a.Tenant, before)
	isUnchanged(t, other.Tenant, beforeOther)
}

func TestRoutesWithoutAnIDAreChecked(t *testing.T) {
	known := map[string]bool{}
	for _, pattern := range withoutID {
		known[pattern] = true
	}
	for _, pattern := range routes() {
		if !known[pattern] && (!strings.Contains(pattern, "/{") || strings.HasSuffix(pattern, "/{$}")) {
			t.Errorf("no test checks what the route %s shows", pattern)
		}
	}
}

func TestListsAndFormsAreOfTheCustomer(t *testing.T) {
	t.Parallel()
	g := gatewaytest.Shared(t)
	a := newAccount(t, g, "lists")
	hidden := a.foreign["another customer"]
	v := newVisitor(t, g, a.PortalLink(globex, false))
	before := stateOf(t, a.Tenant)
	all := gatewaytest.Must(a.Client.ListSubscriptions(t.Context(), a.Slug, client.ListSubscriptionsParams{Limit: new(int64(1))}))
	list := gatewaytest.Must(a.Client.ListSubscriptionDeliveries(t.Context(), a.Slug, a.foreign["no scope"].endpoint,
		client.ListSubscriptionDeliveriesParams{Limit: new(int64(1))}))
	own := "/portal/endpoints/" + a.own.endpoint
	for _, path := range []string{
		"/portal", "/portal?scope=initech", "/portal?tenant=limits", "/portal?scope=*",
		"/portal?cursor=" + url.QueryEscape(*all.NextCursor), own + "?cursor=" + url.QueryEscape(*list.NextCursor),
		own, own + "?subscription_id=" + hidden.endpoint, own + "?cursor=forged", own + "?status=nothing",
		own + "/replay?what=missing&since=" + hourAgo(), "/portal/types", "/portal/endpoints/new", "/portal/", "/portal/endpoints",
		own + "/../" + hidden.endpoint, "/portal/static/../endpoints/" + hidden.endpoint, "/portal//endpoints/" + hidden.endpoint,
		"/portal/endpoints/" + hidden.endpoint + "/../../deliveries/" + hidden.delivery,
	} {
		got := v.do(http.MethodGet, path, nil)
		for _, foreign := range a.foreign {
			if strings.Contains(got.body, secretName) || got.status == http.StatusOK && strings.Contains(got.body, foreign.delivery) {
				t.Errorf("GET %s shows what is of others: %s", path, got)
			}
		}
	}
	isUnchanged(t, a.Tenant, before)
	v.do(http.MethodPost, "/portal/endpoints/new", form(v.csrf))
	created := gatewaytest.Must(a.Client.ListSubscriptions(t.Context(), a.Slug, client.ListSubscriptionsParams{})).Items[0]
	if created.Name != "x" || len(created.ScopeFilter) != 1 || created.ScopeFilter[0] != globex {
		t.Errorf("the form created %s with the scope %v, want x with %s", created.Name, created.ScopeFilter, globex)
	}
}

func TestForgedFormsAreRefused(t *testing.T) {
	t.Parallel()
	g := gatewaytest.Shared(t)
	a := newAccount(t, g, "forged")
	v := newVisitor(t, g, a.PortalLink(globex, false))
	same, other := newVisitor(t, g, a.PortalLink(globex, false)), newVisitor(t, g, a.PortalLink("initech", false))
	before := stateOf(t, a.Tenant)
	for _, pattern := range routes() {
		path := a.own.path(pattern)
		forged := map[string]reply{
			"without a token":                     v.do(http.MethodPost, path, form("")),
			"with an invented token":              v.do(http.MethodPost, path, form("forged")),
			"with the token of another session":   v.do(http.MethodPost, path, form(same.csrf)),
			"with the token of another customer":  v.do(http.MethodPost, path, form(other.csrf)),
			"from another site":                   v.do(http.MethodPost, path, form(v.csrf), "Sec-Fetch-Site", "cross-site"),
			"from another origin":                 v.do(http.MethodPost, path, form(v.csrf), "Origin", "https://evil.example"),
			"from a sandboxed frame":              v.do(http.MethodPost, path, form(v.csrf), "Origin", "null"),
			"with the token in the address":       v.do(http.MethodPost, path+"?csrf="+url.QueryEscape(v.csrf), url.Values{}),
			"as text":                             v.do(http.MethodPost, path, form(v.csrf), "Content-Type", "text/plain"),
			"as PUT, from another site":           v.do(http.MethodPut, path, form(v.csrf), "Sec-Fetch-Site", "cross-site"),
			"as DELETE, without a token":          v.do(http.MethodDelete, path, nil),
			"without a token, named like another": v.do(http.MethodPost, path, form(""), "X-Http-Method-Override", http.MethodDelete),
		}
		for how, got := range forged {
			if !got.isRefused() {
				t.Errorf("%s, sent %s, is answered %s", path, how, got)
			}
		}
		for _, method := range []string{http.MethodPut, http.MethodPatch, http.MethodDelete} {
			if got := v.do(method, path, form(v.csrf)); !got.isRefused() {
				t.Errorf("%s %s is answered %s", method, path, got)
			}
		}
	}
	if got := v.do(http.MethodGet, "/portal", nil); got.status != http.StatusOK {
		t.Errorf("the session has ended: %s", got)
	}
	isUnchanged(t, a.Tenant, before)
}

func TestSessionOpensThePortalOnly(t *testing.T) {
	t.Parallel()
	g := gatewaytest.Shared(t)
	a := newAccount(t, g, "doors")
	link := a.PortalLink(globex, false)
	v := newVisitor(t, g, link)
	_, code, _ := strings.Cut(link, "code=")
	before := stateOf(t, a.Tenant)
	stranger := &visitor{t: t, url: g.URL, http: &http.Client{CheckRedirect: followSame}}
	doors := append(operations(stranger, a.Tenant), "GET /console", "GET /console/t/doors",
		"GET /console/t/doors/subscriptions/"+a.own.endpoint, "POST /console/sign-out")
	if len(doors) < 100 {
		t.Fatalf("the document names %d operations, want more than 100", len(doors))
	}
	for _, door := range doors {
		method, path, _ := strings.Cut(door, " ")
		for _, cookie := range []string{"eventhook_portal", "eventhook_console"} {
			got := stranger.do(method, path, form(v.csrf), "Cookie", cookie+"="+v.cookie())
			isSignIn := got.status == http.StatusSeeOther && strings.HasPrefix(got.location, "/console/sign-in")
			if got.status != http.StatusUnauthorized && !isSignIn || strings.Contains(got.body, "Own") {
				t.Errorf("%s with the session as %s is answered %s", door, cookie, got)
			}
		}
	}
	for name, key := range map[string]string{"token": v.cookie(), "code of the link": code, "token of the forms": v.csrf} {
		got := stranger.do(http.MethodGet, "/api/tenants/doors/eventhook/subscriptions", nil, "Authorization", "Bearer "+key)
		if got.status != http.StatusUnauthorized {
			t.Errorf("the %s as a key is answered %s", name, got)
		}
	}
	isUnchanged(t, a.Tenant, before)
}
