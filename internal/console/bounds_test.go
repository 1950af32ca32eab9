package console_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/client"
)

// mostHTML is the largest page that a hostile body may make, without compression.
const mostHTML = 512 << 10

// hostileBodies are documents that are small, or large, and would make a large page.
func hostileBodies() map[string]string {
	const depth = 9_990
	return map[string]string{
		"deep lists":   strings.Repeat("[", depth) + strings.Repeat("]", depth),
		"deep objects": strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth),
		"many objects": "[" + strings.Repeat(`{"b":1},`, 4000) + "0]",
		"quotes":       `["` + strings.Repeat(`\"`, 30_000) + `"]`,
	}
}

// isSmall fails the test unless a page has at most mostHTML bytes.
func (r reply) isSmall(name string) reply {
	r.Helper()
	if len(r.body) > mostHTML {
		r.Errorf("%s: the page has %d bytes, want at most %d", name, len(r.body), mostHTML)
	}
	return r
}

func TestPageOfAnEventIsSmall(t *testing.T) {
	for name, body := range hostileBodies() {
		e := failedEvent()
		e.Body, e.BodySize = json.RawMessage(body), int64(len(body))
		f := storyFixture(t, e)
		f.payload(body)
		for _, tab := range []string{"", "tree", "raw", "headers"} {
			page := f.get(eventPage + "?payload=" + tab).is(http.StatusOK).isSmall(name + ", tab " + tab)
			if hasTree, hasText := strings.Contains(page.body, `<div class="tree">`), strings.Contains(page.body, `aria-label="Body"`); hasTree && tab == "raw" || hasText == (tab != "raw") {
				t.Errorf("%s, tab %s: shows a tree: %v, and a text: %v", name, tab, hasTree, hasText)
			}
		}
	}
}

func TestPageReadsTheBeginningOfALargeBody(t *testing.T) {
	e := failedEvent()
	e.Body, e.BodyLeftOut, e.BodySize = nil, new(true), 31<<20
	f := storyFixture(t, e)
	f.payload(`[` + strings.Repeat(`{"b":1},`, 9_000)) // 72 KB: more than the page asks for
	f.get(eventPage).is(http.StatusOK).isSmall("large").shows(`<div class="tree">`, "first part of this document", `<span class="number">1</span>`)
	if got, want := f.called("GET "+eventCall).Query, "max_body_bytes=65536"; got != want {
		t.Errorf("event, got the query %q, want %q", got, want)
	}
	if got, want := f.called("GET "+eventCall+"/payload").Query, "max_bytes=65537"; got != want {
		t.Errorf("payload, got the query %q, want %q", got, want)
	}
	f.get(eventPage + "?payload=raw").shows("The body has 31 MB; this is its beginning.")
	if got, want := f.called("GET "+eventCall).Query, "max_body_bytes=0"; got != want {
		t.Errorf("event of the raw form, got the query %q, want %q", got, want)
	}
	f.payload("\x1f\x8bcompressed")
	f.get(eventPage + "?payload=tree").shows("The body has 31 MB, which is too large for a tree.")
}

func TestRefreshOfAnEventReadsNoBody(t *testing.T) {
	e := failedEvent()
	e.Outcome, e.Status = "in_progress", "processing"
	f := storyFixture(t, e)
	r := f.request(http.MethodGet, eventPage, nil)
	r.Header.Set("HX-Request", "true")
	f.do(r).is(http.StatusOK).shows(`id="story"`)
	if got, want := f.called("GET "+eventCall).Query, "max_body_bytes=0"; got != want {
		t.Errorf("event, got the query %q, want %q", got, want)
	}
	if slices.ContainsFunc(f.api.calls, func(c apiCall) bool { return strings.HasSuffix(c.Call, "/payload") }) {
		t.Errorf("a refresh reads the payload: %v", f.api.calls)
	}
}

func TestRoutesOfALargeEventAreTestedOnDemand(t *testing.T) {
	e := failedEvent()
	e.Status, e.Outcome, e.Actions, e.BodySize = "unrouted", "succeeded", nil, 65537
	f := storyFixture(t, e)
	f.get(eventPage).is(http.StatusOK).shows("Test today&#39;s routes to see the reasons").lacks("amount 4200")
	f.get(eventPage + "?routes=inputs").shows("amount 4200")
}

func TestInputsOfTargetsAreBounded(t *testing.T) {
	f := storyFixture(t, failedEvent())
	deep := json.RawMessage(hostileBodies()["deep lists"])
	routes := make([]client.RouteExplanation, 50)
	for i := range routes {
		routes[i] = client.RouteExplanation{Name: "r", Matched: true, Actions: []client.ActionExplanation{{TargetType: "task", Input: deep}, {TargetType: "task", Input: deep}}}
	}
	f.answer("POST "+eventCall+"/test", client.EventTest{Routes: routes})
	f.get(eventPage+"?routes=inputs").is(http.StatusOK).isSmall("inputs").shows("The input is too large for this page.", `aria-label="Input"`)
	g := newSourceFixture(t)
	g.answer("POST "+hooks+"/test", client.Explanation{Routes: routes})
	g.post("/console/t/acme/sources/github/test", url.Values{"method": {"POST"}, "body": {"{}"}}).is(http.StatusOK).isSmall("inputs").shows("too large to be shown")
}

func TestOtherPagesWithDocumentsAreSmall(t *testing.T) {
	for name, body := range hostileBodies() {
		raw := json.RawMessage(body)
		f := newRouteFixture(t)
		f.answer("GET "+T+"/deliveries/d1", client.DeliveryDetail{ID: "d1", SubscriptionID: new("s1")})
		f.answer("GET "+T+"/deliveries/d1/request", client.DeliveryRequest{Method: "POST", BodyBase64: raw[:min(len(raw), 64<<10)], BodySize: int64(len(raw))})
		f.answer("GET "+T+"/work/x1", client.Execution{ID: "x1", Input: &raw, State: &raw, Output: &raw})
		f.answer("GET "+T+"/promises/p1", client.Promise{ID: "p1", Value: raw})
		f.answer("GET "+T+"/event-types/deep", client.EventType{Name: "deep", Schema: map[string]any{"a": raw}})
		f.answer("GET "+T+"/events/e1", client.EventDetail{ID: "e1", EventType: "push", Body: raw, BodySize: int64(len(raw)), ContentType: "application/json"})
		for _, path := range []string{"deliveries/d1", "promises/p1", "types/deep", "sources/github/routes/new"} {
			f.get("/console/t/acme/" + path).is(http.StatusOK).isSmall(name + ", " + path).lacks("\uFFFD")
		}
		if page := f.get("/console/t/acme/work/x1").is(http.StatusOK); len(page.body) > 3*mostHTML {
			t.Errorf("%s: the page of an execution with 3 documents has %d bytes", name, len(page.body))
		}
		form := formOfFirst()
		form.Set("event", "")
		form.Set("payload", body)
		if page := f.post("/console/t/acme/sources/github/routes/form", form).is(http.StatusOK); len(page.body) > mostHTML+5*len(body) {
			t.Errorf("%s: the editor with a pasted payload has %d bytes", name, len(page.body))
		}
	}
}

func TestSearchWithADeepFilterIsSmall(t *testing.T) {
	f := newFixture(t)
	f.answer("POST "+T+"/events/search", client.EventsFound{})
	deep := strings.Repeat(`{"$and":[`, 350) + `{"a":1}` + strings.Repeat("]}", 350)
	f.get("/console/t/acme/events/search?wait=yes&filter=" + url.QueryEscape(deep)).is(http.StatusOK).isSmall("search")
}

func TestLargeEventIsNotTriedInTheEditor(t *testing.T) {
	f := newRouteFixture(t)
	f.answer("GET "+T+"/events/e1", client.EventDetail{ID: "e1", EventType: "push", BodySize: 31 << 20, BodyLeftOut: new(true)})
	f.get("/console/t/acme/sources/github/routes/r-1?event=e1").is(http.StatusOK).shows("The body of this event has 31 MB, which is too large to be tried here.").lacks("This event matches")
	if got, want := f.called("GET "+T+"/events/e1").Query, "max_body_bytes=262144"; got != want {
		t.Errorf("event, got the query %q, want %q", got, want)
	}
	form := formOfFirst()
	form.Set("event", "")
	form.Set("payload", `"`+strings.Repeat("x", 256<<10)+`"`)
	f.post("/console/t/acme/sources/github/routes/form", form).shows("The pasted payload is too large")
}

func TestDeliveryShowsTheBeginningOfALargeBody(t *testing.T) {
	f := newFixture(t)
	f.answer("GET "+T+"/deliveries/d1", client.DeliveryDetail{ID: "d1", SubscriptionID: new("s1")})
	f.answer("GET "+T+"/deliveries/d1/request", client.DeliveryRequest{Method: "POST", BodyBase64: []byte(`["é","` + strings.Repeat("é", 4096))[:4096], BodySize: 1 << 20})
	f.get("/console/t/acme/deliveries/d1").is(http.StatusOK).shows("Raw, 1 MB", "This is the beginning of the body.", `<div class="tree">`).lacks("Copy as curl", "\uFFFD")
	if got, want := f.called("GET "+T+"/deliveries/d1/request").Query, "max_bytes=65536"; got != want {
		t.Errorf("request, got the query %q, want %q", got, want)
	}
}

func TestFormBeyondTheLimitIsRefused(t *testing.T) {
	f := newRouteFixture(t)
	form := formOfFirst()
	form.Set("event", "")
	form.Set("payload", strings.Repeat("x", 4<<20))
	f.post("/console/t/acme/sources/github/routes/form", form).is(http.StatusRequestEntityTooLarge).shows("at most 4 MB").isSmall("form")
	form.Set("payload", strings.Repeat("x", 3<<20))
	f.post("/console/t/acme/sources/github/routes/form", form).is(http.StatusOK)
}

func TestLongDocumentOfAFormIsNotDecoded(t *testing.T) {
	long := `{"a":"` + strings.Repeat("x", 512<<10) + `"}`
	const fault = "it has more than 512 KB"
	f := newRouteFixture(t)
	for _, field := range []string{"filter", "targets[0]"} {
		form := formOfFirst()
		form.Set(field, long)
		f.post("/console/t/acme/sources/github/routes/r-1", form).is(http.StatusUnprocessableEntity).shows(fault)
	}
	f.post("/console/t/acme/types/payment.made/edit", url.Values{"schema": {long}}).is(http.StatusUnprocessableEntity).shows(fault)
	f.answer("POST "+T+"/subscriptions", unprocessable)
	f.post("/console/t/acme/subscriptions/new", url.Values{"name": {"a"}, "filter": {long}}).is(http.StatusUnprocessableEntity)
	if body := f.called("POST " + T + "/subscriptions").Body; !strings.Contains(body, `"filter":"{`) {
		t.Errorf("the API got a filter of %d bytes that was decoded", len(body))
	}
}

func TestPageThatWouldBeTooLargeIsRefused(t *testing.T) {
	f := newRouteFixture(t)
	form := formOfFirst()
	form.Set("event", "")
	form.Set("payload", strings.Repeat(`"`, 1<<20)) // 5 bytes each in HTML
	f.post("/console/t/acme/sources/github/routes/form", form).is(http.StatusInternalServerError).shows("too large for a browser").isSmall("page")
}

func TestSelectedRowsAreNotCarriedIntoOtherPages(t *testing.T) {
	f := newFixture(t)
	f.answer("GET "+T+"/events", client.EventPage{Items: []client.Event{{ID: "e1"}}, NextCursor: new("c2")})
	query := "?source=github&selected=e1"
	for range 300 {
		query += "&selected=01a2c84f-0000-7000-8000-000000000001"
	}
	page := f.get("/console/t/acme/events"+query).is(http.StatusOK).shows(`href="/console/t/acme/events?cursor=c2&amp;source=github"`, `name="filters" value="source=github"`, `value="e1" data-select`)
	if got := strings.Count(page.body, "selected=01a2"); got > 2*301 {
		t.Errorf("the page repeats the selected rows %d times", got)
	}
	f.get("/console/t/acme/events?selected=" + strings.Repeat("x", 17<<10)).is(http.StatusRequestURITooLong).shows("The address is too long").isSmall("address").lacks("xxxx")
}

func TestActTakesTheRowsOfOnePage(t *testing.T) {
	f := newFixture(t)
	ids := make([]string, 251)
	for i := range ids {
		ids[i] = strconv.Itoa(i)
	}
	for _, path := range []string{"deliveries/chosen", "events/reprocess", "subscriptions/chosen"} {
		f.post("/console/t/acme/"+path, url.Values{"selected": ids, "act": {"pause"}}).is(http.StatusBadRequest).shows("251 rows are chosen; one act takes at most 250")
	}
	for _, c := range f.api.calls {
		if c.Call != "GET /api/identity" {
			t.Errorf("call %s, want none", c.Call)
		}
	}
}

func TestRetryWithoutIdIsABadRequest(t *testing.T) {
	f := newFixture(t)
	f.post(eventPage+"/retry-delivery", nil).is(http.StatusBadRequest).shows("names no delivery to retry")
	f.post(eventPage+"/retry-execution", nil).is(http.StatusBadRequest).shows("names no execution to retry")
	f.post("/console/t/acme/deliveries/chosen", url.Values{"selected": {""}}).is(http.StatusNotFound)
}

func TestCopiedCommandsShowWhatTheyDo(t *testing.T) {
	const hidden = "a\u009b2J\u202eb\u2066c\u200fd\x1b\x7f"
	e := failedEvent()
	e.Headers = map[string]string{"X-A": hidden}
	f := storyFixture(t, e)
	f.get(eventPage).is(http.StatusOK).shows("X-A: a 2J b c d  &#39;")
	f.payload(`{"a":"` + "\u202e" + `"}`)
	f.get(eventPage).shows("--data-binary")
	f.answer("GET "+T+"/deliveries/d1", client.DeliveryDetail{ID: "d1", SubscriptionID: new("s1")})
	request := client.DeliveryRequest{Method: "POST", Headers: map[string]string{"X-A": hidden}, BodyBase64: []byte("{}"), BodySize: 2}
	f.answer("GET "+T+"/deliveries/d1/request", request)
	f.get("/console/t/acme/deliveries/d1").is(http.StatusOK).shows("X-A: a 2J b c d  &#39;")
	request.BodyBase64 = []byte("\u009b")
	f.answer("GET "+T+"/deliveries/d1/request", request)
	f.get("/console/t/acme/deliveries/d1").is(http.StatusOK).lacks("Copy as curl")
}
