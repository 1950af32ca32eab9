package pg

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// ScanDeliveries lists deliveries, newest first: those of one tenant, or of all tenants if
// tenant is zero. It examines a limited number of deliveries for a limited time, and may
// return fewer than f.Limit although more match; Next continues.
func (db *DB) ScanDeliveries(ctx context.Context, tenant eventhook.TenantID,
	f eventhook.DeliveryFilter) (found eventhook.DeliveryScan, err error) {
	err = db.list(ctx, func(ctx context.Context, lists *listPool) error {
		found, err = lists.scanDeliveries(ctx, tenant, f, scan{scanLimits: listScan, limit: f.Limit, now: db.now})
		return err
	})
	return found, translate("list deliveries", err)
}

func (p *listPool) scanDeliveries(ctx context.Context, tenant eventhook.TenantID, f eventhook.DeliveryFilter,
	s scan) (found eventhook.DeliveryScan, err error) {
	sql, args, limit := deliveryScanSQL(tenant, f)
	switch {
	case tenant.IsZero():
		s.window = firstWindow
	case f.Scope != "": // most deliveries of a subscription are of its scope
		s.first = min(scopedRows*f.Limit, s.step)
	}
	s.read = func(ctx context.Context, from, before [16]byte, rows int) (scanStep, error) {
		args["from"], args["before"], args[limit] = from, before, rows
		return p.readScanStep(ctx, sql, args)
	}
	from, before := deliveryBounds(f)
	out, err := s.run(ctx, from, before)
	if err != nil {
		return found, err
	}
	found.Next = out.next
	found.Deliveries, err = p.deliveriesByKey(ctx, out.rows)
	return found, err
}

// scopedRows is how many times the limit of a list for a scope its first step examines.
const scopedRows = 2

// deliveryScanSQL returns the statement of a step and its parameters without the bounds. limit names
// the one for the number of rows.
func deliveryScanSQL(tenant eventhook.TenantID,
	f eventhook.DeliveryFilter) (sql string, args pgx.StrictNamedArgs, limit string) {
	if f.Scope != "" && f.EventType == "" && !tenant.IsZero() {
		sql, args = newScopedScan(tenant, f)
		return sql, args, "limit"
	}
	l := newDeliveryScan(tenant, f)
	return l.rows.sql(tenant.IsZero()), l.args, "rows"
}

// deliveryScan has the conditions of a scan and their parameters, without the bounds.
type deliveryScan struct {
	rows scanRows
	args pgx.StrictNamedArgs
}

// newDeliveryScan selects the index that leaves the fewest deliveries to examine, and puts
// all conditions that it does not serve into matches.
func newDeliveryScan(tenant eventhook.TenantID, f eventhook.DeliveryFilter) deliveryScan {
	s := deliveryScan{scanRows{table: "delivery", alias: "d", where: byDeliveryTenant, matches: `true`},
		pgx.StrictNamedArgs{"tenant": [16]byte(tenant)}}
	isUndelivered := f.Status == eventhook.DeliveryFailed || f.Status == eventhook.DeliveryDead
	ofTenant := `d.tenant_id = @tenant`
	if tenant == eventhook.OperatorTenant { // the deliveries have the tenants of their events
		ofTenant = `@tenant = ` + operatorID
	}
	hasSubscription := !f.SubscriptionID.IsZero() && !tenant.IsZero()
	switch {
	case hasSubscription && isUndelivered:
		s.rows.where = byDeliverySubscriptionStatus
	case hasSubscription:
		s.rows.where = byDeliverySubscription
	case isUndelivered:
		s.rows.where = byDeliveryStatus
	}
	if !f.SubscriptionID.IsZero() {
		s.add("subscription", [16]byte(f.SubscriptionID), `(d.destination_id = @subscription AND `+ofTenant+`) IS TRUE`)
	}
	if f.Status != "" {
		s.add("status", string(f.Status), `(d.status = @status) IS TRUE`)
	}
	if !f.EventID.IsZero() {
		s.add("event", [16]byte(f.EventID), `(d.event_id = @event) IS TRUE`)
	}
	if !f.RouteID.IsZero() {
		s.add("destinations", destinationsArg(f.RouteID), `(d.destination_id = ANY(@destinations)) IS TRUE`)
	}
	if prefix, isPattern := eventhook.TypePrefix(f.EventType); isPattern {
		s.add("type", prefix, `starts_with(d.event_type, @type)`)
	} else if f.EventType != "" {
		s.add("type", f.EventType, `d.event_type = @type`)
	}
	if f.Scope != "" {
		s.add("scope", f.Scope, ofScopeSQL)
	}
	if !tenant.IsZero() && tenant != eventhook.OperatorTenant {
		s.rows.matches += ` AND (d.destination_id = ANY(` + operatorSubscriptions + `)) IS NOT TRUE` // no tenant sees these
	}
	if tenant.IsZero() {
		delete(s.args, "tenant")
		s.rows.where, s.rows.matches = strings.ReplaceAll(s.rows.where, `@tenant`, `t.id`),
			strings.ReplaceAll(s.rows.matches, `@tenant`, `t.id`)
	}
	return s
}

func (s *deliveryScan) add(name string, value any, condition string) {
	s.args[name] = value
	s.rows.matches += ` AND ` + condition
}

// deliveriesByKeySQL reads deliveries by their primary keys.
const deliveriesByKeySQL = `
SELECT ` + deliveryColumns + ` FROM unnest($1::uuid[], $2::uuid[]) AS u (tenant_id, id)
JOIN eventhook.delivery d ON d.tenant_id = u.tenant_id AND d.id = u.id
ORDER BY d.id DESC`

func (p *listPool) deliveriesByKey(ctx context.Context, keys []rowKey) ([]eventhook.Delivery, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	tenants, ids := keysOf(keys)
	rows, err := p.Query(ctx, deliveriesByKeySQL, tenants, ids)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanDelivery)
}
