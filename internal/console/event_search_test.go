package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook/client"
)

const searchPage = "/console/t/acme/events/search"

func TestSearchBuildsTheFilterFromItsRows(t *testing.T) {
	for _, c := range []struct{ query, want string }{
		{"path=body.id&op=%24eq&value=cus_42", `{"body.id":{"$eq":"cus_42"}}`},
		{"path=body.id&op=%24eq&value=12345678901234567890", `{"body.id":{"$eq":12345678901234567890}}`},
		{"path=body.id&op=%24eq&value=%2242%22", `{"body.id":{"$eq":"42"}}`},
		{"path=body.id&op=%24startsWith&value=42", `{"body.id":{"$startsWith":"42"}}`},
		{"path=body.id&op=%24exists&value=false", `{"body.id":{"$exists":false}}`},
		{"path=body.id&op=%24exists&value=", `{"body.id":{"$exists":true}}`},
		{"path=body.id&op=%24in&value=1,+b", `{"body.id":{"$in":[1,"b"]}}`},
		{"path=body.id&op=%24in&value=[1,2]", `{"body.id":{"$in":[1,2]}}`},
		{"path=body.id&op=evil&value=a", `{"body.id":{"$eq":"a"}}`},
		{"path=&op=%24eq&value=&path=body.id&op=%24gte&value=5", `{"body.id":{"$gte":5}}`},
		{"path=a&op=%24gt&value=1&path=a&op=%24lt&value=3", `{"$and":[{"a":{"$gt":1}},{"a":{"$lt":3}}]}`},
		{"path=a&op=%24gt&value=1&filter=" + url.QueryEscape(`{"b": 2}`), `{"$and":[{"a":{"$gt":1}},{"b":2}]}`},
	} {
		f := newFixture(t)
		f.answer("POST "+T+"/events/search", client.EventsFound{})
		f.get(searchPage + "?wait=yes&" + c.query).is(http.StatusOK)
		if got, want := f.called("POST "+T+"/events/search").Body, `{"filter":`+c.want+`,"limit":50,"received_after":"2026-01-30T14:02:00Z"}`; got != want {
			t.Errorf("%s: body, got %s, want %s", c.query, got, want)
		}
	}
}

func TestSearchSaysHowFarItCame(t *testing.T) {
	f := newFixture(t)
	f.get(searchPage).is(http.StatusOK).shows("Find events by their content", "2026-01-30T14:02:00")
	f.answer("POST "+T+"/events/search", client.EventsFound{Items: []client.Event{{ID: "e1", EventType: attack, ReceivedAt: today}}, Scanned: 200000,
		ScannedUntil: new(today.Add(-time.Hour)), NextCursor: new("next")}, client.EventsFound{Scanned: 7, ScannedUntil: new(today)})
	f.get(searchPage+"?wait=yes&path=a&op=%24eq&value="+url.QueryEscape(attack)).is(http.StatusOK).lacks("<script>alert").
		shows("1 event matches in this part", "200\u202f000 events were", "back to", "2026-01-31T13:02:11Z", "not searched yet", "Search further", "cursor=next", "received_after=2026-01-30T14")
	f.get(searchPage+"?wait=yes&path=a&op=%24eq&value=1&cursor=next").shows("The whole time span is searched", "No event matches in this part", "First part").lacks("Search further")
}

func TestASearchAppearsBeforeItsResults(t *testing.T) {
	f := newFixture(t)
	search := searchPage + "?path=a&op=%24eq&value=1"
	f.get(search).is(http.StatusOK).shows("Searching", `hx-trigger="load"`, `value="1"`, "wait=yes").lacks("No event matches")
	if calls := strings.Join(f.calls(), " "); strings.Contains(calls, "search") {
		t.Errorf("calls before the page appears, got %s, want no search", calls)
	}
	f.answer("POST "+T+"/events/search", client.EventsFound{Items: []client.Event{}, NextCursor: new("next")})
	part := f.request(http.MethodGet, search, nil)
	part.Header.Set("HX-Request", "true")
	f.do(part).is(http.StatusOK).shows("No event matches", "cursor=next").lacks("Searching", "wait=yes")
}

func TestSearchShowsFaultsAtItsFields(t *testing.T) {
	f := newFixture(t)
	f.get(searchPage+"?filter=[1]").is(http.StatusUnprocessableEntity).shows("is not a JSON object", `<details open><summary>Filter as JSON`)
	if calls := strings.Join(f.calls(), " "); strings.Contains(calls, "search") {
		t.Errorf("calls, got %s, want no search", calls)
	}
	f.answer("POST "+T+"/events/search", &client.Problem{Title: "Unprocessable Entity", Status: 422, Errors: []client.Fault{
		{Location: "body.filter.x", Message: attack}, {Location: "body.received_before", Message: "must be after received_after"}}})
	f.get(searchPage+"?wait=yes&path=x&op=%24eq&value=1&received_before=2026-01-01T00:00:00").is(http.StatusUnprocessableEntity).lacks("<script>alert").
		shows("must be after received_after", "filter.x: ", `value="x"`, `value="2026-01-01T00:00:00"`)
}

// calls returns the calls of the API.
func (f *fixture) calls() (calls []string) {
	for _, c := range f.api.calls {
		calls = append(calls, c.Call)
	}
	return calls
}
