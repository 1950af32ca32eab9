package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
)

func basicAuth() object {
	return object{"type": "basic", "username": "gateway", "password": hush}
}

func oauth2Auth() object {
	return object{"type": "oauth2", "token_url": "https://login.example/token", "client_id": "gateway", "client_secret": hush, "scopes": []any{"a", "b"}}
}

func authOf(t *testing.T, s eventhook.Subscription) eventhook.Auth {
	t.Helper()
	a, err := eventhook.OpenAuth(s.Auth)
	if err != nil || a == nil {
		t.Fatalf("no auth is stored: %v", err)
	}
	return *a
}

func TestAuthIsWriteOnly(t *testing.T) {
	r := setUp(t)
	made := r.admin("POST", T("acme")+subscriptions, object{"name": "billing", "url": billing, "event_types": []string{"*"}, "auth": oauth2Auth()})
	made.want(http.StatusCreated)
	id, _ := made.object()["id"].(string)
	shown := oauth2Auth()
	shown["client_secret"] = eventhook.Redacted
	for _, a := range []*answer{made, r.admin("GET", subscriptionPath(id), nil)} {
		got := a.object()
		if diff := cmp.Diff(shown, got["auth"]); diff != "" || got["auth_header"] != nil {
			t.Errorf("auth (-want +got):\n%s", diff)
		}
		if strings.Contains(a.Body.String(), hush) {
			t.Errorf("the answer shows the secret: %s", a.Body)
		}
	}
	if a := authOf(t, r.stored(id)); a.ClientSecret != hush || a.TokenURL != "https://login.example/token" {
		t.Error("another auth is stored")
	}
}

func TestAuthFaultsOfTheAPI(t *testing.T) {
	r := setUp(t)
	with := func(changes ...object) object {
		o := object{"name": "billing", "url": billing, "event_types": []string{"*"}, "auth": basicAuth()}
		for _, change := range changes {
			for name, value := range change {
				o[name] = value
			}
		}
		return o
	}
	auth := func(name string, value any) object {
		a := oauth2Auth()
		a[name] = value
		return object{"auth": a}
	}
	for _, c := range []struct {
		claim string
		body  object
		want  []string
	}{
		{"with auth_header", with(object{"auth_header": "Bearer x"}), []string{"body.auth"}},
		{"an unknown type", with(object{"auth": object{"type": "digest"}}), []string{"body.auth.type"}},
		{"no type", with(object{"auth": object{"username": "u", "password": "p"}}), []string{"body.auth.type"}},
		{"a text", with(object{"auth": "Bearer x"}), []string{"body.auth"}},
		{"an unknown member", with(object{"auth": object{"type": "basic", "username": "u", "password": "p", "realm": "x"}}), []string{"body.auth.realm"}},
		{"two kinds", with(object{"auth": object{"type": "basic", "username": "u", "password": "p", "region": "x"}}), []string{"body.auth.region"}},
		{"no password", with(object{"auth": object{"type": "basic", "username": "u"}}), []string{"body.auth.password"}},
		{"no region and no service", with(object{"auth": object{"type": "aws_sigv4", "access_key_id": "a", "secret_access_key": "b"}}), []string{"body.auth.region", "body.auth.service"}},
		{"a certificate that is none", with(object{"auth": object{"type": "mtls", "certificate": "x", "private_key": "y"}}), []string{"body.auth.certificate"}},
		{"a placeholder", with(auth("client_secret", eventhook.Redacted)), []string{"body.auth.client_secret"}},
		{"a private token endpoint", with(auth("token_url", "https://10.0.0.1/token")), []string{"body.auth.token_url"}},
		{"a private token endpoint for agents", with(auth("token_url", "https://10.0.0.1/token"), object{"target_labels": []string{"env:prod"}}), []string{"body.auth.token_url"}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := r.subtest(t)
			r.wantFaults(r.admin("POST", T("acme")+subscriptions, c.body), http.StatusUnprocessableEntity, c.want)
		})
	}
}

func TestPatchesOfAuth(t *testing.T) {
	const elsewhere = `"url":"https://evil.test/in"`
	r := setUp(t)
	for _, c := range []struct {
		claim, patch string
		missing      []string              // locations of faults
		want         func(*eventhook.Auth) // the change
	}{
		{"a name", `{"name":"other"}`, nil, func(*eventhook.Auth) {}},
		{"as shown", `{"auth":{"type":"oauth2","token_url":"https://login.example/token","client_id":"gateway","client_secret":"[redacted]","scopes":["a","b"]}}`, nil, func(*eventhook.Auth) {}},
		{"one member", `{"auth":{"scopes":["c"]}}`, nil, func(a *eventhook.Auth) { a.Scopes = []string{"c"} }},
		{"a member removed", `{"auth":{"scopes":null}}`, nil, func(a *eventhook.Auth) { a.Scopes = nil }},
		{"a secret", `{"auth":{"client_secret":"new"}}`, nil, func(a *eventhook.Auth) { a.ClientSecret = "new" }},
		{"a path of the token endpoint", `{"auth":{"token_url":"https://login.example/other"}}`, nil, func(a *eventhook.Auth) { a.TokenURL = "https://login.example/other" }},
		{"another type", `{"auth":{"type":"basic","username":"u","password":"p"}}`, nil, func(a *eventhook.Auth) { *a = eventhook.Auth{Type: "basic", Username: "u", Password: "p"} }},
		{"another type, incomplete", `{"auth":{"type":"basic","username":"u"}}`, []string{"body.auth.password"}, nil},
		{"a host of the token endpoint", `{"auth":{"token_url":"https://evil.test/token"}}`, []string{"body.auth.client_secret"}, nil},
		{"a host of the token endpoint, redacted", `{"auth":{"token_url":"https://evil.test/token","client_secret":"[redacted]"}}`, []string{"body.auth.client_secret"}, nil},
		{"a host of the token endpoint with the secret", `{"auth":{"token_url":"https://new.example/token","client_secret":"new"}}`, nil,
			func(a *eventhook.Auth) { a.TokenURL, a.ClientSecret = "https://new.example/token", "new" }},
		{"a private token endpoint", `{"auth":{"token_url":"https://10.0.0.1/token","client_secret":"new"}}`, []string{"body.auth.token_url"}, nil},
		{"auth_header too", `{"auth_header":"Bearer x"}`, []string{"body.auth"}, nil},
		{"another host", `{` + elsewhere + `}`, []string{"body.auth"}, nil},
		{"a label", `{"target_labels":["env:prod"]}`, []string{"body.auth"}, nil},
		{"another host with other members", `{` + elsewhere + `,"auth":{"scopes":["c"]}}`, []string{"body.auth.client_secret"}, nil},
		{"another host with the placeholder", `{` + elsewhere + `,"auth":{"client_secret":"[redacted]"}}`, []string{"body.auth.client_secret"}, nil},
		{"another host with the secret", `{` + elsewhere + `,"auth":{"client_secret":"new"}}`, nil, func(a *eventhook.Auth) { a.ClientSecret = "new" }},
		{"another host with another type", `{` + elsewhere + `,"auth":{"type":"basic","username":"u","password":"p"}}`, nil,
			func(a *eventhook.Auth) { *a = eventhook.Auth{Type: "basic", Username: "u", Password: "p"} }},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := r.subtest(t)
			id := r.subscribed(object{"name": "billing", "url": billing, "event_types": []string{"*"}, "auth": oauth2Auth()})
			want := authOf(t, r.stored(id))
			a := r.admin("PATCH", subscriptionPath(id), c.patch)
			if c.missing != nil {
				r.wantFaults(a, http.StatusUnprocessableEntity, c.missing)
			} else {
				a.want(http.StatusOK)
				c.want(&want)
			}
			if got := authOf(t, r.stored(id)); !got.Seal().Equal(want.Seal()) {
				t.Errorf("stored is %s, want %s", got.Seal().Reveal(), want.Seal().Reveal())
			}
		})
	}
}

func TestAuthIsRemovedAndReplacesAuthHeader(t *testing.T) {
	r := setUp(t)
	id := r.subscribed(object{"name": "billing", "url": billing, "event_types": []string{"*"}, "auth_header": "Bearer x"})
	path := subscriptionPath(id)
	r.wantFaults(r.admin("PATCH", path, object{"auth": basicAuth()}), http.StatusUnprocessableEntity, []string{"body.auth"})
	r.admin("PATCH", path, object{"auth": basicAuth(), "auth_header": nil}).want(http.StatusOK)
	if s := r.stored(id); !s.AuthHeader.IsZero() || authOf(t, s).Password != hush {
		t.Error("auth_header is still stored, or no auth")
	}
	r.admin("PATCH", path, `{"url":"https://evil.test","auth":null}`).want(http.StatusOK)
	if s := r.stored(id); !s.Auth.IsZero() {
		t.Error("auth is still stored")
	}
}
