package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook/client"
)

// billing is the subscription of the tests.
func billing() client.Subscription {
	return client.Subscription{ID: "s1", Name: "billing", Status: "active", URL: "https://billing.example/…", EventTypes: []string{"payment.*"}, Format: "eventhook",
		HeaderPrefix: "X-Eventhook", Headers: map[string]string{"X-Env": "prod", "X-Old": "1"}, Signatures: []string{"v1"}, MaxInFlight: 10, TimeoutSeconds: 30,
		SigningSecretsCount: 1, Version: 7, Retry: client.DeliveryRetry{MaxRetries: new(int64(5)), Jitter: new(client.DeliveryRetryJitter("some"))},
		Recovery: client.RecoveryState{Enabled: new(true), MaxAgeHours: new(int64(72))}, CreatedAt: today, UpdatedAt: today}
}

// withBilling prepares the answers of the page of a subscription.
func (f *fixture) withBilling(s client.Subscription) {
	f.answer("GET "+T+"/subscriptions/s1", s)
	f.answer("GET "+T+"/subscriptions/s1/stats", client.SubscriptionStats{DeliveredLast24H: 98, FailedLast24H: 2, MeanDurationMs: 100, Waiting: 3})
	f.answer("GET "+T+"/subscriptions/s1/deliveries", client.DeliveryPage{Items: []client.Delivery{
		{ID: "new", EventType: attack, Status: "dead", StatusCode: new(int64(500)), LastError: new(attack), AttemptCount: 3, CreatedAt: today},
		{ID: "old", EventType: "payment.made", Status: "success", StatusCode: new(int64(200)), AttemptCount: 1, CreatedAt: today.Add(-time.Minute)}}})
	f.answer("GET "+T+"/subscriptions/s1/replays", client.ReplayPage{})
}

func TestSubscriptionListShowsFailingOnesFirst(t *testing.T) {
	f := newFixture(t)
	failing := client.Subscription{ID: "s2", Name: attack, Status: "active", URL: "https://crm.example/…", EventTypes: []string{attack}}
	f.answer("GET "+T+"/subscriptions", client.SubscriptionPage{Items: []client.Subscription{billing(), failing}})
	f.answer("GET "+T+"/overview", client.Overview{Subscriptions: []client.SubscriptionOverview{
		{ID: "s2", Circuit: "open", MissedCount: 41, SuccessRatio: new(0.5), LastError: attack, FailingSince: &today}, {ID: "s1", Circuit: "closed", SuccessRatio: new(1.0)}}})
	r := f.get("/console/t/acme/subscriptions?event_type=payment.*").is(http.StatusOK).lacks("<script>alert").
		shows("crm.example", "41", "50 %", `<span class="status failed">`, `name="event_type" value="payment.*"`)
	if strings.Index(r.body, "/subscriptions/s2") > strings.Index(r.body, "/subscriptions/s1") {
		t.Error("the healthy subscription is first, want the failing one")
	}
}

func TestSubscriptionListNeedsNoOverview(t *testing.T) {
	f := newFixture(t)
	f.answer("GET "+T+"/subscriptions", client.SubscriptionPage{Items: []client.Subscription{billing()}})
	f.get("/console/t/acme/subscriptions").is(http.StatusOK).shows("billing")
}

func TestBulkChangeCountsAndAsksFirst(t *testing.T) {
	f := newFixture(t)
	f.answer("POST "+T+"/subscriptions/pause", counted(t, 0, 12, "subscriptions"), client.SubscriptionsChanged{MatchedCount: 12, ChangedCount: 11})
	form := url.Values{"act": {"pause"}, "status": {"active"}}
	f.post("/console/t/acme/subscriptions/bulk", form).is(http.StatusOK).shows("Pause 12 subscriptions?", "held", `name="expected_count" value="12"`)
	form.Set("expected_count", "12")
	f.post("/console/t/acme/subscriptions/bulk", form).redirects("/console/t/acme/subscriptions?status=active").notes("12 subscriptions matched, 11 paused.")
	if got, want := f.called("POST "+T+"/subscriptions/pause").Body, `{"expected_count":12,"filter":{"status":["active"]},"limit":10000}`; got != want {
		t.Errorf("body, got %s, want %s", got, want)
	}
}

func TestChosenSubscriptionsAreChanged(t *testing.T) {
	f := newFixture(t)
	f.answer("POST "+T+"/subscriptions/a/resume", billing())
	f.answer("POST "+T+"/subscriptions/b/resume", billing())
	f.post("/console/t/acme/subscriptions/chosen", url.Values{"act": {"resume"}, "selected": {"a", "b"}}).redirects("/console/t/acme/subscriptions").
		notes("2 subscriptions are resumed.")
	f.post("/console/t/acme/subscriptions/chosen", url.Values{"act": {"explode"}}).is(http.StatusBadRequest)
}

func TestSubscriptionShowsItsHealth(t *testing.T) {
	f := newFixture(t)
	s := billing()
	s.Status, s.DisabledBy, s.DisabledReason, s.MissedCount = "disabled", new("failures"), new(attack), new(int64(41))
	s.Circuit = &client.Circuit{State: "open", OpenedAt: &today, NextProbeAt: new(today.Add(3 * time.Minute))}
	s.SigningSecretsCount, s.RotationEndsAt = 2, new(today.Add(time.Hour))
	f.withBilling(s)
	r := f.get("/console/t/acme/subscriptions/s1").is(http.StatusOK).lacks("<script>alert").
		shows("98 %", "41 deliveries were missed", "in 3 min", "Recover", "2 secrets sign", `class="failed" href="/console/t/acme/deliveries/new"`, "500 · 3 attempts")
	if strings.Index(r.body, `class="failed" href`) < strings.Index(r.body, `class="ok" href`) {
		t.Error("the newest delivery is first in the strip, want the oldest")
	}
}

func TestReaderSeesNoActOfSubscriptions(t *testing.T) {
	f := newFixtureOf(t, client.Identity{Type: "tenant", Tenant: &client.IdentityTenant{Slug: "acme"}, Scopes: []string{"read"}})
	f.withBilling(billing())
	f.answer("GET "+T+"/subscriptions", client.SubscriptionPage{Items: []client.Subscription{billing()}})
	for _, path := range []string{"", "/s1", "/s1/replay"} {
		f.get("/console/t/acme/subscriptions"+path).is(http.StatusOK).lacks("Pause", "Rotate", "Estimate…", `href="/console/t/acme/subscriptions/s1/edit"`)
	}
}

func TestSubscriptionTestShowsTheAnswer(t *testing.T) {
	f := newFixture(t)
	f.withBilling(billing())
	f.answer("POST "+T+"/subscriptions/s1/test", client.SubscriptionTested{DeliveryID: "d9", StatusCode: new(int64(500)), DurationMs: 12, Error: new(attack),
		ResponseExcerpt: new(attack)})
	f.post("/console/t/acme/subscriptions/s1/test", nil).is(http.StatusOK).lacks("<script>alert").shows("not delivered", "/deliveries/d9", "12 ms")
}

func TestRotatedSecretIsShownOnce(t *testing.T) {
	f := newFixture(t)
	f.withBilling(billing())
	f.answer("POST "+T+"/subscriptions/s1/rotate-secret", client.SecretRotated{SigningSecret: "whsec_new", PreviousExpiresAt: new(today.Add(time.Hour))})
	f.post("/console/t/acme/subscriptions/s1/secret", url.Values{"grace_seconds": {"3600"}}).is(http.StatusOK).shows("whsec_new", "shown once", "in 1 h")
	f.get("/console/t/acme/subscriptions/s1").lacks("whsec_new")
	if got, want := f.called("POST "+T+"/subscriptions/s1/rotate-secret").Body, `{"grace_seconds":3600}`; got != want {
		t.Errorf("body, got %s, want %s", got, want)
	}
}

func TestRefusedRotationIsShownAtTheField(t *testing.T) {
	f := newFixture(t)
	f.withBilling(billing())
	f.answer("POST "+T+"/subscriptions/s1/rotate-secret", &client.Problem{Title: "Unprocessable", Status: 422,
		Errors: []client.Fault{{Location: "body.signing_secret", Message: "is too short"}}})
	f.post("/console/t/acme/subscriptions/s1/secret", url.Values{"signing_secret": {"hunter2"}}).is(http.StatusUnprocessableEntity).
		shows("is too short", `<details open>`).lacks("hunter2")
}

func TestDeletionNamesTheVersion(t *testing.T) {
	f := newFixture(t)
	var tag string
	f.answer("DELETE "+T+"/subscriptions/s1", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tag = r.Header.Get("If-Match")
		w.WriteHeader(http.StatusNoContent)
	}))
	f.post("/console/t/acme/subscriptions/s1/delete", url.Values{"version": {"7"}}).redirects("/console/t/acme/subscriptions")
	if tag != `"7"` {
		t.Errorf("If-Match, got %s, want %q", tag, `"7"`)
	}
}

func TestReplayAsksWithAnEstimateFirst(t *testing.T) {
	f := newFixture(t)
	f.withBilling(billing())
	f.answer("POST "+T+"/subscriptions/s1/replay", counted(t, 0, 1284, "events"), client.ReplayStarted{ReplayID: "r1", Estimated: 1284})
	form := url.Values{"since": {"2026-01-30T10:00"}, "status": {"dead", "success"}, "missing": {"true"}, "event_types": {"payment.*\r\n" + attack}}
	f.post("/console/t/acme/subscriptions/s1/replay", form).is(http.StatusOK).lacks("<script>alert").
		shows("Replay 1\u202f284 deliveries to billing, oldest first, about 13 s?", `name="until" value="2026-01-31T14:02:11"`, `name="expected_count" value="1284"`,
			"gets events again")
	form.Set("until", "2026-01-31T14:02:11")
	form.Set("expected_count", "1284")
	f.post("/console/t/acme/subscriptions/s1/replay", form).redirects("/console/t/acme/subscriptions/s1/replay").notes("1\u202f284 events has started")
	if got, want := f.called("POST "+T+"/subscriptions/s1/replay").Body, `"expected_count":1284,"missing":true,"since":"2026-01-30T10:00:00Z","status":["dead","success"],"until":"2026-01-31T14:02:11Z"`; !strings.Contains(got, want) {
		t.Errorf("body, got %s, want it to have %s", got, want)
	}
}

func TestEstimateOfNothingLeavesNoReplay(t *testing.T) {
	f := newFixture(t)
	f.withBilling(billing())
	f.answer("POST "+T+"/subscriptions/s1/replay", client.ReplayStarted{ReplayID: "r1"})
	f.answer("POST "+T+"/subscriptions/s1/replays/r1/cancel", client.Replay{})
	f.post("/console/t/acme/subscriptions/s1/replay", url.Values{"since": {"2026-01-30T10:00"}}).notes("Nothing was sent")
	f.called("POST " + T + "/subscriptions/s1/replays/r1/cancel")
}

func TestReplayShowsFaultsAndProgress(t *testing.T) {
	f := newFixture(t)
	f.withBilling(billing())
	f.answer("GET "+T+"/subscriptions/s1/replays", client.ReplayPage{Items: []client.Replay{{ID: "r1", Status: "running", Kind: "replay", Estimated: 100, Queued: 40, Sent: 30,
		EventTypes: []string{attack}}}})
	f.post("/console/t/acme/subscriptions/s1/replay", url.Values{"since": {"yesterday"}}).is(http.StatusUnprocessableEntity).lacks("<script>alert").
		shows("must be a time", `<progress max="100" value="40"`, "/replays/r1/cancel")
	f.answer("POST "+T+"/subscriptions/s1/replays/r1/cancel", client.Replay{})
	f.post("/console/t/acme/subscriptions/s1/replays/r1/cancel", nil).redirects("/console/t/acme/subscriptions/s1/replay")
}

func TestASubscriptionWithAnOpenCircuitCanBeRecovered(t *testing.T) {
	f := newFixture(t)
	s := billing()
	f.withBilling(s)
	f.get("/console/t/acme/subscriptions/s1").is(http.StatusOK).lacks("Recover billing?", "data-refresh")
	s.Circuit, s.MissedCount = &client.Circuit{State: "open", OpenedAt: new(today)}, new(int64(14))
	f.withBilling(s)
	f.get("/console/t/acme/subscriptions/s1").is(http.StatusOK).shows("circuit open", "Recover billing?", "all 14 missed deliveries are sent", "data-refresh")
}

func TestASubscriptionShowsTheLatencyOfItsDeliveries(t *testing.T) {
	f := newFixture(t)
	f.withBilling(billing())
	var items []client.Delivery
	for i := range 3 {
		at := today.Add(-time.Duration(i) * time.Minute)
		items = append(items, client.Delivery{ID: "d", Status: "success", CreatedAt: at, CompletedAt: new(at.Add(time.Duration(10+i) * time.Millisecond))})
	}
	f.answer("GET "+T+"/subscriptions/s1/deliveries", client.DeliveryPage{Items: append(items, client.Delivery{ID: "dead", Status: "dead", CreatedAt: today})})
	f.get("/console/t/acme/subscriptions/s1").is(http.StatusOK).shows("to delivery: last 10 ms, highest 12 ms", "3 successful deliveries")
}
