package api

// agentExamples returns the examples of the operations on agents.
func agentExamples() map[string]example {
	agent := Agent{ID: exampleAgentID, Name: "berlin-1", Labels: []string{"env:prod", "region:eu"}, Status: "online", LastSeenAt: new(exampleTime(30)),
		Version: new("1.4.0"), Held: 2, CreatedAt: exampleTime(0), UpdatedAt: exampleTime(0)}
	created, updated := agent, agent
	created.Status, created.LastSeenAt, created.Version, created.Held = "offline", nil, nil, 0
	updated.Labels, updated.UpdatedAt = []string{"env:prod"}, exampleTime(40)
	claimed := agentClaimAnswer{}
	claimed.Body.Items = []agentItem{{ID: exampleDeliveryID, LeaseToken: 1, LeaseUntil: exampleTime(60), LeaseSeconds: 30, Method: "POST", URL: "https://billing.internal/hooks",
		Headers: map[string]string{"Content-Type": "application/json", "Webhook-Id": examplePublishedID}, BodyBase64: []byte(`{"event_type":"payment.succeeded"}`), TimeoutSeconds: 30, Attempt: 1}}
	reported := agentResultsAnswer{}
	reported.Body.Items = []agentResultAnswer{{ID: exampleDeliveryID, Status: "accepted"}}
	return map[string]example{
		"claim-deliveries": {request: `{"max": 10, "wait_seconds": 30, "lease_seconds": 60}`, response: claimed.Body},
		"report-delivery":  {request: `{"lease_token": 1, "status_code": 204, "duration_ms": 42}`},
		"report-deliveries": {request: `{"items": [{"id": "` + exampleDeliveryID + `", "lease_token": 1, "error": "connection refused", "error_class": "connect", "duration_ms": 3}]}`,
			response: reported.Body},
		"create-agent":     {request: `{"name": "berlin-1", "labels": ["env:prod", "region:eu"]}`, response: AgentCreated{created, exampleKey}},
		"list-agents":      {response: lastExamplePage(agent)},
		"get-agent":        {response: agent},
		"update-agent":     {request: `{"labels": ["env:prod"]}`, response: updated},
		"delete-agent":     {},
		"rotate-agent-key": {request: `{"grace_seconds": 3600}`, response: KeyRotated{exampleKey, new(exampleTime(3600))}},
	}
}
