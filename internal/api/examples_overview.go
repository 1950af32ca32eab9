package api

// overviewExamples returns the examples of overviews, queues, usage and the state of the gateway.
func overviewExamples() map[string]example {
	counts := TrafficCounts{Received: 212, Refused: 38, Duplicates: 3, Succeeded: 209, Sent: 198, FailedAttempts: 2, Dead: 1,
		LatencyP50MS: new(4.1), LatencyP99MS: new(31.2)}
	totals := TrafficTotals{counts, new(0.99)}
	disabled := AttentionItem{Type: "subscription_disabled", Severity: "critical", ResourceType: "subscription", ResourceID: exampleSubscriptionID,
		Name: "billing", Summary: "The subscription billing is disabled: 41 deliveries to billing.example are missed.", Count: 41,
		Since: new(exampleTime(0)), Reason: "500 from billing.example"}
	part := OverviewPart{AsOf: exampleTime(30), WindowSeconds: 3600, StepSeconds: 60, Series: []TrafficPoint{{exampleTime(0), counts}},
		Totals: totals, Attention: []AttentionItem{disabled},
		Queues: OverviewQueues{Events: QueueOverview{2, 0.2}, Executions: QueueOverview{1, 0}, Deliveries: QueueOverview{41, 12.5}}}
	ofTenant := disabled
	ofTenant.Tenant = "acme"
	all := part
	all.Attention = []AttentionItem{ofTenant}
	queues := workQueuesAnswer{}.Body
	queues.AsOf, queues.Items = exampleTime(30), []WorkQueue{{"default", 3, 2, 1, 4.5, new(exampleTime(25))}}
	midnight := exampleTime(0).Truncate(24*60*60*1e9).AddDate(0, 0, 1)
	return map[string]example{
		"get-overview": {query: "window=1h", response: Overview{part,
			[]SourceOverview{{"github", "GitHub", "github", true, 212, 38, 3, 209, 0, new(exampleTime(0))}}, 1,
			[]SubscriptionOverview{{ID: exampleSubscriptionID, Name: "billing", Status: "disabled", DisabledReason: "20 deliveries in a row were dead",
				Circuit: "open", FailingSince: new(exampleTime(0)), Sent: 198, FailedAttempts: 2, Dead: 1, SuccessRatio: new(0.99),
				LatencyP50MS: new(4.1), LatencyP99MS: new(31.2), MissedCount: 41, LastError: "500 from billing.example"}}, 1}},
		"get-gateway-overview": {query: "window=24h", response: GatewayOverview{all, []TenantOverview{{"acme", "Acme", "active", 1, totals}}, 1}},
		"get-work-queues":      {response: queues},
		"get-usage": {response: Usage{AsOf: exampleTime(30), EventsToday: 1200, MaxEventsPerDay: new(int64(100000)), EventsResetAt: midnight,
			StorageBytes: 52428800, StorageResetAt: midnight}},
		"get-system": {response: exampleSystem()},
	}
}

func exampleSystem() System {
	return System{AsOf: exampleTime(30), Version: "1.0.0", SchemaVersion: 26, SchemaSupported: 26,
		Instance: SystemInstance{ID: exampleAgentID, Roles: []string{"ingest", "api", "dispatch"}, StartedAt: exampleTime(0),
			UptimeSeconds: 30, IsReady: true},
		EncryptionKeyIDs: []string{"1f0e"}, DatabaseKeyID: "1f0e", Retention: SystemRetention{30, 30, 30, 365}, DatabaseBytes: 73400320,
		DatabaseRoundTripMS: 0.3, Connections: []SystemConnections{{"work", 1, 3, 16}},
		Queues: SystemQueues{SystemQueue{Parked: map[string]int{}}, SystemQueue{Parked: map[string]int{"suspended": 1}},
			SystemQueue{Due: 2, OldestAgeSeconds: 0.2, Parked: map[string]int{}}},
	}
}
