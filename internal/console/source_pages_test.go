package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/client"
)

const hooks = T + "/sources/github"

// github is the source of the tests. Its texts are an attack.
func github() client.Source {
	return client.Source{Slug: "github", Name: attack, Description: new(attack), IsEnabled: true, Provider: new("github"), Scheme: new("github"), Version: 3, SecretsCount: 2,
		IngestURL: "https://hooks.example/api/tenants/acme/eventhook/in/github", Warnings: []string{attack}, UpdatedAt: today,
		Options: map[string]string{"email": attack}, Stats: client.SourceStats{EventsLastHour: 12, EventsLast24H: 1284, FailedLast24H: 7}}
}

func refused() client.RejectionsAnswer {
	return client.RejectionsAnswer{Items: []client.Rejection{{ID: "r1", Reason: "mismatch", Outcome: "unverified", Detail: new(attack), Method: "POST", ClientAddress: new("203.0.113.7"),
		HeaderNames: []string{"content-type", attack}, RejectedAt: today}}, Counts: []client.RejectionCount{{Reason: "mismatch", Count: 38, FirstAt: today, LastAt: today}}}
}

var presets = client.ProviderPage{Items: []client.Provider{
	{ID: "github", Scheme: "github", Name: "GitHub", DocumentationURL: "https://docs.example/github", RequiredFields: []string{"secrets"}, CoversBody: true, Note: new("The secret is the webhook's Secret.")},
	{ID: "hubspot", Scheme: "hubspot-v3", Name: "HubSpot", RequiredFields: []string{"secrets"}, CoversBody: true},
	{ID: "hubspot", Scheme: "hubspot-v2", Name: "HubSpot", RequiredFields: []string{"secrets"}, CoversBody: true},
	{ID: "paypal", Scheme: "paypal", Name: "PayPal", RequiredFields: []string{"options.webhook_id"}, Options: []client.ProviderOption{{Name: "webhook_id", Required: true, About: "Id of the webhook"}}, CoversBody: true},
}}

// newSourceFixture is a console whose API has the source github with one refusal and no events.
func newSourceFixture(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t)
	f.answer("GET "+T+"/sources", client.SourcePage{Items: []client.Source{github()}})
	f.answer("GET "+T+"/providers", presets)
	f.answer("GET "+hooks, github())
	f.answer("GET "+hooks+"/rejections", refused())
	f.answer("GET "+hooks+"/routes", client.RoutePage{Items: []client.Route{second(), first()}})
	f.answer("GET "+hooks+"/handshake", client.Handshake{Status: "none"})
	f.answer("GET "+T+"/events", client.EventPage{})
	return f
}

func TestSourcesShowTextOfOthersAsText(t *testing.T) {
	f := newSourceFixture(t)
	for _, page := range []string{"", "/github", "/github/waiting", "/github/rejections", "/github/settings", "/github/test", "/github/routes"} {
		f.get("/console/t/acme/sources" + page).is(http.StatusOK).lacks("<script>alert").shows("&lt;script&gt;alert")
	}
}

func TestSourceListShowsTrafficAndTheLastRefusal(t *testing.T) {
	f := newSourceFixture(t)
	f.get("/console/t/acme/sources").is(http.StatusOK).shows("1\u202f284", "mismatch", `data-copy="https://hooks.example/api/tenants/acme/eventhook/in/github"`)
	f.answer("GET "+T+"/sources", client.SourcePage{})
	f.get("/console/t/acme/sources").shows("No sources yet", `href="/console/t/acme/sources/new"`)
}

func TestReadKeyCannotSetUpSources(t *testing.T) {
	f := newFixtureOf(t, client.Identity{Type: "tenant", Tenant: &client.IdentityTenant{Slug: "acme"}, Scopes: []string{"read"}})
	f.answer("GET "+T+"/sources", client.SourcePage{})
	f.get("/console/t/acme/sources").is(http.StatusOK).lacks("sources/new").shows("scope manage")
}

func TestProvidersAreChosenFromAGrid(t *testing.T) {
	page := newSourceFixture(t).get("/console/t/acme/sources/new").is(http.StatusOK).
		shows(`data-filter-list="#providers"`, `data-filter-text="GitHub github"`, "sources/new?verifier=hmac", "Anybody who knows the URL")
	if got := strings.Count(page.body, "provider=github"); got != 1 {
		t.Errorf("tiles of a provider that is used most, got %d, want 1", got)
	}
	if got := strings.Count(page.body, "provider=hubspot"); got != 1 {
		t.Errorf("tiles of a provider with two schemes, got %d, want 1", got)
	}
}

func TestFormOfAProviderHasItsStepsAndTheURL(t *testing.T) {
	f := newSourceFixture(t)
	f.get("/console/t/acme/sources/new?provider=github").is(http.StatusOK).
		shows("Settings → Webhooks", "X-Hub-Signature-256", "https://docs.example/github", "https://hooks.example/api/tenants/acme/eventhook/in/<strong id=\"url-slug\">github", "Generate the secret")
	f.get("/console/t/acme/sources/new?provider=paypal").is(http.StatusOK).shows(`name="options.webhook_id"`, "Id of the webhook").lacks(`name="secrets"`, "Generate the secret")
	f.get("/console/t/acme/sources/new?provider=hubspot").shows("<option selected>hubspot-v3", "hubspot-v2")
	f.get("/console/t/acme/sources/new?verifier=none").shows("Requests are not verified.")
	f.get("/console/t/acme/sources/new?provider=unknown").is(http.StatusNotFound)
}

func TestSourceIsCreatedAndWaitsForItsFirstEvent(t *testing.T) {
	f := newSourceFixture(t)
	f.answer("POST "+T+"/sources", github())
	f.post("/console/t/acme/sources/new", url.Values{"provider": {"github"}, "slug": {"github"}, "name": {"Pushes"}, "secrets": {"one\r\ntwo\r\n"}}).
		redirects("/console/t/acme/sources/github/waiting")
	if got, want := f.called("POST "+T+"/sources").Body, `{"name":"Pushes","provider":"github","scheme":"github","secrets":["one","two"],"slug":"github"}`; got != want {
		t.Errorf("body, got %s, want %s", got, want)
	}
}

func TestGeneratedSecretIsShownOnce(t *testing.T) {
	f := newSourceFixture(t)
	f.answer("POST "+T+"/sources", github())
	page := f.post("/console/t/acme/sources/new", url.Values{"verifier": {"hmac"}, "slug": {"own"}, "verifier.header": {"X-Sig"}, "generate": {"true"}}).is(http.StatusOK).shows("is shown once", "/sources/github/waiting")
	body := f.called("POST " + T + "/sources").Body
	_, secret, _ := strings.Cut(body, `"secrets":["`)
	secret, _, _ = strings.Cut(secret, `"`)
	if len(secret) < 20 || !strings.Contains(page.body, secret) {
		t.Errorf("the page lacks the secret %q of %s", secret, body)
	}
}

func TestFaultsOfANewSourceStandAtTheirFields(t *testing.T) {
	f := newSourceFixture(t)
	f.answer("POST "+T+"/sources", &client.Problem{Title: "Refused", Status: http.StatusUnprocessableEntity, Errors: []client.Fault{{Location: "body.options.webhook_id", Message: "is required here"}}})
	f.post("/console/t/acme/sources/new", url.Values{"provider": {"paypal"}, "slug": {"mine"}, "options.webhook_id": {attack}}).is(http.StatusUnprocessableEntity).
		shows("is required here", `value="mine"`).lacks("<script>alert")
}

func TestWaitingSaysWhyARequestWasRefused(t *testing.T) {
	f := newSourceFixture(t)
	f.get("/console/t/acme/sources/github/waiting").is(http.StatusOK).shows("Waiting for the first event", "No secret matched", "Copy the secret from the sender", "data-refresh",
		"eventhook send github --url https://hooks.example/api/tenants/acme/eventhook/in/github --secret-env SECRET")
	f.answer("GET "+T+"/events", client.EventPage{Items: []client.Event{{ID: "e1", EventType: attack, ReceivedAt: today}}})
	f.get("/console/t/acme/sources/github/waiting").shows("/console/t/acme/events/e1", "&lt;script").lacks("data-refresh", "Waiting for the first event…", "<script>alert", "No secret matched")
}

func TestHandshakeIsRevealedOnceAndReset(t *testing.T) {
	f := newSourceFixture(t)
	f.answer("GET "+hooks+"/handshake", client.Handshake{Status: "learned", LearnedAt: new(today)})
	f.get("/console/t/acme/sources/github/waiting").shows("Show the secret", "Reset the handshake")
	f.answer("POST "+hooks+"/handshake/reveal", client.SecretAnswer{Secret: attack})
	f.post("/console/t/acme/sources/github/handshake/reveal", nil).is(http.StatusOK).shows("&lt;script&gt;alert", "is shown once").lacks("<script>alert")
	f.answer("POST "+hooks+"/handshake/reset", map[string]any{})
	f.post("/console/t/acme/sources/github/handshake/reset", nil).redirects("/console/t/acme/sources/github")
}

func TestSettingsAreSavedForTheVersionThatWasRead(t *testing.T) {
	f := newSourceFixture(t)
	header := ""
	f.answer("PATCH "+hooks, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header = r.Header.Get("If-Match")
		_, _ = w.Write([]byte("{}"))
	}))
	f.post("/console/t/acme/sources/github/settings", url.Values{"version": {"3"}, "name": {"Pushes"}, "is_enabled": {"true"}, "rate_limit.burst_size": {"5"},
		"retry.schedule_seconds": {"30, 120"}, "allowed_ip_ranges": {"192.0.2.0/24\r\n"}}).redirects("/console/t/acme/sources/github/settings")
	body := f.called("PATCH " + hooks).Body
	for _, part := range []string{`"name":"Pushes"`, `"is_enabled":true`, `"burst_size":5`, `"schedule_seconds":[30,120]`, `"allowed_ip_ranges":["192.0.2.0/24"]`, `"description":null`, `"response":null`} {
		if !strings.Contains(body, part) {
			t.Errorf("body, got %s, want %s in it", body, part)
		}
	}
	if strings.Contains(body, "secrets") {
		t.Errorf("body, got %s, want no secrets: an empty field keeps them", body)
	}
	if header != `"3"` {
		t.Errorf("If-Match, got %s, want \"3\"", header)
	}
}

func TestConflictOfSettingsIsExplained(t *testing.T) {
	f := newSourceFixture(t)
	f.answer("PATCH "+hooks, &client.Problem{Title: "Refused", Status: http.StatusPreconditionFailed, Detail: "stale"})
	f.post("/console/t/acme/sources/github/settings", url.Values{"version": {"2"}, "name": {"mine"}}).is(http.StatusPreconditionFailed).shows("Somebody changed this source", `value="mine"`)
	f.post("/console/t/acme/sources/github/settings", url.Values{"retry.schedule_seconds": {"soon"}, "max_body_bytes": {"many"}}).is(http.StatusUnprocessableEntity).
		shows("soon is not a number of seconds", "is not a number")
}

func TestPastedRequestIsExplained(t *testing.T) {
	f := newSourceFixture(t)
	f.answer("POST "+hooks+"/test", client.Explanation{Error: new("mismatch: " + attack), Routes: []client.RouteExplanation{{Name: attack, Reason: attack, Matched: true,
		Actions: []client.ActionExplanation{{TargetType: "task", Input: []byte(`{"a":"<script>alert(1)</script>"}`)}}}}})
	f.post("/console/t/acme/sources/github/test", url.Values{"method": {"POST"}, "headers": {"X-A: b:c\r\n"}, "body": {"{\r\n}"}}).is(http.StatusOK).
		shows("would be refused", "No secret matched", "&lt;script&gt;alert").lacks("<script>alert")
	if got, want := f.called("POST "+hooks+"/test").Body, `{"body":"{\n}","headers":{"X-A":"b:c"},"method":"POST"}`; got != want {
		t.Errorf("body, got %s, want %s", got, want)
	}
}

func TestSourceIsDeletedWithItsRoutes(t *testing.T) {
	f := newSourceFixture(t)
	f.answer("DELETE "+hooks, map[string]any{})
	f.post("/console/t/acme/sources/github/delete", url.Values{"cascade": {"true"}, "version": {"3"}}).redirects("/console/t/acme/sources")
	if got, want := f.called("DELETE "+hooks).Query, "cascade=true"; got != want {
		t.Errorf("query, got %q, want %q", got, want)
	}
}

func TestOldRefusalIsNotShownOnThePageOfTheSource(t *testing.T) {
	f := newSourceFixture(t)
	f.get("/console/t/acme/sources/github").is(http.StatusOK).shows("No secret matched")
	old := refused()
	old.Items[0].RejectedAt = today.AddDate(0, 0, -2)
	f.answer("GET "+hooks+"/rejections", old)
	f.get("/console/t/acme/sources/github").is(http.StatusOK).lacks("No secret matched")
}
