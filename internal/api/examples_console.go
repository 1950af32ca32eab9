package api

// consoleExamples returns the examples of the operations that people need more than programs.
func consoleExamples() map[string]example {
	const groupKey = "AZXTqbUAc6mix7T11ufoCe5tqL0qGdVf"
	event := LookupItem{Type: "event", ID: exampleEventID, Label: "payment_intent.succeeded from stripe, delivered", At: new(exampleTime(0))}
	group := DeadGroup{Key: groupKey, SubscriptionID: new(exampleSubscriptionID), Name: new("billing"), Host: new("billing.example"),
		Cause: "500 from billing.example", StatusCode: new(500), Count: 1284, IsExact: true, FirstAt: exampleTime(0), LastAt: exampleTime(50), //nolint:mnd // an example
		SampleIDs: []string{exampleDeliveryID}}
	return map[string]example{
		"lookup":           {query: "id=" + exampleEventID, response: LookupFound{Items: []LookupItem{event}}},
		"lookup-all":       {query: "id=" + exampleEventID, response: LookupFoundOfTenants{Items: []LookupItemOfTenant{{"acme", event}}}},
		"list-dead-groups": {query: "subscription_id=" + exampleSubscriptionID, response: DeadGroups{[]DeadGroup{group}, 1, 1284, nil}}, //nolint:mnd // an example
		"send-event": {request: `{"event_id": "` + examplePublishedID + `"}`,
			response: SubscriptionSent{exampleDeliveryID, true}},
		"create-portal-link": {request: `{"scope": "customer-42", "expires_in_seconds": 3600}`,
			response: PortalLink{"https://hooks.example/portal/enter?code=AQABldOkYAB-VI1yb6CBkqO0", exampleTime(0)}},
	}
}
