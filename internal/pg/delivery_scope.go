package pg

import (
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// ofScopeSQL is the condition that the event of the delivery d is of the customer with the scope
// @scope; see eventhook.InScope. It is false if the event has no scope, or if its data is past the
// retention. The envelope of an event is where eventScopeSQL says. Primary keys, one partition each.
const ofScopeSQL = `EXISTS (SELECT FROM (
    SELECT coalesce(e.envelope,
        (SELECT p.envelope FROM eventhook.event_payload p WHERE p.event_id = coalesce(e.payload_of, e.id))) AS envelope
    FROM eventhook.event e WHERE e.tenant_id = d.tenant_id AND e.id = d.event_id) e
    WHERE json_typeof(e.envelope->'scope') = 'string'
        AND (e.envelope->>'scope' = @scope OR starts_with(e.envelope->>'scope', @scope || '/')))`

// countsForScopeSQL is the condition that a delivery d of a subscription counts for the scope
// @scope; "" is every scope. The events of deliveries since @narrowed are of the scope_filter of the
// subscription, and so of every customer that sees it.
const countsForScopeSQL = `(@scope = '' OR d.id >= @narrowed OR ` + ofScopeSQL + `)`

// addScope adds the parameters of countsForScopeSQL to the ones of a statement.
func addScope(args pgx.StrictNamedArgs, scope string, narrowedAt *time.Time) pgx.StrictNamedArgs {
	var narrowed eventhook.DeliveryID // zero: the scope_filter was never narrowed
	if narrowedAt != nil {
		narrowed = eventhook.FirstID[eventhook.Delivery](narrowedAt.Add(clockSkew))
	}
	args["scope"], args["narrowed"] = scope, [16]byte(narrowed)
	return args
}

// newScopedScan returns the statement of a step of a scan for f.Scope, and its parameters without the
// bounds. It examines the rows of the list that has the other filters, so that the scan reads the same
// index.
func newScopedScan(tenant eventhook.TenantID, f eventhook.DeliveryFilter) (sql string, args pgx.StrictNamedArgs) {
	var unbounded eventhook.DeliveryID
	args = deliveryListArgs(tenant, f, unbounded, unbounded)
	args["scope"] = f.Scope
	return scanStepSQL(`SELECT d.tenant_id, d.id, ` + ofScopeSQL + ` AS matches FROM (` + deliveryList(f) + `) d`), args
}
