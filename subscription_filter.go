package eventhook

// SubscriptionFilter narrows a list of subscriptions. An empty field matches every
// subscription.
type SubscriptionFilter struct {
	Status    SubscriptionStatus
	EventType string // a type that the subscription receives, or a pattern: see TypePrefix
	Scope     string // visible to a customer of this scope: see SubscriptionSettings.IsVisibleTo
	Before    SubscriptionID
	Limit     int
}

// SubscriptionSelection selects subscriptions for a bulk change: the oldest Limit that match.
type SubscriptionSelection struct {
	Statuses      []SubscriptionStatus // nil means any status
	EventType     string               // as in SubscriptionFilter
	Limit         int
	ExpectedCount *int   // number of subscriptions that must match, without the Limit; nil means any number
	Action        string // of the audit entry
}
