package eventhook

// SubscriptionFilter narrows a list of subscriptions. An empty field matches every
// subscription.
type SubscriptionFilter struct {
	Status    SubscriptionStatus
	EventType string // a type that the subscription receives, or a pattern: see TypePrefix
	Before    SubscriptionID
	Limit     int
}
