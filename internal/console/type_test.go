package console_test

import (
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/client"
)

func TestCatalogueIsGroupedAndFiltered(t *testing.T) {
	f := newFixture(t)
	f.answer("GET "+T+"/event-types", client.EventTypePage{Items: []client.EventType{{Name: "agent.online", Category: "eventhook", IsBuiltin: true, Visibility: "tenant"},
		{Name: "payment.made", Category: "payments", Description: attack, Visibility: "tenant", Schema: map[string]any{"type": "object"}}, {Name: "refund.made", Category: attack, Visibility: "admin"}}})
	page := f.get("/console/t/acme/types").is(http.StatusOK).lacks("<script>alert", "No event types of your own").shows("/types/payment.made", "own events", "<td>yes</td>")
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
	if got, want := f.called("GET "+T+"/events/e1").Query, "max_body_bytes=65536"; got != want {
		t.Errorf("query of the example, got %q, want %q", got, want)
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

// fields returns the fields of the form of a page that has visibility, as a browser sends them without a
// change.
func (r reply) fields() url.Values {
	r.Helper()
	v := url.Values{}
	for _, m := range regexp.MustCompile(`<input [^>]*name="([^"]+)"[^>]* value="([^"]*)"`).FindAllStringSubmatch(r.main(), -1) {
		v.Set(m[1], html.UnescapeString(m[2]))
	}
	for _, m := range regexp.MustCompile(`(?s)<textarea [^>]*name="([^"]+)"[^>]*>(.*?)</textarea>`).FindAllStringSubmatch(r.main(), -1) {
		v.Set(m[1], html.UnescapeString(m[2]))
	}
	options := regexp.MustCompile(`(?s)<select [^>]*name="visibility".*?</select>`).FindString(r.main())
	chosen := regexp.MustCompile(`<option value="([^"]*)" selected`).FindStringSubmatch(options)
	if chosen == nil { // a browser sends the first option
		chosen = regexp.MustCompile(`<option value="([^"]*)"`).FindStringSubmatch(options)
	}
	v.Set("visibility", chosen[1])
	return v
}

func TestEditWithoutAChangeChangesNothing(t *testing.T) {
	for _, c := range []struct {
		who        client.Identity
		visibility string
	}{{adminOf, "portal"}, {adminOf, "tenant"}, {adminOf, "admin"}, {client.Identity{Type: "tenant", Tenant: &client.IdentityTenant{Slug: "acme"}, Scopes: []string{"read", "manage"}}, "portal"}} {
		f := newFixtureOf(t, c.who)
		schema := map[string]any{"type": "object", "description": attack + strings.Repeat("x", 70_000)}
		f.answer("GET "+T+"/event-types/payment.made", client.EventType{Name: "payment.made", Description: "A payment.", Category: "payments", Schema: schema, Visibility: client.EventTypeVisibility(c.visibility)})
		f.answer("PUT "+T+"/event-types/payment.made", client.EventType{})
		f.post("/console/t/acme/types/payment.made/edit", f.get("/console/t/acme/types/payment.made/edit").fields()).redirects("/console/t/acme/types/payment.made")
		want, _ := json.Marshal(map[string]any{"category": "payments", "description": "A payment.", "schema": schema, "visibility": c.visibility})
		if got := f.called("PUT " + T + "/event-types/payment.made").Body; got != string(want) {
			t.Errorf("%s: body, got %.200s… of %d bytes, want %.200s… of %d bytes", c.visibility, got, len(got), want, len(want))
		}
	}
	f := newFixtureOf(t, adminOf)
	f.answer("GET "+T+"/event-types/payment.made", client.EventType{Name: "payment.made", Visibility: "portal"})
	f.get("/console/t/acme/types/payment.made").shows("its customers in the portal")
}

func TestEditedTypeKeepsItsSchema(t *testing.T) {
	f := newFixtureOf(t, adminOf)
	f.answer("GET "+T+"/event-types/payment.made", client.EventType{Name: "payment.made", Description: "A payment.", Schema: map[string]any{"type": "object"}, Visibility: "admin"})
	f.get("/console/t/acme/types/payment.made/edit").is(http.StatusOK).shows("A payment.", "&#34;type&#34;: &#34;object&#34;", `<option value="admin" selected`)
}
