package pg

import (
	"context"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// The statements of overviews read counts by ranges of the primary key of eventhook.traffic, the
// health of subscriptions, and bounded parts of queues. They read no event. Their cost depends on
// the numbers of resources, not on the number of events.

// overviewReader reads the parts of an overview. The first error ends the reading.
type overviewReader struct {
	db     *DB
	tenant *eventhook.TenantID // nil: all tenants
	window eventhook.TrafficWindow
	now    time.Time
	x      eventhook.Overview
}

// Overview returns the traffic, the queues and the resources of a tenant, and what needs a person.
func (db *DB) Overview(ctx context.Context, tenant eventhook.TenantID, w eventhook.TrafficWindow) (eventhook.Overview, error) {
	r := &overviewReader{db: db, tenant: &tenant, window: w, now: db.now()}
	err := inOrder(ctx, r.series, r.sources, r.subscriptions, r.tenantQueues, r.attention)
	return r.x, translate("read the overview of a tenant", err)
}

// GatewayOverview is Overview for all tenants together, with a list of tenants in place of the
// sources and subscriptions.
func (db *DB) GatewayOverview(ctx context.Context, w eventhook.TrafficWindow) (eventhook.Overview, error) {
	r := &overviewReader{db: db, window: w, now: db.now()}
	err := inOrder(ctx, r.series, r.tenants, r.allQueues, r.attention)
	return r.x, translate("read the overview of all tenants", err)
}

func inOrder(ctx context.Context, steps ...func(context.Context) error) error {
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// args are the parameters of the window, of the tenant and of the time, with more.
func (r *overviewReader) args(more pgx.StrictNamedArgs) pgx.StrictNamedArgs {
	args := windowArgs(r.window)
	maps.Copy(args, more)
	return args
}

// tenantID is the parameter of statements that read one tenant, or all of them for NULL.
func (r *overviewReader) tenantID() any {
	if r.tenant == nil {
		return nil
	}
	return [16]byte(*r.tenant)
}

// ofTenants selects the tenants t of an overview: those that are not closed, or the one of
// @tenant.
const ofTenants = ` (@tenant::uuid IS NULL AND t.status <> 'closed' AND t.id <> ` + operatorID + ` OR t.id = @tenant)`

var seriesSQL = `
SELECT u.at, ` + trafficSums + `
FROM eventhook.tenant t JOIN eventhook.traffic u ON u.tenant_id = t.id AND u.resource_id = t.id AND` + trafficOfWindow + `
WHERE` + ofTenants + ` GROUP BY u.at`

func (r *overviewReader) series(ctx context.Context) error {
	rows, err := r.db.lists.Query(ctx, seriesSQL, r.args(pgx.StrictNamedArgs{"tenant": r.tenantID()}))
	if err != nil {
		return err
	}
	r.x.Series = map[time.Time]eventhook.Traffic{}
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) {
		var at time.Time
		var t eventhook.Traffic
		dest, done := trafficDest(&t)
		err := row.Scan(append([]any{&at}, dest...)...)
		done()
		r.x.Series[at.UTC()] = t
		return struct{}{}, err
	})
	return err
}

// sourcesOverviewSQL sums the traffic of each source of a tenant. last is the start of the last
// minute with an event. Index source_tenant.
var sourcesOverviewSQL = `
WITH listed AS MATERIALIZED (
    SELECT s.id, s.slug, s.name, s.provider, s.is_enabled, x.*, count(*) OVER () AS number
    FROM eventhook.source s CROSS JOIN LATERAL (
        SELECT ` + trafficSums + ` FROM eventhook.traffic u WHERE u.tenant_id = s.tenant_id AND u.resource_id = s.id AND` + trafficOfWindow + `) x
    WHERE s.tenant_id = @tenant
    ORDER BY x.refused + x.failed > 0 DESC, x.refused + x.failed DESC, x.received DESC, s.slug LIMIT @limit
)
SELECT l.*, last.at FROM listed l LEFT JOIN LATERAL (
    SELECT u.at FROM eventhook.traffic u
    WHERE u.tenant_id = @tenant AND u.span = 60 AND u.resource_id = l.id AND u.received > 0 ORDER BY u.at DESC LIMIT 1) last ON true
ORDER BY l.refused + l.failed > 0 DESC, l.refused + l.failed DESC, l.received DESC, l.slug`

func (r *overviewReader) sources(ctx context.Context) error {
	rows, err := r.db.lists.Query(ctx, sourcesOverviewSQL,
		r.args(pgx.StrictNamedArgs{"tenant": r.tenantID(), "limit": eventhook.MaxOverviewItems}))
	if err != nil {
		return err
	}
	r.x.Sources, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (s eventhook.SourceOverview, err error) {
		dest, done := trafficDest(&s.Traffic)
		dest = append([]any{(*[16]byte)(&s.ID), &s.Slug, &s.Name, &s.Provider, &s.IsEnabled}, dest...)
		err = row.Scan(append(dest, &r.x.SourceCount, &s.LastReceivedAt)...)
		done()
		return s, err
	})
	return err
}

// isFailing is whether a subscription s with the health h needs a person.
const isFailing = ` (coalesce(s.disabled_by IN ('failures', 'gone'), false) OR h.failing_since IS NOT NULL)`

// subscriptionsOverviewSQL sums the traffic of each subscription of a tenant. Index
// subscription_tenant, then primary keys.
var subscriptionsOverviewSQL = `
SELECT s.id, s.name, s.status, coalesce(s.disabled_by, ''), coalesce(s.disabled_reason, ''), h.failing_since,
    coalesce(h.probing_until > @now OR s.status = 'active' AND h.next_probe_at <= @now, false), x.*, count(*) OVER ()
FROM eventhook.subscription s LEFT JOIN eventhook.subscription_health h ON h.subscription_id = s.id
CROSS JOIN LATERAL (
    SELECT ` + trafficSums + ` FROM eventhook.traffic u WHERE u.tenant_id = s.tenant_id AND u.resource_id = s.id AND` + trafficOfWindow + `) x
WHERE s.tenant_id = @tenant
ORDER BY` + isFailing + ` DESC, x.dead + x.failed_attempts > 0 DESC, x.dead + x.failed_attempts DESC, x.sent DESC, s.id LIMIT @limit`

func (r *overviewReader) subscriptions(ctx context.Context) error {
	rows, err := r.db.lists.Query(ctx, subscriptionsOverviewSQL,
		r.args(pgx.StrictNamedArgs{"tenant": r.tenantID(), "now": r.now, "limit": eventhook.MaxOverviewItems}))
	if err != nil {
		return err
	}
	r.x.Subscriptions, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (s eventhook.SubscriptionOverview, err error) {
		var o eventhook.Outage
		dest, done := trafficDest(&s.Traffic)
		dest = append([]any{(*[16]byte)(&s.ID), &s.Name, &s.Status, &s.DisabledBy, &s.DisabledReason, &o.FailingSince, &o.IsProbing}, dest...)
		err = row.Scan(append(dest, &r.x.SubscriptionCount)...)
		done()
		s.FailingSince, s.Circuit = o.FailingSince, o.Circuit()
		return s, err
	})
	return err
}

// tenantsOverviewSQL sums the traffic of each tenant. Primary keys.
var tenantsOverviewSQL = `
SELECT t.id, t.slug, t.name, t.status, x.*, count(*) OVER ()
FROM eventhook.tenant t CROSS JOIN LATERAL (
    SELECT ` + trafficSums + ` FROM eventhook.traffic u WHERE u.tenant_id = t.id AND u.resource_id = t.id AND` + trafficOfWindow + `) x
WHERE` + ofTenants + `
ORDER BY x.dead + x.failed + x.refused > 0 DESC, x.dead + x.failed + x.refused DESC, x.received + x.sent DESC, t.slug LIMIT @limit`

func (r *overviewReader) tenants(ctx context.Context) error {
	rows, err := r.db.lists.Query(ctx, tenantsOverviewSQL,
		r.args(pgx.StrictNamedArgs{"tenant": nil, "limit": eventhook.MaxOverviewItems}))
	if err != nil {
		return err
	}
	r.x.Tenants, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (t eventhook.TenantOverview, err error) {
		dest, done := trafficDest(&t.Traffic)
		dest = append([]any{(*[16]byte)(&t.ID), &t.Slug, &t.Name, &t.Status}, dest...)
		err = row.Scan(append(dest, &r.x.TenantCount)...)
		done()
		return t, err
	})
	return err
}
