package console_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/eventhook/eventhook/client"
)

const attack = `"><script>alert(1)</script>`

func TestEventListShowsTextOfSendersAsText(t *testing.T) {
	f := newFixture(t)
	f.answer("GET "+T+"/events", client.EventPage{Items: []client.Event{{ID: "01a2c84f-0000-7000-8000-000000000001", EventType: attack, LastError: new(attack),
		Status: "dead", Source: new("github"), ReceivedAt: today}}})
	f.get("/console/t/acme/events").is(http.StatusOK).lacks("<script>alert").shows("&lt;script&gt;alert", `<span class="status failed">`)
}

func TestEventListPassesItsFiltersToTheAPI(t *testing.T) {
	f := newFixture(t)
	f.answer("GET "+T+"/events", client.EventPage{NextCursor: new("abc")})
	f.get("/console/t/acme/events?status=dead&source=github&received_after=2026-01-31T10:00").is(http.StatusOK).
		shows("No event matches these filters")
	if got, want := f.called("GET "+T+"/events").Query, "limit=50&received_after=2026-01-31T10%3A00%3A00Z&source=github&status=dead"; got != want {
		t.Errorf("query, got %q, want %q", got, want)
	}
	f.get("/console/t/acme/events?received_after=yesterday").is(http.StatusBadRequest).shows("received_after", "2026-01-31T14:02:00Z")
}

func TestChosenEventsAreProcessedAgain(t *testing.T) {
	f := newFixture(t)
	f.answer("POST "+T+"/events/reprocess", client.EventsReprocessed{ReprocessedCount: 1})
	f.post("/console/t/acme/events/reprocess", url.Values{"selected": {"a", "b"}, "mode": {"again"}}).redirects("/console/t/acme/events")
	if got, want := f.called("POST "+T+"/events/reprocess").Body, `{"event_ids":["a","b"],"mode":"again"}`; got != want {
		t.Errorf("body, got %s, want %s", got, want)
	}
}

func TestReadKeySeesNoAct(t *testing.T) {
	f := newFixtureOf(t, client.Identity{Type: "tenant", Name: "reader", Tenant: &client.IdentityTenant{Slug: "acme"}, Scopes: []string{"read"}})
	f.answer("GET "+T+"/events", client.EventPage{Items: []client.Event{{ID: "a", ReceivedAt: today}}})
	f.get("/console/t/acme/events").is(http.StatusOK).lacks("data-bulk", `type="checkbox"`)
}

func TestActWithoutTokenIsRefused(t *testing.T) {
	f := newFixture(t)
	f.post("/console/t/acme/events/reprocess", url.Values{"csrf": {"wrong"}}).is(http.StatusForbidden).shows("The form has expired")
	if len(f.api.calls) > 0 {
		t.Errorf("calls of the API, got %v, want none", f.api.calls)
	}
}
