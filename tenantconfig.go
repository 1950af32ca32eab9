package eventhook

// TenantConfig is a tenant with all that is configured for it, as a file
// describes it.
type TenantConfig struct {
	Tenant
	Sources []SourceConfig
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
	Kind   string        // tenant, source or route
	Name   string        // acme, acme/github, acme/github/pushes
	Fields []FieldChange // of an update, what differs
}
