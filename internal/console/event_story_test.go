package console_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook/client"
)

const (
	eventID    = "01a2c84f-0000-7000-8000-000000000001"
	deliveryID = "01a2c84f-0000-7000-8000-000000000002"
	taskID     = "01a2c84f-0000-7000-8000-000000000003"
	eventPage  = "/console/t/acme/events/" + eventID
	eventCall  = T + "/events/" + eventID
)

// failedEvent is a webhook with a dead task and a dead delivery. Every text is hostile.
func failedEvent() client.EventDetail {
	return client.EventDetail{ID: eventID, EventType: attack, Status: "delivered", Outcome: "failed", Origin: "source", Source: new("github"),
		Verification: &client.Verification{Scheme: "sha256", Secret: 2, SecretsCount: 2}, ReceivedInMinute: new(int64(42)),
		Method: new("POST"), PathSuffix: "/opened", Query: "region=eu", SourceIP: new("203.0.113.7"), BodySize: 14, ContentType: "application/json",
		IdempotencyKey: new("key-1"), TraceID: "4bf92f3577b34da6a3ce929d0e0e4736", RequestID: new(attack), ReceivedAt: today, ProcessedAt: new(today.Add(2 * time.Millisecond)),
		Headers:  map[string]string{"X-Note": attack + `'; rm -rf /`, "Authorization": "[redacted]", "Host": "hooks.example", "Content-Type": "application/json"},
		Body:     asJSON(map[string]any{"z": 1, "a": attack}),
		Failures: []client.Failure{{Type: "execution", ID: taskID, EventID: eventID, Status: "dead", Error: attack}},
		Actions: []client.Action{{ID: "a1", RouteID: "r1", RouteName: attack, TargetType: "task", Status: "success", Attempts: 3, EffectStatus: new("dead"),
			TaskExecutionID: new(taskID), ErrorMessage: new(attack), StartedAt: today.Add(2 * time.Millisecond)}}, ActionsCount: 1,
		Deliveries: []client.Delivery{{ID: deliveryID, EventID: eventID, SubscriptionID: new("s1"), SubscriptionName: new(attack), Status: "dead", AttemptCount: 1,
			CreatedAt: today, LastError: new(attack), StatusCode: new(int64(500))}}, DeliveriesCount: 1}
}

// storyFixture has the answers for the page of an event.
func storyFixture(t *testing.T, e client.EventDetail) *fixture {
	t.Helper()
	f := newFixture(t)
	f.answer("GET "+eventCall, e)
	f.answer("GET "+T+"/sources/github", client.Source{Slug: "github", IngestURL: "https://hooks.example/in/github", Provider: new("github"), SecretsCount: 2,
		RateLimit: client.RateLimit{RequestsPerMinute: new(int64(1000))}})
	f.answer("GET "+T+"/events", client.EventPage{Items: []client.Event{{ID: "d1", DuplicateOf: new(eventID), ReceivedAt: today}}})
	f.answer("POST "+eventCall+"/test", client.EventTest{Routes: []client.RouteExplanation{{ID: "r1", Name: "payments", Matched: true, Reason: "amount 4200"},
		{ID: "r2", Name: attack, Reason: attack}}})
	f.answer("GET "+T+"/deliveries/"+deliveryID, client.DeliveryDetail{ID: deliveryID, Attempts: []client.DeliveryAttempt{{DurationMs: 31, ErrorClass: new("http_5xx"),
		Error: new(attack), StatusCode: new(int64(500)), ResponseExcerpt: new(attack), StartedAt: today}}})
	f.answer("GET "+T+"/subscriptions", client.SubscriptionPage{Items: []client.Subscription{{ID: "s1", Name: attack, Status: "paused"}}})
	f.payload(`{"z":1,"a":"it's"}`)
	return f
}

// payload prepares the exact bytes of the event.
func (f *fixture) payload(body string) {
	f.answer("GET "+eventCall+"/payload", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(body))
	}))
}

func TestEventStoryTellsWhatHappened(t *testing.T) {
	f := storyFixture(t, failedEvent())
	f.get(eventPage).is(http.StatusOK).lacks("<script>alert").shows("203.0.113.7", "verified (sha256, secret 2 of 2)", "42 requests in this minute; the limit is 1\u202f000", "1 later duplicate",
		"today's routes", "amount 4200", "no match", "/console/t/acme/work/"+taskID, `name="execution" value="`+taskID+`"`, "/console/t/acme/deliveries/"+deliveryID,
		"http_5xx", "31 ms", "<details open><summary>Attempts", "/console/t/acme/events?trace_id=4bf92f3577b34da6a3ce929d0e0e4736", "Run again").
		lacks(`data-live="`, ">Reprocess<")
}

func TestStoryTellsThatARequestWasNotVerified(t *testing.T) {
	e := failedEvent()
	e.Verification = &client.Verification{Scheme: "none"}
	storyFixture(t, e).get(eventPage).is(http.StatusOK).shows("not verified", "accepts every request")
	e.Verification = &client.Verification{Scheme: "jwt"}
	storyFixture(t, e).get(eventPage).is(http.StatusOK).shows("verified (jwt)").lacks("not verified")
	e.Verification, e.ReceivedInMinute = nil, nil
	storyFixture(t, e).get(eventPage).is(http.StatusOK).lacks("verified (", "not verified", "in this minute")
}

func TestOpenEventIsFollowed(t *testing.T) {
	e := failedEvent()
	e.Outcome, e.Status, e.Failures = "in_progress", "processing", nil
	f := storyFixture(t, e)
	f.get(eventPage).is(http.StatusOK).shows(`data-live="/console/t/acme/stream"`, `hx-get="`+eventPage+`"`, "In progress").lacks("amount 4200", "Run again")
	f.get(eventPage + "?routes=inputs").is(http.StatusOK).shows("amount 4200")
}

func TestStoryOfPublishedEventHasNoRoutes(t *testing.T) {
	e := client.EventDetail{ID: eventID, EventType: "payment.made", Origin: "api", Status: "delivered", Outcome: "succeeded", ReceivedAt: today, Body: nil}
	f := newFixture(t)
	f.answer("GET "+eventCall, e)
	f.get(eventPage).is(http.StatusOK).shows("published by a program", "No subscription matched this event", "past the retention period").lacks("Routed", "curl", "Run again")
}

func TestPayloadTabs(t *testing.T) {
	f := storyFixture(t, failedEvent())
	f.get(eventPage).shows(`<div class="tree">`, `href="`+eventPage+`?payload=raw#payload"`)
	f.get(eventPage + "?payload=raw").shows("&#34;z&#34;: 1").lacks(`<div class="tree">`)
	f.get(eventPage+"?payload=headers").shows("X-Note", "[redacted]").lacks("<script>alert", `<div class="tree">`)
	f.payload("\x00\x01binary")
	f.get(eventPage+"?payload=raw").shows("not text", "00 01 62 69")
	f.payload(`"` + strings.Repeat("é", 64<<10) + `"`)
	f.get(eventPage+"?payload=raw").shows("this is its beginning", "--data-binary", "@event-"+eventID+".json").lacks("\uFFFD", "The body is not text")
}

func TestCurlQuotesTheRequest(t *testing.T) {
	f := storyFixture(t, failedEvent())
	page := f.get(eventPage).is(http.StatusOK)
	_, command, _ := strings.Cut(page.body, `<pre id="curl"`)
	command, _, _ = strings.Cut(command, "</pre>")
	for _, want := range []string{"--request &#39;POST&#39;", "&#39;https://hooks.example/in/github/opened?region=eu&#39;", `it&#39;\&#39;&#39;s`, `&#39;\&#39;&#39;; rm -rf /`} {
		if !strings.Contains(command, want) {
			t.Errorf("the command lacks %q:\n%s", want, command)
		}
	}
	if strings.Contains(command, "Authorization") || strings.Contains(command, "Host:") {
		t.Errorf("the command has a redacted or a connection header:\n%s", command)
	}
	page.shows("Authorization is left out")
}

func TestPayloadIsDownloadedAsItIs(t *testing.T) {
	f := storyFixture(t, failedEvent())
	f.payload("<script>\x00")
	page := f.get(eventPage + "/payload").is(http.StatusOK)
	if page.body != "<script>\x00" {
		t.Errorf("body, got %q", page.body)
	}
	for name, want := range map[string]string{"Content-Type": "application/octet-stream", "X-Content-Type-Options": "nosniff",
		"Content-Disposition": `attachment; filename="event-` + eventID + `.json"`} {
		if got := page.header.Get(name); got != want {
			t.Errorf("%s, got %q, want %q", name, got, want)
		}
	}
	f.answer("GET "+eventCall+"/payload", &client.Problem{Title: "Not Found", Status: http.StatusNotFound, Detail: "It is past the retention period."})
	f.get(eventPage + "/payload").is(http.StatusNotFound).shows("past the retention period")
}

func TestRunAgainOpensTheNewEvent(t *testing.T) {
	f := newFixture(t)
	f.answer("POST "+T+"/events/reprocess", client.EventsReprocessed{ReprocessedCount: 1, EventIDs: []string{"new"}},
		client.EventsReprocessed{Skipped: []client.EventSkipped{{EventID: eventID, Reason: "it is open"}}})
	f.post(eventPage+"/reprocess", url.Values{"mode": {"again"}}).redirects("/console/t/acme/events/new")
	if got, want := f.called("POST "+T+"/events/reprocess").Body, `{"event_ids":["`+eventID+`"],"mode":"again"}`; got != want {
		t.Errorf("body, got %s, want %s", got, want)
	}
	f.post(eventPage+"/reprocess", url.Values{"mode": {"again"}}).redirects(eventPage)
}

func TestSendShowsTheRefusalAtTheForm(t *testing.T) {
	f := storyFixture(t, failedEvent())
	f.answer("POST "+T+"/subscriptions/s1/send", &client.Problem{Title: "Conflict", Status: http.StatusConflict, Detail: "The subscription is paused."},
		client.SubscriptionSent{Created: true, DeliveryID: deliveryID})
	f.post(eventPage+"/send", nil).is(http.StatusUnprocessableEntity).shows("choose a subscription")
	f.post(eventPage+"/send", url.Values{"subscription": {"s1"}}).is(http.StatusUnprocessableEntity).
		shows("The subscription is paused.", `<option value="s1" selected>`, `href="`+eventPage+`?payload=raw#payload"`).lacks("<script>alert")
	f.post(eventPage+"/send", url.Values{"subscription": {"s1"}}).redirects(eventPage)
}

func TestEffectsAreRetried(t *testing.T) {
	f := newFixture(t)
	f.answer("POST "+T+"/deliveries/"+deliveryID+"/retry", client.DeliveryDetail{})
	f.answer("POST "+T+"/work/"+taskID+"/retry", client.Execution{})
	f.post(eventPage+"/retry-delivery", url.Values{"delivery": {deliveryID}}).redirects(eventPage)
	f.post(eventPage+"/retry-execution", url.Values{"execution": {taskID}}).redirects(eventPage)
}

func TestReaderOfAnEventSeesNoAct(t *testing.T) {
	f := newFixtureOf(t, client.Identity{Type: "tenant", Name: "reader", Tenant: &client.IdentityTenant{Slug: "acme"}, Scopes: []string{"read"}})
	f.answer("GET "+eventCall, failedEvent())
	f.get(eventPage).is(http.StatusOK).lacks(eventPage+"/retry", eventPage+"/reprocess", eventPage+"/send")
}

func TestStoryKeepsEveryDigit(t *testing.T) {
	f := newFixture(t)
	var e map[string]any
	raw, _ := json.Marshal(failedEvent())
	if err := json.Unmarshal(raw, &e); err != nil {
		t.Fatal(err)
	}
	e["body"] = json.RawMessage(`{"id":12345678901234567890}`)
	f.answer("GET "+eventCall, e)
	f.payload(`{"id":12345678901234567890}`)
	f.get(eventPage).shows("12345678901234567890")
}
