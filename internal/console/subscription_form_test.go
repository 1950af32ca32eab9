package console_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/eventhook/eventhook/client"
)

func TestNewSubscriptionSuggestsTypesOfTheCatalogue(t *testing.T) {
	f := newFixture(t)
	f.answer("GET "+T+"/event-types", client.EventTypePage{Items: []client.EventType{{Name: "payment.made", Description: attack}}})
	f.get("/console/t/acme/subscriptions/new?event_types=order.*").is(http.StatusOK).lacks("<script>alert").
		shows(`<option value="payment.made">`, `name="event_types" value="order.*"`)
}

func TestCreatedSubscriptionShowsItsSecretOnce(t *testing.T) {
	f := newFixture(t)
	f.withBilling(billing())
	f.answer("POST "+T+"/subscriptions", client.SubscriptionCreated{ID: "s1", Name: "billing", SigningSecret: "whsec_once"})
	f.post("/console/t/acme/subscriptions/new", url.Values{"name": {"billing"}, "url": {" https://billing.example/hooks "}, "event_types": {"payment.*", "", ""},
		"headers": {"X-Env: prod\r\n"}, "auth": {"oauth2"}, "auth.token_url": {"https://id.example"}, "auth.client_secret": {"s3"}, "auth.scopes": {"a b"},
		"auth.password": {"of another type"}, "recovery.enabled": {"true"}, "retry.schedule_seconds": {"30, 120"}, "validate": {"true"}, "timeout_seconds": {"x"}}).
		is(http.StatusOK).shows("whsec_once", "shown once")
	if got, want := f.called("POST "+T+"/subscriptions").Body, `{"auth":{"client_secret":"s3","scopes":["a","b"],"token_url":"https://id.example","type":"oauth2"},`+
		`"event_types":["payment.*"],"headers":{"X-Env":"prod"},"name":"billing","recovery":{"enabled":true},"retry":{"schedule_seconds":[30,120],"terminal_statuses":[]},`+
		`"scope_filter":[],"signatures":[],"target_labels":[],"timeout_seconds":"x","url":"https://billing.example/hooks","validate":true}`; got != want {
		t.Errorf("body, got\n%s, want\n%s", got, want)
	}
	f.get("/console/t/acme/subscriptions/s1").lacks("whsec_once")
}

func TestRefusedSubscriptionShowsFaultsAtTheFields(t *testing.T) {
	f := newFixture(t)
	f.answer("POST "+T+"/subscriptions", &client.Problem{Title: "Unprocessable", Status: 422, Errors: []client.Fault{
		{Location: "body.url", Message: "must be https://"}, {Location: "body.event_types[0]", Message: "is no pattern"}, {Location: "body.timeout_seconds", Message: "must be a number"},
		{Location: "body.auth.password", Message: "is missing"}, {Location: "body", Message: "is odd"}}})
	f.post("/console/t/acme/subscriptions/new", url.Values{"name": {attack}, "auth": {"basic"}, "auth.password": {"hunter2"}, "signing_secret": {"hunter3"},
		"timeout_seconds": {"x"}}).is(http.StatusUnprocessableEntity).lacks("<script>alert", "hunter").
		shows("must be https://", "is no pattern", "must be a number", "is missing", "is odd", `<details class="card" open>`, "5 fields need", "Type it again: a page never shows a secret.")
}

// formOfBilling is the form of the subscription billing as a browser sends it unchanged.
func formOfBilling() url.Values {
	return url.Values{"version": {"7"}, "name": {"billing"}, "url": {"https://billing.example/…"}, "event_types": {"payment.*", ""}, "format": {"eventhook"}, "auth": {"none"},
		"headers": {"X-Env: prod\r\nX-Old: 1"}, "header_prefix": {"X-Eventhook"}, "signatures": {"v1"}, "max_in_flight": {"10"}, "timeout_seconds": {"30"},
		"rate_per_second": {"0"}, "disable_after_failures": {"0"}, "recovery.enabled": {"true"}, "recovery.max_age_hours": {"72"}, "retry.max_retries": {"5"},
		"retry.jitter": {"some"}}
}

func TestUpdateSendsOnlyWhatChanged(t *testing.T) {
	for _, c := range []struct {
		change func(url.Values)
		want   string
	}{
		{func(url.Values) {}, `{}`},
		{func(v url.Values) { v.Set("name", "crm") }, `{"name":"crm"}`},
		{func(v url.Values) { v.Set("headers", "X-Env: test") }, `{"headers":{"X-Env":"test","X-Old":null}}`},
		{func(v url.Values) { v.Set("auth", "header"); v.Set("auth_header", "Bearer t") }, `{"auth_header":"Bearer t"}`},
		{func(v url.Values) { v.Del("recovery.enabled") }, `{"recovery":{"enabled":false,"max_age_hours":72}}`},
	} {
		f := newFixture(t)
		f.withBilling(billing())
		f.answer("PATCH "+T+"/subscriptions/s1", billing())
		form := formOfBilling()
		c.change(form)
		f.post("/console/t/acme/subscriptions/s1/edit", form).redirects("/console/t/acme/subscriptions/s1")
		if got := f.called("PATCH " + T + "/subscriptions/s1").Body; got != c.want {
			t.Errorf("body, got %s, want %s", got, c.want)
		}
	}
}

func TestUpdateKeepsStoredSecretsUnlessTheyAreChanged(t *testing.T) {
	f := newFixture(t)
	s := billing()
	s.Auth = &client.Auth{Type: "basic", Username: new("u"), Password: new("[redacted]")}
	f.withBilling(s)
	f.answer("PATCH "+T+"/subscriptions/s1", s)
	form := formOfBilling()
	form.Set("auth", "basic")
	form.Set("auth.username", "u")
	for password, want := range map[string]string{"": `{}`, "p": `{"auth":{"password":"p","type":"basic","username":"u"}}`} {
		form.Set("auth.password", password)
		f.post("/console/t/acme/subscriptions/s1/edit", form).redirects("/console/t/acme/subscriptions/s1")
		if got := f.called("PATCH " + T + "/subscriptions/s1").Body; got != want {
			t.Errorf("body with the password %q, got %s, want %s", password, got, want)
		}
	}
	form.Set("auth", "none")
	f.post("/console/t/acme/subscriptions/s1/edit", form)
	if got, want := f.called("PATCH "+T+"/subscriptions/s1").Body, `{"auth":null}`; got != want {
		t.Errorf("body without authentication, got %s, want %s", got, want)
	}
}

func TestUpdateShowsThatSecretsMustBeGivenAgain(t *testing.T) {
	f := newFixture(t)
	s := billing()
	s.AuthHeader = new("[redacted]")
	f.withBilling(s)
	const again = "must be given again or be null"
	f.answer("PATCH "+T+"/subscriptions/s1", &client.Problem{Title: "Unprocessable", Status: 422, Errors: []client.Fault{{Location: "body.auth_header", Message: again}}})
	f.get("/console/t/acme/subscriptions/s1/edit").is(http.StatusOK).shows(`value="header" selected`, "Stored secrets are not shown").lacks("[redacted]")
	f.post("/console/t/acme/subscriptions/s1/edit", formOfBilling()).is(http.StatusUnprocessableEntity).shows(again)
}
