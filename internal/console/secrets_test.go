package console_test

import (
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/client"
)

// unprocessable refuses every form for its name.
var unprocessable = &client.Problem{Title: "Refused", Status: http.StatusUnprocessableEntity, Errors: []client.Fault{{Location: "body.name", Message: "is odd"}}}

// typed is a secret in a form.
const typed = "hunter2 <&\"> \\u0068"

// lacksSecret fails the test if a page has the typed secret in any form.
func (r reply) lacksSecret() reply {
	r.Helper()
	return r.lacks("hunter2")
}

const again = "Type it again: a page never shows a secret."

func TestRefusedSourceShowsNoSecret(t *testing.T) {
	for name, form := range map[string]url.Values{
		"secrets":           {"provider": {"github"}, "secrets": {typed + "\r\nsecond"}},
		"verifier.secrets":  {"verifier": {"hmac"}, "verifier.secrets": {typed}},
		"verifier.values":   {"verifier": {"api_key"}, "verifier.values": {typed}},
		"verifier.password": {"verifier": {"basic_auth"}, "verifier.username": {"ada"}, "verifier.password": {typed}},
	} {
		f := newSourceFixture(t)
		f.answer("POST "+T+"/sources", unprocessable)
		form.Set("slug", "mine")
		f.post("/console/t/acme/sources/new", form).is(http.StatusUnprocessableEntity).lacksSecret().lacks("second").shows("is odd", again, `value="mine"`, `name="`+name+`"`)
		if body := f.called("POST " + T + "/sources").Body; !strings.Contains(body, "hunter2") {
			t.Errorf("%s: the API got %s, want the secret in it", name, body)
		}
	}
}

func TestRefusedSettingsShowNoSecret(t *testing.T) {
	for name, verifier := range map[string]*client.Verifier{"secrets": nil, "verifier.values": {Type: "api_key"}, "verifier.password": {Type: "basic_auth"}} {
		f := newSourceFixture(t)
		source := github()
		source.Verifier = verifier
		f.answer("GET "+hooks, source)
		form := url.Values{"version": {"3"}, "name": {"Pushes"}, name: {typed}}
		for _, refusal := range []*client.Problem{unprocessable, {Title: "Refused", Status: http.StatusPreconditionFailed}} {
			f.answer("PATCH "+hooks, refusal)
			f.post("/console/t/acme/sources/github/settings", form).is(refusal.Status).lacksSecret().shows(again, `value="Pushes"`)
		}
		if body := f.called("PATCH " + hooks).Body; !strings.Contains(body, "hunter2") {
			t.Errorf("%s: the API got %s, want the secret in it", name, body)
		}
		form.Set("max_body_bytes", "many")
		f.post("/console/t/acme/sources/github/settings", form).is(http.StatusUnprocessableEntity).lacksSecret().shows("is not a number", again)
	}
}

// formWithSecrets is the form of a new route with an http target that has secrets.
func formWithSecrets() url.Values {
	form := url.Values{"name": {"payments"}, "is_enabled": {"true"}, "event": {"e1"}, "targets": {"2"}, "targets[0].type": {"task"}, "targets[0].task_kind": {"notify"},
		"targets[1].type": {"http"}, "targets[1].url": {"https://crm.example/hook"}, "targets[1].auth_header": {typed},
		"targets[1]": {`{"headers":{"password":"shown"},"auth":{"type":"oauth2","client_id":"me","client_secret":"hunter2-oauth"}}`}}
	return form
}

const editor = "/console/t/acme/sources/github/routes"

func TestEditorShowsNoSecretThatWasTyped(t *testing.T) {
	f := newRouteFixture(t)
	f.answer("POST "+hooks+"/routes", unprocessable)
	asks := []string{again, `name="asked" value="targets[1].auth_header"`, `name="asked" value="targets[1].auth.client_secret"`, `name="targets[1].auth.client_secret" type="text" value=""`,
		"shown", "&#34;client_id&#34;: &#34;me&#34;"}
	f.post(editor+"/form", formWithSecrets()).is(http.StatusOK).lacksSecret().shows(asks...)
	f.post(editor+"/new", formWithSecrets()).is(http.StatusUnprocessableEntity).lacksSecret().shows(asks...)
	body := f.called("POST " + hooks + "/routes").Body
	if !strings.Contains(body, `"client_secret":"hunter2-oauth"`) || !strings.Contains(body, `"auth_header":"hunter2`) {
		t.Errorf("the API got %s, want the secrets in it", body)
	}
	form := formWithSecrets()
	form.Set("remove", "0")
	f.post(editor+"/form", form).is(http.StatusOK).lacksSecret().shows(`name="asked" value="targets[0].auth.client_secret"`, `name="targets[0].auth.client_secret"`)
	form = formWithSecrets()
	form.Set("targets[1]", `{"auth":{"client_secret" : "hunter2-oauth", "private_key":"hunter2 \" more","password":"hunter2`)
	f.post(editor+"/form", form).is(http.StatusOK).lacksSecret().shows("is not a JSON object", "&#34;client_secret&#34; : &#34;&#34;").lacks("more")
	form.Set("targets[1]", `null`)
	f.post(editor+"/form", form).is(http.StatusOK).shows("is not a JSON object")
}

func TestSecretThatMustBeTypedAgainIsNotForgotten(t *testing.T) {
	f := newRouteFixture(t)
	f.answer("POST "+hooks+"/routes", client.Route{Name: "payments"})
	form := formWithSecrets()
	form.Set("targets[1].auth_header", "")
	form.Set("targets[1]", `{"auth":{"type":"oauth2","client_id":"me"}}`)
	form["asked"] = []string{"targets[1].auth.client_secret", "targets[7].auth_header", "name"}
	f.post(editor+"/form", form).is(http.StatusOK).shows(again, `name="asked" value="targets[1].auth.client_secret"`).lacks("targets[7]")
	removed := maps.Clone(form)
	removed.Set("remove", "0")
	f.post(editor+"/form", removed).is(http.StatusOK).shows(`name="asked" value="targets[0].auth.client_secret"`)
	f.post(editor+"/new", form).is(http.StatusUnprocessableEntity).shows("was typed before and is missing", `name="targets[1].auth.client_secret"`).lacks(`name="asked"`)
	form.Set("targets[1].auth.client_secret", "hunter2")
	f.post(editor+"/new", form).redirects(editor)
	if body := f.called("POST " + hooks + "/routes").Body; !strings.Contains(body, `"auth":{"client_id":"me","client_secret":"hunter2","type":"oauth2"}`) {
		t.Errorf("the API got %s, want the secret in auth", body)
	}
	form.Del("asked")
	form.Del("targets[1].auth.client_secret")
	f.post(editor+"/new", form).redirects(editor)
}

func TestDifferenceShowsNoSecret(t *testing.T) {
	f := newRouteFixture(t)
	form := formOfFirst()
	form.Set("targets[0].auth_header", typed)
	page := f.post(editor+"/r-1", form).is(http.StatusOK).lacksSecret().shows("Save 3 changes", "[redacted, new value]", "[redacted]",
		`name="asked" value="targets[0].auth_header"`, `name="targets[0].auth_header" type="password" value="" required`)
	if strings.Count(page.body, `name="targets[0].auth_header"`) != 1 {
		t.Errorf("the page has several fields for the secret:\n%s", page.main())
	}
	f.answer("PATCH "+hooks+"/routes/r-1", client.Route{})
	form.Set("confirm", "true")
	form["asked"] = []string{"targets[0].auth_header"}
	f.post(editor+"/r-1", form).redirects(editor + "/r-1")
	if body := f.called("PATCH " + hooks + "/routes/r-1").Body; !strings.Contains(body, `"auth_header":"hunter2`) {
		t.Errorf("the API got %s, want the secret in it", body)
	}
	form.Set("targets[0].auth_header", "")
	f.post(editor+"/r-1", form).is(http.StatusUnprocessableEntity).shows("was typed before and is missing")
	f.answer("PATCH "+hooks+"/routes/r-1", unprocessable)
	form.Set("targets[0].auth_header", typed)
	f.post(editor+"/r-1", form).is(http.StatusUnprocessableEntity).lacksSecret().shows("is odd", again)
}

func TestChangeOfSecretsAloneIsSavedAtOnce(t *testing.T) {
	f := newRouteFixture(t)
	stored := first()
	stored.Name, stored.Targets = "payments", []client.Target{{Type: "http", URL: new("https://crm.example/hook"), AuthHeader: new("[redacted]")}}
	f.answer("GET "+hooks+"/routes/r-1", stored)
	f.answer("PATCH "+hooks+"/routes/r-1", client.Route{})
	form := url.Values{"version": {"4"}, "name": {"payments"}, "priority": {"20"}, "is_enabled": {"true"}, "filter_event_types": {"push"}, "filter": {`{"body.a": 1}`}, "targets": {"1"},
		"targets[0].type": {"http"}, "targets[0].url": {"https://crm.example/hook"}, "targets[0].auth_header": {"[redacted]"}}
	f.post(editor+"/r-1", form).is(http.StatusOK).shows("Nothing is changed")
	form.Set("targets[0].auth_header", typed)
	f.post(editor+"/r-1", form).redirects(editor + "/r-1")
	if body := f.called("PATCH " + hooks + "/routes/r-1").Body; !strings.Contains(body, `"auth_header":"hunter2`) {
		t.Errorf("the API got %s, want the secret in it", body)
	}
}
