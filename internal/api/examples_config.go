package api

import (
	"encoding/json"

	"github.com/eventhook/eventhook"
)

// exampleRoute turns pushes into build tasks.
func exampleRoute() Route {
	return Route{ID: exampleRouteID, Name: "pushes", Priority: 10, IsEnabled: true, FilterEventTypes: []string{"push"},
		Filter: jsonObject(`{"body.ref":"refs/heads/main"}`), Targets: []Target{exampleTarget(`{"type":"task","task_kind":"build","queue":"ci"}`)}, Warnings: []string{},
		Version: 1, CreatedAt: exampleTime(0), UpdatedAt: exampleTime(0)}
}

// exampleExplanation is the evaluation of exampleRoute.
func exampleExplanation() []routeExplanationView {
	return []routeExplanationView{{ID: exampleRouteID, Name: "pushes", Matched: true, Reason: `event type "push" matches "push"`,
		Actions: []actionExplanationView{{TargetType: "task", Input: json.RawMessage(`{"ref":"refs/heads/main","after":"9fceb02"}`)}}}}
}

func sourceExamples() map[string]example {
	source := Source{ID: exampleSourceID, Slug: "github", Name: "GitHub", IsEnabled: true,
		IngestURL: "https://hooks.example/api/tenants/acme/eventhook/in/github", Provider: new("github"), SecretsCount: 1, PublicKeys: []string{},
		Options: map[string]string{}, IdempotencyKeyPaths: []string{"header.x-github-delivery"}, EventTypePaths: []string{"header.x-github-event"},
		RateLimit:       RateLimit{RequestsPerSecond: 100, RequestsPerMinute: 1000, BurstSize: 50},
		Retry:           RetryPolicy{MaxRetries: new(3), InitialDelayMS: 10_000, BackoffMultiplier: 3, MaxDelayMS: 3_600_000},
		AllowedIPRanges: []string{}, MaxBodyBytes: 1 << 20, ContentTypes: []string{}, Warnings: []string{}, ReplayProtection: "body",
		Stats: SourceStats{EventsLastHour: 412, EventsLast24h: 9_873, FailedLast24h: 2}, Version: 1, CreatedAt: exampleTime(0), UpdatedAt: exampleTime(0)}
	created, updated := source, source
	created.Stats = SourceStats{}
	updated.RateLimit.BurstSize, updated.Version, updated.UpdatedAt = 100, 2, exampleTime(20)

	provider := Provider{ID: "github", Scheme: "sha256", Name: "GitHub", DocumentationURL: "https://docs.github.com/webhooks", RequiredFields: []string{"secrets"},
		Options: []ProviderOption{}, IdempotencyKeyPaths: source.IdempotencyKeyPaths, EventTypePaths: source.EventTypePaths, ReplayProtection: "body",
		CoversBody: true, Uncovered: new("the headers"), Methods: []string{"POST"}}

	var rejections rejectionsAnswer
	rejections.Body.Items = []rejectionView{{ID: exampleRejectionID, RejectedAt: exampleTime(12), Outcome: "unverified", Reason: "mismatch",
		Detail: new("no secret matched (of 1)"), Method: "POST", ClientAddress: new("203.0.113.7"), HeaderNames: []string{"Content-Type", "X-Hub-Signature-256"},
		BodySize: new(int64(7_421)), BodySHA256: new("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")}}
	rejections.Body.Counts = []rejectionCountView{{Reason: "mismatch", Count: 38, FirstAt: exampleTime(2), LastAt: exampleTime(12)}}

	var secret secretAnswer
	secret.Body.Secret = "secret_Kx9mQ2vT7pLw"

	route, updatedRoute := exampleRoute(), exampleRoute()
	updatedRoute.IsEnabled, updatedRoute.Version, updatedRoute.UpdatedAt = false, 2, exampleTime(20)
	const routeRequest = `{
  "name": "pushes",
  "priority": 10,
  "filter_event_types": ["push"],
  "filter": {"body.ref": "refs/heads/main"},
  "targets": [{"type": "task", "task_kind": "build", "queue": "ci"}]
}`
	return map[string]example{
		"list-providers":  {query: "limit=1", response: examplePage(provider)},
		"list-sources":    {response: lastExamplePage(source)},
		"create-source":   {request: `{"slug": "github", "name": "GitHub", "provider": "github", "secrets": ["s3cr3t"]}`, response: created},
		"get-source":      {response: source},
		"update-source":   {request: `{"rate_limit": {"burst_size": 100}}`, response: updated},
		"delete-source":   {query: "cascade=true"},
		"list-rejections": {query: "limit=20", response: rejections.Body},
		"test-source": {request: `{
  "headers": {"X-GitHub-Event": "push", "X-GitHub-Delivery": "72d3162e", "X-Hub-Signature-256": "sha256=5257a869"},
  "body": "{\"ref\":\"refs/heads/main\",\"after\":\"9fceb02\"}"
}`, response: explanationView{Verified: false, Error: "mismatch: no secret matched (of 1)", Scheme: "sha256", CoversBody: true, EventType: new("push"),
			IdempotencyKey: new("72d3162e"), Routes: exampleExplanation()}},

		"get-handshake":           {response: handshakeView{Handshake: new("notion"), Status: "learned", LearnedAt: new(exampleTime(5))}},
		"reveal-handshake-secret": {response: secret.Body},
		"reset-handshake":         {},

		"list-routes":  {response: lastExamplePage(route)},
		"create-route": {request: routeRequest, response: route},
		"get-route":    {response: route},
		"update-route": {request: `{"is_enabled": false}`, response: updatedRoute},
		"delete-route": {},

		"reorder-routes": {request: `{"order": [{"id": "` + exampleRouteID + `", "priority": 10}]}`, response: RouteList{Items: []Route{route}}},
		"test-expression": {request: `{"filter": {"body.amount": {"$gte": 10}}, "body": {"amount": 7}}`,
			response: expressionResult{Matched: new(false), Reason: "body.amount is 7, wanted $gte 10"}},
		"backtest-route": {request: `{
  "source": "github",
  "route": {"name": "pushes", "filter_event_types": ["push"], "targets": [{"type": "task", "task_kind": "build"}]},
  "last": 1000,
  "samples": 1
}`, response: backtestView{Tested: 1000, Matched: 312, Unmatched: 688, IsComplete: true, Newest: new(exampleTime(30)), Oldest: new(exampleTime(30).AddDate(0, 0, -3)),
			UnmatchedReasons: []backtestReasonView{{Reason: `event type "issues" matches none of "push"`, Events: 688}}, FailedReasons: []backtestReasonView{},
			MatchedSamples: []backtestSampleView{{EventID: exampleEventID, EventType: "push", ReceivedAt: exampleTime(10),
				Reason: exampleExplanation()[0].Reason, Actions: exampleExplanation()[0].Actions}},
			UnmatchedSamples: []backtestSampleView{}, FailedSamples: []backtestSampleView{}}},
	}
}

// exampleSubscription is the subscription billing.
func exampleSubscription() Subscription {
	return Subscription{ID: exampleSubscriptionID, Name: "billing", Status: "active", URL: "https://billing.example/…", EventTypes: []string{"payment.*"},
		Filter:  jsonObject(`{"body.amount":{"$gte":10}}`),
		Auth:    &eventhook.Auth{Type: eventhook.AuthBasic, Username: "eventhook", Password: eventhook.Redacted},
		Headers: map[string]string{"X-Env": "prod"}, TargetLabels: []string{},
		Retry:          DeliveryRetry{MaxRetries: new(5), InitialDelayMS: 1000, BackoffMultiplier: 2, MaxDelayMS: 60_000, Jitter: "some"},
		TimeoutSeconds: 30, DisableAfterFailures: 10, MaxInFlight: 10, Signatures: []string{"v1"}, SigningSecretsCount: 1, Warnings: []string{},
		ScopeFilter: []string{}, Format: "eventhook", HeaderPrefix: "X-Eventhook",
		Recovery: RecoveryState{Recovery: Recovery{new(true), eventhook.DefaultRecoveryHours}},
		Version:  1, CreatedAt: exampleTime(0), UpdatedAt: exampleTime(0)}
}

const exampleReplayID = "0195d3a9-b501-7d3e-9a54-8c17f02e6b90"

func exampleReplay() Replay {
	return Replay{ID: exampleReplayID, ReplayID: exampleReplayID, SubscriptionID: exampleSubscriptionID, Kind: "replay",
		Status: "running", Since: exampleTime(0), Until: exampleTime(20),
		DeliveryStatus: []string{"dead"}, EventTypes: []string{}, Missing: true, Estimated: 16, Matched: 12, Queued: 12, Sent: 9,
		CreatedAt: exampleTime(20)}
}

func subscriptionExamples() map[string]example {
	const secret, newSecret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" //nolint:gosec // examples
	subscription := exampleSubscription()
	created := SubscriptionCreated{subscription, secret}
	created.URL = "https://billing.example/hooks"
	changed := func(change func(*Subscription)) Subscription {
		x := subscription
		x.Version, x.UpdatedAt = 2, exampleTime(20)
		change(&x)
		return x
	}
	bulkChanged := SubscriptionsChanged{1, 1, []string{exampleSubscriptionID}}
	cancelled := exampleReplay()
	cancelled.Status, cancelled.FinishedAt = "cancelled", new(exampleTime(30))
	return map[string]example{
		"list-all-subscriptions": {query: "status=disabled", response: lastExamplePage(SubscriptionOfTenant{"acme", subscription})},
		"list-subscriptions":     {response: lastExamplePage(subscription)},
		"create-subscription": {request: `{
  "name": "billing",
  "url": "https://billing.example/hooks",
  "event_types": ["payment.*"],
  "filter": {"body.amount": {"$gte": 10}},
  "auth": {"type": "basic", "username": "eventhook", "password": "t0p-secret"},
  "headers": {"X-Env": "prod"}
}`, response: created},
		"get-subscription":    {response: subscription},
		"update-subscription": {request: `{"event_types": ["payment.*", "refund.*"], "timeout_seconds": 10}`, response: changed(func(x *Subscription) { x.EventTypes, x.TimeoutSeconds = []string{"payment.*", "refund.*"}, 10 })},
		"delete-subscription": {},
		"pause-subscription":  {response: changed(func(x *Subscription) { x.Status = "paused" })},
		"resume-subscription": {response: changed(func(*Subscription) {})},
		"enable-subscription": {response: changed(func(*Subscription) {})},
		"disable-subscription": {response: changed(func(x *Subscription) {
			x.Status, x.DisabledBy, x.DisabledReason = "disabled", new("user"), new("a user disabled it")
		})},
		"test-subscription": {response: SubscriptionTested{true, examplePublishedID, exampleDeliveryID, exampleAttempt()}},
		"replay-subscription": {request: `{"since": "2026-03-10T08:00:00Z", "until": "2026-03-10T09:00:00Z", "missing": true, "expected_count": 16}`,
			response: ReplayStarted{exampleReplayID, 16}},
		"pause-subscriptions": {request: `{"filter": {"event_type": "payment.*"}, "limit": 100, "expected_count": 1}`,
			response: bulkChanged},
		"resume-subscriptions": {request: `{"filter": {"status": ["paused"]}, "limit": 100, "expected_count": 1}`, response: bulkChanged},
		"enable-subscriptions": {request: `{"filter": {"status": ["disabled"]}, "limit": 100, "expected_count": 1}`,
			response: bulkChanged},
		"disable-subscriptions": {request: `{"filter": {"status": ["active"]}, "limit": 100, "expected_count": 1}`, response: bulkChanged},
		"list-replays":          {query: "status=running", response: lastExamplePage(exampleReplay())},
		"get-replay":            {response: exampleReplay()},
		"cancel-replay":         {response: cancelled},
		"rotate-subscription-secret": {request: `{"grace_seconds": 86400}`, response: SecretRotated{SigningSecret: newSecret,
			PreviousExpiresAt: new(exampleTime(0).AddDate(0, 0, 1)), SigningSecretsCount: 2, Warnings: []string{}}},
		"get-subscription-public-key": {response: PublicKey{"whpk_3Gd8bYv0lZ5m1Qx7cWnT2uRk9aHs4JfE6pLo0iVyXtM=", "ed25519"}},
		"get-subscription-stats": {response: SubscriptionStats{DeliveredLastHour: 412, DeliveredLast24h: 9_873, FailedLastHour: 3, FailedLast24h: 17, DeadLast24h: 1,
			MeanDurationMS: 48.5, Waiting: 2, OldestWaitingAt: new(exampleTime(25))}},
		"list-subscription-deliveries": {query: "status=dead", response: examplePage(exampleDelivery())},

		"list-event-types": {response: examplePage(exampleEventType())},
		"get-event-type":   {response: exampleEventType()},
		"put-event-type": {request: `{
  "description": "A payment succeeded.",
  "category": "billing",
  "schema": {"type": "object", "required": ["amount"], "properties": {"amount": {"type": "integer"}}}
}`, response: exampleEventType()},
		"delete-event-type": {},
	}
}

func exampleEventType() EventType {
	return EventType{Name: "payment.succeeded", Description: "A payment succeeded.", Category: "billing",
		Schema:     jsonObject(`{"type":"object","required":["amount"],"properties":{"amount":{"type":"integer"}}}`),
		Visibility: "tenant", Version: 1, CreatedAt: new(exampleTime(0)), UpdatedAt: new(exampleTime(0))}
}
