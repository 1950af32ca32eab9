package eventhook

// TenantConfig is a tenant with all that is configured for it, as a file
// describes it.
type TenantConfig struct {
	Tenant
	Sources []SourceConfig
	// Subscriptions are known by their names. One without a Status has the one
	// that it has, at first SubscriptionActive. One without a Signing secret keeps
	// those that it has, and at first one is made; one that names another signs
	// with it, and with the former for the time of a rotation.
	Subscriptions []Subscription
}

// SourceConfig is a source with its routes.
type SourceConfig struct {
	Source
	Routes []Route
}

// ChangeAction says what applying a configuration did with a thing.
type ChangeAction string

// What can happen to a configured thing.
const (
	ChangeCreate    ChangeAction = "create"
	ChangeUpdate    ChangeAction = "update"
	ChangeDelete    ChangeAction = "delete"
	ChangeUnchanged ChangeAction = "unchanged"
)

// Change is one line of a plan.
type Change struct {
	Action ChangeAction
	Kind   string        // tenant, source, route or subscription
	Name   string        // acme, acme/github, acme/github/pushes, acme/billing
	Fields []FieldChange // of an update, what differs
}
