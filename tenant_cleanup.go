package eventhook

import "time"

// TenantCleanup is the progress of the background work after a tenant was closed. The
// tenant's open work is ended at first. If a purge is requested, the tenant's data is
// deleted after that.
type TenantCleanup struct {
	CorrelationID    string           // of all events and audit entries of the closing
	Ended            map[string]int64 // rows that were ended, by kind: see EndedKinds
	ClosedAt         time.Time
	CloseCompletedAt *time.Time       // nil while open work is being ended
	Deleted          map[string]int64 // rows that were deleted, by table
	PurgeRequestedAt *time.Time       // nil without a request
	PurgeCompletedAt *time.Time
}

// Kinds of rows that the closing of a tenant ends.
const (
	EndedEvents     = "events"
	EndedExecutions = "executions"
	EndedPromises   = "promises"
	EndedDeliveries = "deliveries"
)

// TenantClosedError is the error text of work that ended because its tenant was closed.
const TenantClosedError = "the tenant was closed"
