package console_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/eventhook/eventhook/client"
)

const (
	planPage      = "/console/t/acme/events/reprocess"
	reprocessCall = "POST " + T + "/events/reprocess"
)

// counted is the API's refusal of an expected count.
func countedEvents(message string) *client.Problem {
	return &client.Problem{Title: "Conflict", Status: http.StatusConflict, Detail: "The filter matches another number of events. Nothing was changed.",
		Errors: []client.Fault{{Location: "body.expected_count", Message: message}}}
}

func TestReprocessByFilterCountsFirst(t *testing.T) {
	f := newFixture(t)
	f.answer(reprocessCall, countedEvents("is 0, but 1284 match"))
	f.get(planPage+"?source=github&status=dead&received_after=2026-01-31T10:00:00Z").is(http.StatusOK).
		shows("1\u202f284 events match", "Counted by the gateway", "newest 1\u202f000", `name="expected_count" value="1284"`, "Reprocess 1\u202f000 events?", `value="2026-01-31T10:00:00"`)
	if got, want := f.called(reprocessCall).Body, `{"expected_count":0,"filter":{"received_after":"2026-01-31T10:00:00Z","source":"github","status":["dead"]},"limit":1000,"mode":"retry"}`; got != want {
		t.Errorf("body, got %s, want %s", got, want)
	}
	f.answer(reprocessCall, client.EventsReprocessed{})
	f.get(planPage + "?mode=again").is(http.StatusOK).shows("No event matches")
}

func TestReprocessByFilterExpectsTheCountItShowed(t *testing.T) {
	f := newFixture(t)
	f.answer(reprocessCall, countedEvents("is 4, but 5 match"), countedEvents("is 0, but 5 match"), client.EventsReprocessed{ReprocessedCount: 5})
	sent := url.Values{"source": {"github"}, "mode": {"again"}, "expected_count": {"4"}}
	f.post(planPage+"/all", sent).is(http.StatusUnprocessableEntity).shows("Nothing was changed", "5 events match", `value="5"`, "Run 5 events again?")
	sent.Set("expected_count", "5")
	f.post(planPage+"/all", sent).redirects("/console/t/acme/events?source=github")
	if got, want := f.called(reprocessCall).Body, `{"expected_count":5,"filter":{"source":"github"},"limit":1000,"mode":"again"}`; got != want {
		t.Errorf("body, got %s, want %s", got, want)
	}
}

func TestOtherConflictsOfReprocessingAreErrors(t *testing.T) {
	f := newFixture(t)
	f.answer(reprocessCall, &client.Problem{Title: "Conflict", Status: http.StatusConflict, Detail: "The tenant is closed."})
	f.get(planPage).is(http.StatusConflict).shows("The tenant is closed.")
}

func TestEventListOffersWhatTheAPICanReprocess(t *testing.T) {
	f := newFixture(t)
	f.answer("GET "+T+"/events", client.EventPage{})
	f.get("/console/t/acme/events?source=github&status=delivered").shows("/console/t/acme/events/reprocess?mode=again&amp;source=github&amp;status=delivered", "/console/t/acme/events/search")
	f.get("/console/t/acme/events?source=github&scope=a").lacks("events/reprocess?").shows(`<details class="more" open>`)
	f.get("/console/t/acme/events?status=pending").lacks("Reprocess by filter").shows(`<details class="more">`)
	f.get("/console/t/acme/events?received_after=2026-01-31T10:00:00.25%2B01:00").shows(`step="0.001" value="2026-01-31T09:00:00.25"`)
}

func TestReprocessingReturnsToTheFilters(t *testing.T) {
	f := newFixture(t)
	f.answer(reprocessCall, client.EventsReprocessed{ReprocessedCount: 1, Skipped: []client.EventSkipped{{EventID: "b", Reason: "it is open"}}})
	f.post("/console/t/acme/events/reprocess", url.Values{"selected": {"a", "b"}, "filters": {"source=github&selected=a&to=//evil.example"}}).
		redirects("/console/t/acme/events?source=github")
}
