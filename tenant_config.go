package eventhook

// TenantConfig is the configuration of a tenant, as a configuration file describes
// it.
type TenantConfig struct {
	// Without a Name, an existing tenant keeps its name and a new one gets its slug as
	// the name. A nil quota of an existing tenant stays.
	Tenant
	Sources []SourceConfig
	// Subscriptions are identified by name. Without a Status, an existing
	// subscription keeps its status and a new one is SubscriptionActive. Without a
	// Signing secret, an existing subscription keeps its secrets and a new one gets
	// a generated secret. A different Signing secret starts a rotation.
	Subscriptions []Subscription
}

// SourceConfig is a source with its routes.
type SourceConfig struct {
	Source
	Routes []Route
}

// ChangeAction says what applying a configuration does to a resource.
type ChangeAction string

// The values of ChangeAction.
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
	Fields []FieldChange // the fields that an update changes
}
