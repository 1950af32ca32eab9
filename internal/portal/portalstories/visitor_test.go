package portalstories_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/browsertest/gatewaytest"
)

// visitor is a program with the session of a customer. It sends requests that no browser would send.
type visitor struct {
	t    *testing.T
	http *http.Client
	url  string // of the gateway
	csrf string // token of the session
}

// newVisitor opens a link.
func newVisitor(t *testing.T, g *gatewaytest.Gateway, link string) *visitor {
	t.Helper()
	v := &visitor{t: t, url: g.URL, http: &http.Client{Jar: gatewaytest.Must(cookiejar.New(nil))}}
	page := v.do(http.MethodGet, strings.TrimPrefix(link, g.URL), nil)
	_, after, _ := strings.Cut(page.body, `data-csrf="`)
	if v.csrf, _, _ = strings.Cut(after, `"`); v.csrf == "" {
		t.Fatalf("the link was answered %d: %s", page.status, page.body)
	}
	v.http.CheckRedirect = followSame
	return v
}

// followSame follows a redirect that repeats the request at another path of the gateway, and no other.
func followSame(r *http.Request, _ []*http.Request) error {
	if r.Response.StatusCode == http.StatusTemporaryRedirect {
		return nil
	}
	return http.ErrUseLastResponse
}

// reply is a response.
type reply struct {
	status   int
	body     string
	location string
}

// do sends a request with a form, if there is one, and headers as pairs of name and value.
func (v *visitor) do(method, path string, form url.Values, headers ...string) reply {
	v.t.Helper()
	r := gatewaytest.Must(http.NewRequestWithContext(v.t.Context(), method, v.url+path, strings.NewReader(form.Encode())))
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := v.http.Do(r)
	if err != nil {
		v.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = answer.Body.Close() }()
	return reply{answer.StatusCode, string(gatewaytest.Must(io.ReadAll(answer.Body))), answer.Header.Get("Location")}
}

// form returns a form that every act accepts, with a CSRF token.
func form(csrf string) url.Values {
	return url.Values{"csrf": {csrf}, "name": {"x"}, "url": {"http://127.0.0.1:1/"}, "event_types": {"invoice.paid"},
		"version": {"1"}, "since": {hourAgo()}, "what": {"missing"}, "scope_filter": {"initech"}}
}

// cookie returns the value of the visitor's session cookie.
func (v *visitor) cookie() string {
	v.t.Helper()
	for _, c := range v.http.Jar.Cookies(gatewaytest.Must(url.Parse(v.url + "/portal"))) {
		if c.Name == "eventhook_portal" {
			return c.Value
		}
	}
	v.t.Fatal("the visitor has no session")
	return ""
}

// stateOf returns what acts of the portal can change at a tenant.
func stateOf(t *testing.T, n *gatewaytest.Tenant) string {
	t.Helper()
	ctx := t.Context()
	subscriptions := gatewaytest.Must(n.Client.ListSubscriptions(ctx, n.Slug, client.ListSubscriptionsParams{}))
	deliveries := gatewaytest.Must(n.Client.ListDeliveries(ctx, n.Slug, client.ListDeliveriesParams{}))
	audit := gatewaytest.Must(n.Client.ListTenantAudit(ctx, n.Slug, client.ListTenantAuditParams{}))
	return string(gatewaytest.Must(json.MarshalIndent([]any{subscriptions, deliveries, audit}, "", " ")))
}

// isUnchanged fails the test if the state of a tenant differs from the one before.
func isUnchanged(t *testing.T, n *gatewaytest.Tenant, before string) {
	t.Helper()
	if after := stateOf(t, n); after != before {
		t.Errorf("the state of %s changed from\n%s\nto\n%s", n.Slug, before, after)
	}
}

func (r reply) String() string { return fmt.Sprintf("%d %s\n%s", r.status, r.location, r.body) }

// operations returns the method and the path of each operation of the API that needs a key.
func operations(v *visitor, n *gatewaytest.Tenant) (list []string) {
	v.t.Helper()
	var document struct {
		Paths map[string]map[string]struct {
			Security []map[string][]string `json:"security"`
		} `json:"paths"`
	}
	if err := json.Unmarshal([]byte(v.do(http.MethodGet, "/openapi.json", nil).body), &document); err != nil {
		v.t.Fatal(err)
	}
	id := regexp.MustCompile(`\{[^}]+\}`)
	for path, byMethod := range document.Paths {
		for method, operation := range byMethod {
			if len(operation.Security) > 0 {
				path := id.ReplaceAllString(strings.ReplaceAll(path, "{tenant}", n.Slug), "01a2c84f-0000-7000-8000-000000000001")
				list = append(list, strings.ToUpper(method)+" "+path)
			}
		}
	}
	return list
}
