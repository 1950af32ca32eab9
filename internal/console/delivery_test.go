package console_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/session"
)

// counted returns the refusal of an act whose expected_count is wrong, as the API writes it.
func counted(t *testing.T, expected, matched int, objects string) *client.Problem {
	t.Helper()
	refusal, ok := eventhook.CheckExpectedCount(&expected, matched, objects).(*eventhook.Error)
	if !ok {
		t.Fatalf("CheckExpectedCount(%d, %d) has no refusal", expected, matched)
	}
	return &client.Problem{Title: "Conflict", Status: http.StatusConflict, Detail: refusal.Message,
		Errors: []client.Fault{{Location: refusal.Faults[0].Location, Message: refusal.Faults[0].Message}}}
}

func TestDeliveryListPassesItsFiltersToTheAPI(t *testing.T) {
	f := newFixture(t)
	f.answer("GET "+T+"/deliveries", client.DeliveryPage{Items: []client.Delivery{{ID: "d1", EventType: attack, LastError: new(attack), Status: "dead",
		SubscriptionID: new("s1"), SubscriptionName: new(attack), CreatedAt: today}}})
	f.answer("GET "+T+"/subscriptions", client.SubscriptionPage{Items: []client.Subscription{{ID: "s1", Name: attack}}})
	f.get("/console/t/acme/deliveries?status=dead&subscription_id=s1&created_after=2026-01-31T10:00&event_id=e1").is(http.StatusOK).lacks("<script>alert").
		shows("&lt;script&gt;alert", `<span class="status failed">`, `<option value="s1" selected>`, "Retry all that match")
	if got, want := f.called("GET "+T+"/deliveries").Query,
		"created_after=2026-01-31T10%3A00%3A00Z&event_id=e1&limit=50&status=dead&subscription_id=s1"; sorted(got) != want {
		t.Errorf("query, got %q, want %q", sorted(got), want)
	}
	f.get("/console/t/acme/deliveries?status=success").lacks("Retry all that match")
}

// sorted returns a query with its parameters in order.
func sorted(query string) string {
	q, _ := url.ParseQuery(query)
	return q.Encode()
}

func TestReaderSeesNoRetry(t *testing.T) {
	f := newFixtureOf(t, client.Identity{Type: "tenant", Tenant: &client.IdentityTenant{Slug: "acme"}, Scopes: []string{"read"}})
	f.answer("GET "+T+"/deliveries", client.DeliveryPage{Items: []client.Delivery{{ID: "d1", Status: "dead"}}})
	f.answer("GET "+T+"/deliveries/d1", client.DeliveryDetail{ID: "d1", Status: "dead"})
	f.answer("GET "+T+"/deliveries/dead-groups", client.DeadGroups{Items: []client.DeadGroup{{Key: "k", IsExact: true}}})
	for _, path := range []string{"", "/d1", "/dead"} {
		f.get("/console/t/acme/deliveries"+path).is(http.StatusOK).lacks("Retry", `type="checkbox"`)
	}
}

func TestRetryByFilterCountsAndAsksFirst(t *testing.T) {
	f := newFixture(t)
	f.answer("POST "+T+"/deliveries/retry", counted(t, 0, 1284, "deliveries"))
	f.post("/console/t/acme/deliveries/retry", url.Values{"status": {"dead"}, "subscription_id": {"s1"}}).is(http.StatusOK).
		shows("Retry 1\u202f284 deliveries?", `name="expected_count" value="1284"`, `name="subscription_id" value="s1"`)
	if got, want := f.called("POST "+T+"/deliveries/retry").Body,
		`{"expected_count":0,"filter":{"status":["dead"],"subscription_id":"s1"},"limit":1000}`; got != want {
		t.Errorf("body, got %s, want %s", got, want)
	}
}

func TestConfirmedRetryContinuesUntilAllAreSent(t *testing.T) {
	f := newFixture(t)
	f.answer("POST "+T+"/deliveries/retry", client.DeliveriesRetried{RetriedCount: 1000}, client.DeliveriesRetried{RetriedCount: 284})
	f.post("/console/t/acme/deliveries/retry", url.Values{"key": {"k"}, "expected_count": {"1284"}}).redirects("/console/t/acme/deliveries/dead")
	if got, want := f.called("POST "+T+"/deliveries/retry").Body, `{"expected_count":284,"filter":{"key":"k"},"limit":1000}`; got != want {
		t.Errorf("last body, got %s, want %s", got, want)
	}
}

func TestConfirmedRetryAsksAgainIfTheNumberHasChanged(t *testing.T) {
	f := newFixture(t)
	f.answer("POST "+T+"/deliveries/retry", counted(t, 5, 6, "deliveries"))
	f.post("/console/t/acme/deliveries/retry", url.Values{"key": {"k"}, "expected_count": {"5"}, "title": {attack}}).is(http.StatusOK).
		shows("The number has changed", "Retry 6 deliveries?", `value="6"`).lacks("<script>alert")
}

func TestRetryOfNothingSaysSo(t *testing.T) {
	f := newFixture(t)
	f.answer("POST "+T+"/deliveries/retry", client.DeliveriesRetried{})
	f.post("/console/t/acme/deliveries/retry", url.Values{"status": {"dead"}}).redirects("/console/t/acme/deliveries?status=dead").
		notes("Nothing was retried")
}

// notes fails the test unless the notice of a redirect has a text.
func (r reply) notes(text string) reply {
	r.Helper()
	for _, cookie := range (&http.Response{Header: r.header}).Cookies() {
		if notice, _ := url.QueryUnescape(cookie.Value); cookie.Name == session.SecurePrefix+"eventhook_notice" && cookie.Secure {
			reply{r.T, r.status, r.header, notice}.shows(text)
			return r
		}
	}
	r.Errorf("the response has no notice, want %q", text)
	return r
}

func TestChosenDeliveriesAreRetriedOneByOne(t *testing.T) {
	f := newFixture(t)
	f.answer("POST "+T+"/deliveries/a/retry", client.DeliveryDetail{})
	f.answer("POST "+T+"/deliveries/b/retry", &client.Problem{Title: "Conflict", Status: 409, Detail: "It is being sent."})
	f.post("/console/t/acme/deliveries/chosen", url.Values{"selected": {"a", "b"}}).redirects("/console/t/acme/deliveries").
		notes("1 of 2 chosen deliveries are sent again. The last refusal: It is being sent.")
}

func TestDeliveryTellsItsStory(t *testing.T) {
	f := newFixture(t)
	f.answer("GET "+T+"/deliveries/d1", client.DeliveryDetail{ID: "d1", EventID: "e1", EventType: "payment.made", Status: "acquired", AttemptCount: 12,
		AcquiredBy: new("gateway-1"), AcquiredUntil: new(today.Add(time.Minute)), SubscriptionID: new("s1"), CreatedAt: today,
		Attempts: []client.DeliveryAttempt{{StartedAt: today.Add(3 * time.Second), DurationMs: 31, StatusCode: new(int64(500)), Error: new(attack),
			ErrorClass: new("http_5xx"), ResponseExcerpt: new(attack)}}})
	f.answer("GET "+T+"/deliveries/d1/request", client.DeliveryRequest{Method: "POST", Headers: map[string]string{"X-It": "it's " + attack},
		BodyBase64: []byte(`{"note":"<script>alert(1)</script>"}`)})
	f.answer("GET "+T+"/subscriptions/s1", client.Subscription{ID: "s1", URL: "https://billing.example/…"})
	f.get("/console/t/acme/deliveries/d1").is(http.StatusOK).lacks("<script>alert").shows("Attempt 12", "11 oldest attempts are", "+3 s", "31 ms", "http 5xx",
		"by gateway-1", "/console/t/acme/events/e1", "--url &#39;https://billing.example/…&#39;", `it&#39;\&#39;&#39;s`, `data-live-part`)
}

func TestDeliveryWithoutRequestSaysWhy(t *testing.T) {
	f := newFixture(t)
	f.answer("GET "+T+"/deliveries/d1", client.DeliveryDetail{ID: "d1", Status: "dead", SubscriptionID: new("s1")})
	f.answer("GET "+T+"/deliveries/d1/request", &client.Problem{Title: "Conflict", Status: 409, Detail: "The data of the event is deleted."})
	f.get("/console/t/acme/deliveries/d1").is(http.StatusOK).shows("The data of the event is deleted.", "Retry").lacks("Copy as curl", "data-live-part")
}

func TestDeadLettersAreGroupedByCause(t *testing.T) {
	f := newFixture(t)
	f.answer("GET "+T+"/deliveries/dead-groups", client.DeadGroups{GroupsCount: 1, Scanned: 1284, Items: []client.DeadGroup{{Key: "k1", SubscriptionID: new("s1"),
		Name: new(attack), Cause: "500 from " + attack, Count: 1284, IsExact: true, FirstAt: today, LastAt: today, SampleIds: []string{"01a2c84f-aaaaaa"}}}})
	f.get("/console/t/acme/deliveries/dead").is(http.StatusOK).lacks("<script>alert", "≥", "ended after").shows("500 from &#34;&gt;", "1\u202f284",
		`name="key" value="k1"`, "/console/t/acme/deliveries/01a2c84f-aaaaaa", "/subscriptions/s1/replay?since=2026-01-30T14%3a02%3a11&amp;status=dead")
}

func TestDeadLettersTellThatTheSearchEnded(t *testing.T) {
	f := newFixture(t)
	f.answer("GET "+T+"/deliveries/dead-groups", client.DeadGroups{GroupsCount: 2, Scanned: 9, ScannedUntil: &today,
		Items: []client.DeadGroup{{Key: "k1", RouteID: new("r1"), TargetIndex: new(int64(0)), Name: new("payments"), Count: 9}}})
	f.get("/console/t/acme/deliveries/dead").is(http.StatusOK).shows("ended after 2 s", "≥ ", "at least", "created_before=2026-01-31T14%3A02%3A11Z",
		"payments, target 1", "The 1 largest of 2 groups")
}

func TestNoDeadLettersIsGoodNews(t *testing.T) {
	f := newFixture(t)
	f.answer("GET "+T+"/deliveries/dead-groups", client.DeadGroups{})
	f.get("/console/t/acme/deliveries/dead").is(http.StatusOK).shows("No dead letters")
}
