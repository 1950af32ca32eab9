package api_test

import (
	"maps"
	"net/http"
	"testing"

	"github.com/eventhook/eventhook"
)

// TestChangedDestinationRequiresSecretsAgain checks section 7 of the contract: a secret
// that was set for one destination is not sent to another.
func TestChangedDestinationRequiresSecretsAgain(t *testing.T) {
	const (
		elsewhere  = `"url":"https://evil.test/in"`
		auth       = "body.auth_header"
		tenant     = "body.headers.X-Tenant"
		env        = "body.headers.X-Env"
		newHeaders = `"headers":{"X-Env":"prod","X-Tenant":"7"}`
	)
	all := []string{auth, env, tenant}
	r := setUp(t)
	for _, c := range []struct {
		claim, patch string
		missing      []string // locations of faults; the patch succeeds without faults
	}{
		{"another host", `{` + elsewhere + `}`, all},
		{"another port", `{"url":"https://billing.example:8443/hooks"}`, all},
		{"another scheme", `{"url":"http://billing.example/hooks"}`, all},
		{"another scheme on the same port", `{"url":"http://billing.example:443/hooks"}`, all},
		{"a subdomain", `{"url":"https://x.billing.example/hooks"}`, all},
		{"the host before an @", `{"url":"https://billing.example@evil.test/"}`, append([]string{"body.url"}, all...)},
		{"a label", `{"target_labels":["env:prod"]}`, all},
		{"a host and a label", `{` + elsewhere + `,"target_labels":["env:prod"]}`, all},
		{"all secrets repeated", `{` + elsewhere + `,"auth_header":"Bearer x",` + newHeaders + `}`, nil},
		{"all secrets removed", `{` + elsewhere + `,"auth_header":null,"headers":null}`, nil},
		{"one header removed", `{` + elsewhere + `,"auth_header":"","headers":{"X-Env":null,"X-Tenant":"8"}}`, nil},
		{"the redacted auth_header", `{` + elsewhere + `,"auth_header":"[redacted]",` + newHeaders + `}`, []string{auth}},
		{"a redacted header", `{` + elsewhere + `,"auth_header":"x","headers":{"X-Env":"[redacted]","X-Tenant":"7"}}`, []string{env}},
		{"an empty object of headers", `{` + elsewhere + `,"auth_header":"x","headers":{}}`, []string{env, tenant}},
		{"a header in lower case", `{` + elsewhere + `,"auth_header":"x","headers":{"x-env":null,"X-Tenant":"7"}}`, nil},
		{"a redacted header in lower case", `{` + elsewhere + `,"auth_header":"x","headers":{"x-env":"[redacted]","X-Tenant":"7"}}`, []string{env}},
		{"auth_header only", `{` + elsewhere + `,"auth_header":"x"}`, []string{env, tenant}},
		{"a member whose name differs in case", `{` + elsewhere + `,"Auth_Header":"x",` + newHeaders + `}`, []string{"body.Auth_Header", auth}},
		{"another path", `{"url":"https://billing.example/other?x=1"}`, nil},
		{"the default port, and upper case", `{"url":"HTTPS://Billing.Example:443/hooks"}`, nil},
		{"the URL as responses show it", `{"url":"https://billing.example/…"}`, nil},
		{"a name", `{"name":"other"}`, nil},
		{"a label removed", `{"target_labels":[]}`, nil},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := r.subtest(t)
			id := r.subscribed(object{"name": "billing", "url": billing, "event_types": []string{"*"}, "auth_header": "Bearer " + hush,
				"headers": object{"X-Env": "prod", "X-Tenant": "7"}})
			before := r.stored(id)
			a := r.admin("PATCH", subscriptionPath(id), c.patch)
			if len(c.missing) == 0 {
				a.want(http.StatusOK)
				return
			}
			r.wantFaults(a, http.StatusUnprocessableEntity, c.missing)
			if now := r.stored(id); now.Version != before.Version || !now.URL.Equal(before.URL) {
				t.Error("the refused patch changed the subscription")
			}
		})
	}
}

// TestPatchMatchesHeadersInAnyCase checks that a patch replaces a stored header whose
// name has another case, with and without a new destination.
func TestPatchMatchesHeadersInAnyCase(t *testing.T) {
	r := setUp(t)
	for _, c := range []struct {
		patch string
		want  map[string]string
	}{
		{`{"headers":{"x-b":"new"}}`, map[string]string{"X-A": "1", "x-b": "new"}},
		{`{"headers":{"x-b":null}}`, map[string]string{"X-A": "1"}},
		{`{"url":"https://elsewhere.example","headers":{"x-a":null,"x-b":"new"}}`, map[string]string{"x-b": "new"}},
		{`{"url":"https://elsewhere.example","headers":{"x-a":"2","X-B":"3","x-b":null}}`, map[string]string{"x-a": "2", "X-B": "3"}},
	} {
		r := r.subtest(t)
		id := r.subscribed(object{"name": "billing", "url": billing, "event_types": []string{"*"}, "headers": object{"X-A": "1", "X-B": "old"}})
		r.admin("PATCH", subscriptionPath(id), c.patch).want(http.StatusOK)
		if got := r.stored(id).Headers; !maps.Equal(got, c.want) {
			t.Errorf("%s: the headers are %v, want %v", c.patch, got, c.want)
		}
		r.admin("DELETE", subscriptionPath(id), nil)
	}
	id := r.subscribed(object{"name": "billing", "url": billing, "event_types": []string{"*"}, "headers": object{"X-B": "old"}})
	a := r.admin("PATCH", subscriptionPath(id), `{"url":"https://elsewhere.example","headers":{"x-b":"1","X-b":"2"}}`)
	r.wantFaults(a, http.StatusUnprocessableEntity, []string{"body.headers.x-b"})
}

func TestDestinationWithoutSecretsChangesFreely(t *testing.T) {
	r := setUp(t)
	id := r.subscribe("*")
	secret := r.stored(id).Signing[0].Secret
	r.admin("PATCH", subscriptionPath(id), `{"url":"https://elsewhere.example","target_labels":["env:prod"]}`).want(http.StatusOK)
	r.admin("PATCH", subscriptionPath(id), `{"target_labels":["env:prod","region:eu"]}`).want(http.StatusOK)
	if s := r.stored(id); s.URL.Reveal() != "https://elsewhere.example" || !s.Signing[0].Secret.Equal(secret) {
		t.Error("the URL did not change, or the signing secret changed")
	}
}

// TestAddedLabelsRequireSecretsAgain: other agents may claim the deliveries.
func TestAddedLabelsRequireSecretsAgain(t *testing.T) {
	r := setUp(t)
	id := r.subscribed(object{"name": "billing", "url": billing, "event_types": []string{"*"}, "auth_header": "Bearer x", "target_labels": []string{"a:1", "b:1"}})
	r.admin("PATCH", subscriptionPath(id), `{"target_labels":["b:1","a:1"]}`).want(http.StatusOK)
	r.wantFaults(r.admin("PATCH", subscriptionPath(id), `{"target_labels":["a:1","c:1"]}`), http.StatusUnprocessableEntity, []string{"body.auth_header"})
	r.admin("PATCH", subscriptionPath(id), `{"target_labels":["a:1"]}`).want(http.StatusOK)
}

// TestConcurrentDestinationChangeIsCheckedAgain checks that a header stored meanwhile
// by another caller is not sent to the new destination either.
func TestConcurrentDestinationChangeIsCheckedAgain(t *testing.T) {
	r := setUp(t)
	id := r.subscribe("*")
	path, move := subscriptionPath(id), `{"url":"https://elsewhere.example"}`
	r.change(id, func(s *eventhook.Subscription) { s.AuthHeader = eventhook.NewSecret("Bearer x") })
	r.matching(`"1"`, "PATCH", path, move).want(http.StatusPreconditionFailed)
	r.wantFaults(r.admin("PATCH", path, move), http.StatusUnprocessableEntity, []string{"body.auth_header"})
	r.wantFaults(r.matching(`"2"`, "PATCH", path, move), http.StatusUnprocessableEntity, []string{"body.auth_header"})
}
