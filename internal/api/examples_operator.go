package api

func operatorSubscriptionExamples() map[string]example {
	const secret, newSecret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" //nolint:gosec // examples
	x := exampleSubscription()
	x.IsOperator, x.Name, x.URL, x.EventTypes, x.Filter = true, "ops", "https://ops.example/…",
		[]string{"tenant.*", "task.cancelled_via_tenant_cascade"}, nil
	x.Auth, x.Headers = nil, map[string]string{}
	created := SubscriptionCreated{x, secret}
	created.URL = "https://ops.example/hooks"
	limited := x
	limited.Tenants, limited.Version, limited.UpdatedAt = []string{"acme"}, 2, exampleTime(20)
	paused := limited
	paused.Tenants, paused.Status = nil, "paused"
	resumed := paused
	resumed.Status = "active"
	disabled := resumed
	disabled.Status = "disabled"
	cancelled := exampleReplay()
	cancelled.Status = "cancelled"
	return map[string]example{
		"disable-operator-subscription":         {response: disabled},
		"get-operator-subscription-public-key":  {response: PublicKey{"whpk_3Gd8bYv0lZ5m1Qx7cWnT2uRk9aHs4JfE6pLo0iVyXtM=", "ed25519"}},
		"list-operator-subscription-deliveries": {query: "status=dead", response: examplePage(DeliveryOfTenant{"acme", exampleDelivery()})},
		"replay-operator-subscription": {request: `{"since": "2026-03-10T08:00:00Z", "missing": true}`,
			response: ReplayStarted{exampleReplay().ID, 7}},
		"list-operator-subscription-replays":  {query: "status=running", response: lastExamplePage(exampleReplay())},
		"get-operator-subscription-replay":    {response: exampleReplay()},
		"cancel-operator-subscription-replay": {response: cancelled},
		"create-operator-subscription": {request: `{"name": "ops", "url": "https://ops.example/hooks", "event_types": ["tenant.*", "task.cancelled_via_tenant_cascade"]}`,
			response: created},
		"get-operator-subscription":    {response: x},
		"update-operator-subscription": {request: `{"tenants": ["acme"]}`, response: limited},
		"delete-operator-subscription": {},
		"pause-operator-subscription":  {response: paused},
		"resume-operator-subscription": {response: resumed},
		"enable-operator-subscription": {response: resumed},
		"test-operator-subscription":   {response: SubscriptionTested{true, examplePublishedID, exampleDeliveryID, exampleAttempt()}},
		"rotate-operator-subscription-secret": {request: `{"grace_seconds": 86400}`, response: SecretRotated{SigningSecret: newSecret,
			PreviousExpiresAt: new(exampleTime(0).AddDate(0, 0, 1)), SigningSecretsCount: 2, Warnings: []string{}}},
		"get-operator-subscription-stats": {response: SubscriptionStats{DeliveredLastHour: 12, DeliveredLast24h: 240,
			MeanDurationMS: 30.5}},
	}
}
