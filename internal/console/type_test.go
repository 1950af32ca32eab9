package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/client"
)

func TestCatalogueIsGroupedAndFiltered(t *testing.T) {
	f := newFixture(t)
	f.answer("GET "+T+"/event-types", client.EventTypePage{Items: []client.EventType{{Name: "agent.online", Category: "eventhook", IsBuiltin: true, Visibility: "tenant"},
		{Name: "payment.made", Category: "payments", Description: attack, Visibility: "tenant"}, {Name: "refund.made", Category: attack, Visibility: "admin"}}})
	page := f.get("/console/t/acme/types").is(http.StatusOK).lacks("<script>alert", "No event types of your own").shows("/types/payment.made", "own events")
	if strings.Index(page.body, "agent.online") < strings.Index(page.body, "payment.made") {
		t.Error("the gateway's own types, got before the tenant's, want after them")
	}
	f.get("/console/t/acme/types?name=PAY&category=payments&visibility=tenant").shows("payment.made").lacks("agent.online", "refund.made")
	f.get("/console/t/acme/types?visibility=admin").shows("refund.made").lacks("payment.made")
	f.get("/console/t/acme/types?name=x").shows("No event type matches")
}

func TestTypeShowsItsSchemaAndTheLastEvent(t *testing.T) {
	f := newFixture(t)
	f.answer("GET "+T+"/event-types/payment.made", client.EventType{Name: "payment.made", Description: attack, Schema: map[string]any{"title": attack}, Visibility: "tenant"})
	f.answer("GET "+T+"/events", client.EventPage{Items: []client.Event{{ID: "e1", ReceivedAt: today}}})
	f.answer("GET "+T+"/events/e1", client.EventDetail{ID: "e1", Body: asJSON(map[string]any{"note": attack})})
	f.get("/console/t/acme/types/payment.made").is(http.StatusOK).lacks("<script>alert").
		shows("/events/e1", "events?event_type=payment.made", "/payment.made/publish", "/payment.made/delete", "note")
	if got, want := f.called("GET "+T+"/events").Query, "event_type=payment.made&limit=1"; got != want {
		t.Errorf("query, got %q, want %q", got, want)
	}
}

func TestBuiltInTypeHasNoActs(t *testing.T) {
	f := newFixture(t)
	f.answer("GET "+T+"/event-types/agent.online", client.EventType{Name: "agent.online", IsBuiltin: true, Visibility: "tenant"})
	f.get("/console/t/acme/types/agent.online").is(http.StatusOK).lacks("/publish", "/delete", "/edit").shows("none is stored", "has no schema")
}

func TestTestEventIsPublished(t *testing.T) {
	f := newFixture(t)
	f.answer("GET "+T+"/event-types/payment.made", client.EventType{Name: "payment.made"})
	f.answer("POST "+T+"/events", client.EventPublished{EventID: "e1", Deliveries: 2})
	f.post("/console/t/acme/types/payment.made/publish", url.Values{"data": {`{"n":1}`}, "scope": {"customer-42"}}).redirects("/console/t/acme/events/e1")
	if got, want := f.called("POST "+T+"/events").Body, `{"data":{"n":1},"event_type":"payment.made","scope":"customer-42"}`; got != want {
		t.Errorf("body, got %s, want %s", got, want)
	}
	f.post("/console/t/acme/types/payment.made/publish", url.Values{"data": {attack}}).is(422).shows("is not valid JSON").lacks("<script>alert")
	f.post("/console/t/acme/types/payment.made/publish", url.Values{"data": {""}}).is(422).shows("is required")
}

func TestTypeIsSavedAndDeleted(t *testing.T) {
	f := newFixture(t)
	f.get("/console/t/acme/new-type").is(http.StatusOK).shows("Describe an event type").lacks(`<option value="admin"`)
	f.answer("PUT "+T+"/event-types/payment.made", client.EventType{}, &client.Problem{Title: "Unprocessable", Status: 422, Errors: []client.Fault{{Location: "body.schema.type", Message: "is no type"}}})
	f.post("/console/t/acme/new-type", url.Values{"name": {"payment.made"}, "visibility": {"tenant"}, "schema": {`{"maximum":12345678901234567890}`}}).
		redirects("/console/t/acme/types/payment.made")
	if got, want := f.called("PUT "+T+"/event-types/payment.made").Body,
		`{"category":"","description":"","schema":{"maximum":12345678901234567890},"visibility":"tenant"}`; got != want {
		t.Errorf("body, got %s, want %s", got, want)
	}
	f.post("/console/t/acme/types/payment.made/edit", url.Values{"schema": {"{}"}, "description": {attack}}).is(422).shows("is no type").lacks("<script>alert")
	f.post("/console/t/acme/new-type", url.Values{"schema": {"[]"}}).is(422).shows("is not a JSON object", "is not the name")
	f.answer("DELETE "+T+"/event-types/payment.made", nil)
	f.post("/console/t/acme/types/payment.made/delete", nil).redirects("/console/t/acme/types")
}

func TestEditedTypeKeepsItsSchema(t *testing.T) {
	f := newFixtureOf(t, adminOf)
	f.answer("GET "+T+"/event-types/payment.made", client.EventType{Name: "payment.made", Description: "A payment.", Schema: map[string]any{"type": "object"}, Visibility: "admin"})
	f.get("/console/t/acme/types/payment.made/edit").is(http.StatusOK).shows("A payment.", "&#34;type&#34;: &#34;object&#34;", `<option value="admin" selected`)
}
