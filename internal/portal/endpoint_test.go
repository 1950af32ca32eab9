package portal_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/portal"
)

func TestNewEndpointHasTheScopeOfTheSession(t *testing.T) {
	f := newFixture(t)
	f.get("/portal/endpoints/new?event_types=order.paid").is(http.StatusOK).shows("An order was placed.", "&#34;total&#34;: 1", `value="order.paid" checked`).
		lacks("margin.computed", "system.webhook_test")
	f.answer("POST "+T+"/subscriptions", client.SubscriptionCreated{ID: own, Name: "Shop", SigningSecret: "whsec_new"})
	f.post("/portal/endpoints/new", url.Values{"name": {" Shop "}, "url": {"https://shop.example/in"}, "event_types": {"order.created", "order.created"},
		"headers": {"X-A: 1\n"}, "scope_filter": {"customer-43"}}).is(http.StatusOK).shows("whsec_new", "is shown once")
	const want = `{"event_types":["order.created"],"headers":{"X-A":"1"},"name":"Shop","scope_filter":["customer-42"],"url":"https://shop.example/in","validate":false}`
	if got := f.called("POST " + T + "/subscriptions").Body; got != want {
		t.Errorf("body, got %s, want %s", got, want)
	}
}

func TestOnlyOfferedTypesCanBeChosen(t *testing.T) {
	for _, types := range [][]string{{"*"}, {"order.*"}, {"margin.computed"}, {"internal.*"}, {"system.webhook_test"}, {}} {
		f := newFixture(t)
		form := url.Values{"name": {"x"}, "url": {"https://x.example"}, "event_types": types}
		f.post("/portal/endpoints/new", form).is(http.StatusUnprocessableEntity).shows(`class="fault"`)
		f.changesNothing()
	}
}

func TestRefusalOfTheAPIIsShownAtItsField(t *testing.T) {
	f := newFixture(t)
	f.answer("POST "+T+"/subscriptions", &client.Problem{Status: http.StatusUnprocessableEntity, Errors: []client.Fault{{Location: "body.url", Message: "is a private address " + attack}}})
	f.post("/portal/endpoints/new", url.Values{"name": {"Shop"}, "url": {"http://10.0.0.1"}, "event_types": {"order.created"}}).is(http.StatusUnprocessableEntity).
		shows("is a private address", `value="http://10.0.0.1"`, "checked").lacks("<script>alert")
}

func TestEditKeepsWhatTheSenderChose(t *testing.T) {
	f := newFixture(t)
	f.get("/portal/endpoints/"+own+"/edit").is(http.StatusOK).shows("internal.*", "X-Env: prod", `value="https://shop.example/…"`)
	f.answer("PATCH "+T+"/subscriptions/"+own, map[string]any{})
	form := url.Values{"version": {"3"}, "name": {"Shop"}, "url": {"https://shop.example/…"}, "event_types": {"order.paid"}, "headers": {"X-New: 1"},
		"scope_filter": {"*"}, "auth_header": {"x"}, "target_labels": {"x"}, "transform": {"x"}}
	f.post("/portal/endpoints/"+own+"/edit", form).redirects("/portal/endpoints/" + own)
	call := f.called("PATCH " + T + "/subscriptions/" + own)
	var got map[string]any
	if err := json.Unmarshal([]byte(call.Body), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"name": "Shop", "url": "https://shop.example/…", "event_types": []any{"internal.*", "order.paid"}, "headers": map[string]any{"X-New": "1", "X-Env": nil}}
	if !reflect.DeepEqual(got, want) || call.IfMatch != `"3"` {
		t.Errorf("patch, got %v if %s, want %v if \"3\"", got, call.IfMatch, want)
	}
}

func TestEditOfAnOlderVersionIsRefused(t *testing.T) {
	f := newFixture(t)
	f.post("/portal/endpoints/"+own+"/edit", url.Values{"version": {"2"}, "name": {"x"}}).is(http.StatusUnprocessableEntity).shows("was changed meanwhile")
	f.changesNothing()
}

func TestMovedDestinationLosesItsSecrets(t *testing.T) {
	f := newFixture(t)
	f.answer("PATCH "+T+"/subscriptions/"+own, &client.Problem{Status: http.StatusUnprocessableEntity,
		Errors: []client.Fault{{Location: "body.auth_header", Message: "must be given again or be null, because url or target_labels change the destination"}}})
	f.post("/portal/endpoints/"+own+"/edit", url.Values{"version": {"3"}, "name": {"x"}, "url": {"https://evil.example"}, "event_types": {"order.paid"}}).
		is(http.StatusUnprocessableEntity).shows("auth_header: must be given again")
}

func TestActsCallTheAPIAndLeadBack(t *testing.T) {
	page := "/portal/endpoints/" + own
	for act, operation := range map[string]string{"pause": "pause", "resume": "resume", "enable": "enable"} {
		f := newFixture(t)
		f.answer("POST "+T+"/subscriptions/"+own+"/"+operation, map[string]any{})
		f.post(page+"/"+act, nil).redirects(page)
		f.called("POST " + T + "/subscriptions/" + own + "/" + operation)
		f.get(page).shows(`class="notice ok" role="status"`)
		f.get(page).lacks(`class="notice ok" role="status"`)
	}
	f := newFixture(t)
	f.answer("DELETE "+T+"/subscriptions/"+own, map[string]any{})
	f.post(page+"/delete", nil).redirects("/portal")
	f.answer("POST "+T+"/subscriptions/"+own+"/test", client.SubscriptionTested{Delivered: true, DeliveryID: ownDelivery, StatusCode: new(int64(204)), DurationMs: 31})
	f.post(page+"/test", nil).redirects("/portal/deliveries/" + ownDelivery)
	f.get("/portal/deliveries/" + ownDelivery).shows("answered 204 in 31 ms")
	f.answer("POST "+T+"/deliveries/"+ownDelivery+"/retry", map[string]any{})
	f.post("/portal/deliveries/"+ownDelivery+"/retry", nil).redirects("/portal/deliveries/" + ownDelivery)
	f.answer("POST "+T+"/subscriptions/"+own+"/rotate-secret", client.SecretRotated{SigningSecret: "whsec_next", PreviousExpiresAt: new(today)})
	f.post(page+"/rotate", nil).is(http.StatusOK).shows("whsec_next", "31 January 2026, 14:02 UTC")
	f.get(page).lacks("whsec_next")
	f.answer("POST "+T+"/subscriptions/"+own+"/replays/"+ownReplay+"/cancel", map[string]any{})
	f.post(page+"/replays/"+ownReplay+"/cancel", nil).redirects(page)
	f.post(page+"/replays/x/cancel", nil).is(http.StatusNotFound)
}

func TestReplayShowsAnEstimateBeforeItStarts(t *testing.T) {
	f := newFixture(t)
	page := "/portal/endpoints/" + own + "/replay"
	f.get(page).is(http.StatusOK).shows(`value="2026-01-30T14:02"`).lacks("Start the replay<")
	f.get(page+"?since=2026-01-31T10:00&what=failed").is(http.StatusOK).shows("<strong>1 delivery</strong>", "an estimate", "Start the replay<")
	if got := f.called("GET " + T + "/subscriptions/" + own + "/deliveries").Query; !strings.Contains(got, "status=dead") || !strings.Contains(got, "created_after=2026-01-31T10") {
		t.Errorf("query of the estimate, got %q", got)
	}
	f.get(page + "?since=yesterday").is(http.StatusUnprocessableEntity).shows("enter a time")
	f.changesNothing()
	f.answer("POST "+T+"/subscriptions/"+own+"/replay", client.ReplayStarted{ReplayID: ownReplay, Estimated: 7})
	f.post(page, url.Values{"since": {"2026-01-31T10:00"}, "until": {"2026-01-31T11:00"}, "what": {"missing"}}).redirects("/portal/endpoints/" + own)
	const want = `{"missing":true,"since":"2026-01-31T10:00:00Z","status":["dead"],"until":"2026-01-31T11:00:00Z"}`
	if got := f.called("POST " + T + "/subscriptions/" + own + "/replay").Body; got != want {
		t.Errorf("body, got %s, want %s", got, want)
	}
}

func TestTextOfSendersIsText(t *testing.T) {
	f := newFixture(t)
	f.answer("GET "+T+"/subscriptions/"+own, client.Subscription{ID: own, Name: attack, URL: attack, ScopeFilter: []string{scope}, EventTypes: []string{attack},
		Headers: map[string]string{attack: attack}, Transform: &client.Transform{Expression: attack}, Status: "disabled", DisabledBy: new("failures"), MissedCount: new(int64(41))})
	f.answer("GET "+T+"/subscriptions/"+own+"/deliveries", client.DeliveryPage{Items: []client.Delivery{{ID: ownDelivery, EventType: attack, LastError: new(attack), Status: "failed"}}})
	f.get("/portal/endpoints/"+own).is(http.StatusOK).shows("&lt;script&gt;alert", "41 deliveries were missed", "Recover<").lacks("<script>alert")
	f.get("/portal/endpoints/" + own + "/edit").is(http.StatusOK).lacks("<script>alert")
	f.answer("GET "+T+"/deliveries/"+ownDelivery, client.DeliveryDetail{ID: ownDelivery, SubscriptionID: new(own), EventType: attack,
		Attempts: []client.DeliveryAttempt{{StartedAt: today, Error: new(attack), ResponseExcerpt: new(attack)}}})
	body, _ := json.Marshal(map[string]string{attack: attack})
	f.answer("GET "+T+"/deliveries/"+ownDelivery+"/request", client.DeliveryRequest{BodyBase64: body, Headers: map[string]string{attack: attack}})
	f.get("/portal/deliveries/" + ownDelivery).is(http.StatusOK).shows("&lt;script&gt;alert").lacks("<script>alert")
	f.answer("GET "+T+"/event-types", client.EventTypePage{Items: []client.EventType{{Name: attack, Visibility: "portal", Description: attack, Category: attack, Schema: map[string]any{"const": attack}}}})
	f.get("/portal/types").is(http.StatusOK).lacks("<script>alert")
	f.get("/portal/endpoints/new").is(http.StatusOK).lacks("<script>alert")
}

func TestPartsAreRefreshedOnlyWhileSomethingIsInProgress(t *testing.T) {
	f := newFixture(t)
	f.get("/portal/endpoints/" + own).lacks("data-refresh")
	f.answer("GET "+T+"/subscriptions/"+own+"/replays", client.ReplayPage{Items: []client.Replay{{ID: ownReplay, Status: "running", Estimated: 10, Sent: 4}}})
	f.get("/portal/endpoints/"+own).shows("data-refresh", "/replays/"+ownReplay+"/cancel")
}

func TestPageOfADeliveryShowsNoHeadersOfTheNextAttempt(t *testing.T) {
	f := newFixture(t)
	f.answer("GET "+T+"/deliveries/"+ownDelivery+"/request", client.DeliveryRequest{BodyBase64: []byte(`{}`),
		Headers: map[string]string{"Webhook-Id": "1", "Webhook-Timestamp": "2", "X-Acme-Attempt": "3"}})
	f.get("/portal/deliveries/"+ownDelivery).is(http.StatusOK).shows("Webhook-Id").lacks("Webhook-Timestamp", "X-Acme-Attempt")
}

func TestRefreshOfADeliveryReadsNoRequest(t *testing.T) {
	f := newFixture(t)
	r := f.request(http.MethodGet, "/portal/deliveries/"+ownDelivery, nil)
	r.Header.Set("HX-Request", "true")
	f.do(r).is(http.StatusOK)
	for _, c := range f.api.calls {
		if strings.HasSuffix(c.Call, "/request") {
			t.Errorf("the page called %s", c.Call)
		}
	}
}

func TestDeliveryWithoutStoredContentIsShown(t *testing.T) {
	f := newFixture(t)
	f.answer("GET "+T+"/deliveries/"+ownDelivery+"/request", &client.Problem{Status: http.StatusConflict})
	f.get("/portal/deliveries/" + ownDelivery).is(http.StatusOK).shows("no longer stored")
}

func TestExampleFitsItsSchema(t *testing.T) {
	for _, c := range []struct{ schema, want string }{
		{`{"type":"object","properties":{"id":{"type":"string","format":"uuid"},"tags":{"type":"array","items":{"enum":["new"]}},"ok":{"type":["null","boolean"]}}}`,
			`{"id":"01a2c84f-0000-7000-8000-000000000001","ok":true,"tags":["new"]}`},
		{`{"examples":[{"a":1}],"type":"object"}`, `{"a":1}`},
		{`{"oneOf":[{"const":"a"},{"const":"b"}]}`, `"a"`},
		{`{"type":"integer","minimum":5}`, `5`},
		{`{"type":"array"}`, `[]`},
		{`{}`, `null`},
	} {
		var schema any
		if err := json.Unmarshal([]byte(c.schema), &schema); err != nil {
			t.Fatal(err)
		}
		if got, _ := json.Marshal(portal.SchemaExample(schema)); string(got) != c.want {
			t.Errorf("example of %s, got %s, want %s", c.schema, got, c.want)
		}
	}
}

// Only the sender knows the network of its agents, so only the sender chooses where they send.
func TestEndpointForAgentsKeepsItsURL(t *testing.T) {
	f := newFixture(t)
	e := client.Subscription{ID: own, Name: "Inside", URL: "https://svc.example/…", Status: "active", ScopeFilter: []string{scope},
		EventTypes: []string{"order.created"}, Version: 3, TargetLabels: []string{"env:prod"}}
	f.answer("GET "+T+"/subscriptions/"+own, e)
	f.answer("PATCH "+T+"/subscriptions/"+own, e)
	edit := "/portal/endpoints/" + own + "/edit"
	f.get(edit).is(http.StatusOK).shows(`id="f-url" value="https://svc.example/…" readonly`, "To change it, ask the sender").lacks(`name="url"`)
	for _, to := range []string{"http://169.254.169.254/latest/meta-data", "https://svc.example/other"} {
		f.post(edit, url.Values{"name": {"Inside"}, "url": {to}, "event_types": {"order.created"}, "version": {"3"}}).
			is(http.StatusUnprocessableEntity).shows("is set by the sender").lacks("169.254")
	}
	f.changesNothing()
	f.post(edit, url.Values{"name": {"Within"}, "event_types": {"order.created"}, "version": {"3"}}).redirects("/portal/endpoints/" + own)
	if body := f.called("PATCH " + T + "/subscriptions/" + own).Body; strings.Contains(body, "url") || !strings.Contains(body, "Within") {
		t.Errorf("the change is %s, want a name and no url", body)
	}
}
