package pg

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
	"github.com/eventhook/eventhook/outbound/agents"
)

var _ agents.Queue = (*DB)(nil)

// dueForAgents finds, in the list of @destinations, those with due deliveries of which agents hold
// fewer than their slots. It does not look for due deliveries of a single destination. Indexes delivery_due and delivery_held.
const dueForAgents = `
    SELECT u.destination_id, u.slots, u.max_count, u.n, held.n AS held
    FROM unnest(@tenants::uuid[], @destinations::uuid[], @slots::int4[], @counts::int4[])
        WITH ORDINALITY AS u (tenant_id, destination_id, slots, max_count, n)
    CROSS JOIN LATERAL (SELECT count(*) AS n FROM (
        SELECT FROM eventhook.delivery d
        WHERE d.tenant_id = u.tenant_id AND d.destination_id = u.destination_id AND d.agent_leases IS NOT NULL AND d.status = 'acquired'
          AND d.due_at > @now LIMIT u.slots) h) held
    WHERE held.n < u.slots AND (cardinality(@destinations::uuid[]) = 1
        OR (SELECT true FROM eventhook.delivery d WHERE d.destination_id = u.destination_id AND d.due_at <= @now ORDER BY d.due_at LIMIT 1))`

// countDueForAgentsSQL counts the due deliveries, up to a limit of each destination.
const countDueForAgentsSQL = `
WITH open AS MATERIALIZED (` + dueForAgents + `
)
SELECT o.destination_id, due.n FROM open o CROSS JOIN LATERAL (SELECT count(*) AS n FROM (
    SELECT FROM eventhook.delivery d WHERE d.destination_id = o.destination_id AND d.due_at <= @now LIMIT least(o.max_count, o.slots - o.held)) d) due
WHERE due.n > 0 ORDER BY o.n`

// DueForAgents implements agents.Queue.
func (db *DB) DueForAgents(ctx context.Context, list []agents.Share) (due []agents.Due, err error) {
	if len(list) == 0 || db.Fit() != nil {
		return nil, nil //nolint:nilerr // another instance can serve them
	}
	args := sharesArgs(list)
	args["now"] = db.now()
	rows, err := db.work.Query(ctx, countDueForAgentsSQL, args)
	if err != nil {
		return nil, translate("look for due deliveries of agents", err)
	}
	due, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (d agents.Due, err error) {
		err = r.Scan((*[16]byte)(&d.DestinationID), &d.Count)
		return d, err
	})
	return due, translate("look for due deliveries of agents", err)
}

func sharesArgs(list []agents.Share) pgx.StrictNamedArgs {
	tenants, destinations := make([][16]byte, len(list)), make([][16]byte, len(list))
	slots, counts := make([]int32, len(list)), make([]int32, len(list))
	for i, s := range list {
		tenants[i], destinations[i] = s.TenantID, s.DestinationID
		slots[i], counts[i] = int32(s.Slots), int32(s.Max)
	}
	return pgx.StrictNamedArgs{"tenants": tenants, "destinations": destinations, "slots": slots, "counts": counts}
}

// The statements by which agents lease deliveries. Each of the first @max destinations with due
// deliveries gets the same part of @max. The deliveries are taken in rounds, one of each
// destination, until @max, or until the bodies of their events would exceed @max_bytes. A delivery whose
// lease has expired is still acquired: the statement counts the leases of agents in a row. Indexes
// delivery_due and delivery_held, or delivery_destination_status for a probe, then primary keys.
//
// The commit does not wait for the disk: a lease that a crash of the database loses is claimed
// again, and the result of another agent's lease is refused.
const (
	claimForAgentSQL      = agentClaimPrefix + `d.due_at <= @now ORDER BY d.due_at` + agentClaimSuffix
	claimTriedForAgentSQL = agentClaimPrefix + `(d.due_at <= @now) IS TRUE AND d.status = 'failed' AND d.status IN ('failed', 'dead') ORDER BY d.id` + agentClaimSuffix

	agentClaimPrefix = `
WITH open AS MATERIALIZED (` + dueForAgents + `
      AND (SELECT set_config('synchronous_commit', 'off', true)) = 'off'
    ORDER BY u.n LIMIT @max::int
), due AS MATERIALIZED (
    SELECT o.n, d.* FROM open o CROSS JOIN LATERAL (
        SELECT d.tenant_id, d.id, d.event_id, d.due_at, ` + agentLeases + ` AS leases FROM eventhook.delivery d
        WHERE d.destination_id = o.destination_id AND `
	agentClaimSuffix = `
        LIMIT least(o.max_count, o.slots - o.held, ceil(@max::int / greatest((SELECT count(*) FROM open), 1)::float8)::int)
        FOR UPDATE SKIP LOCKED) d
), sized AS MATERIALIZED (
    SELECT d.*, row_number() OVER (PARTITION BY d.n ORDER BY d.due_at) AS round,
        coalesce((SELECT e.body_size FROM eventhook.event e WHERE e.tenant_id = d.tenant_id AND e.id = d.event_id), 0) AS size
    FROM due d
), c AS MATERIALIZED (
    SELECT tenant_id, id, due_at, leases FROM (
        SELECT s.*, row_number() OVER (ORDER BY round, n) AS place,
            sum(size::bigint) OVER (ORDER BY round, n ROWS UNBOUNDED PRECEDING) AS bytes FROM sized s) s
    WHERE place <= @max AND (place = 1 OR bytes <= @max_bytes)
)` + leaseForAgent + `@agent, agent_leases = c.leases` + returnForAgent

	// agentLeases is the number of leases of agents in a row, with the one that begins now.
	agentLeases = `CASE WHEN d.status = 'acquired' THEN greatest(d.agent_leases, 0) ELSE 0 END + 1`

	leaseForAgent = `
UPDATE eventhook.delivery d
SET status = 'acquired', due_at = @until::timestamptz, lease_token = d.lease_token + 1, acquired_by = `
	returnForAgent = `
FROM c
WHERE d.tenant_id = c.tenant_id AND d.id = c.id
RETURNING d.id, d.tenant_id, d.destination_id, d.route_id, d.target_index, d.has_body, d.event_id, d.event_type, d.lease_token, d.due_at,
    d.attempts, d.retry_count, d.restarted_at, d.order_key, d.released_by IS NOT NULL, coalesce(d.status_code, 0), c.leases, c.due_at`
)

// lockAgentClaimsSQL waits for the claims of a tenant's agents on other instances, so that the next
// statement counts the deliveries that they have leased. Lock order: first of all locks.
const lockAgentClaimsSQL = `SELECT pg_advisory_xact_lock(1702258017, $1)` // "evha"

// ClaimForAgent implements agents.Queue.
func (db *DB) ClaimForAgent(ctx context.Context, c agents.Claim) ([]agents.Claimed, error) {
	if db.Fit() != nil {
		return nil, nil //nolint:nilerr // another instance can serve the claim
	}
	probes := slices.DeleteFunc(slices.Clone(c.Shares), func(s agents.Share) bool { return !s.TriedFirst })
	list, err := db.claimForAgent(ctx, claimTriedForAgentSQL, c, probes)
	if err != nil {
		return nil, translate("claim deliveries for an agent", err)
	}
	others := slices.DeleteFunc(slices.Clone(c.Shares), func(s agents.Share) bool {
		return slices.ContainsFunc(list, func(x agents.Claimed) bool { return x.DestinationID == s.DestinationID })
	})
	c.Max -= len(list)
	more, err := db.claimForAgent(ctx, claimForAgentSQL, c, others)
	if err != nil {
		return nil, translate("claim deliveries for an agent", err)
	}
	list = append(list, more...)
	return list, db.readForAgents(ctx, list)
}

// readForAgents reads the events and the bodies of claimed deliveries.
func (db *DB) readForAgents(ctx context.Context, list []agents.Claimed) error {
	deliveries := make([]*eventhook.Delivery, len(list))
	for i, x := range list {
		deliveries[i] = x.Delivery
	}
	if len(list) == 0 {
		return nil
	}
	return cmp.Or(db.readPublished(ctx, deliveries), db.readBodies(ctx, deliveries))
}

func (db *DB) claimForAgent(ctx context.Context, sql string, c agents.Claim, shares []agents.Share) ([]agents.Claimed, error) {
	if len(shares) == 0 || c.Max <= 0 {
		return nil, nil
	}
	now := db.now()
	args := sharesArgs(shares)
	args["now"], args["until"], args["max"], args["max_bytes"], args["agent"] = now, now.Add(c.Lease), c.Max, agents.MaxClaimBytes, [16]byte(c.Agent)
	tenant := shares[0].TenantID
	b := &pgx.Batch{} // one transaction and one round trip
	b.Queue(lockAgentClaimsSQL, int32(binary.BigEndian.Uint32(tenant[12:])))
	b.Queue(sql, args)
	results := db.work.SendBatch(ctx, b)
	defer func() { _ = results.Close() }()
	if _, err := results.Exec(); err != nil {
		return nil, err
	}
	rows, err := results.Query()
	if err != nil {
		return nil, err
	}
	list, err := collectLeased(rows)
	return list, cmp.Or(err, results.Close())
}

// collectLeased returns the rows of returnForAgent as deliveries, in the order in which they became
// due.
func collectLeased(rows pgx.Rows) ([]agents.Claimed, error) {
	type leased struct {
		agents.Claimed
		wasDue time.Time
	}
	list, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (x leased, err error) {
		x.Delivery = &eventhook.Delivery{Status: eventhook.DeliveryAcquired}
		d := x.Delivery
		var to destinationColumns
		var hasBody bool
		var order *[16]byte
		err = r.Scan((*[16]byte)(&d.ID), (*[16]byte)(&d.TenantID), &to.id, &to.route, &to.index, &hasBody, (*[16]byte)(&d.EventID), &d.EventType,
			&d.Lease.Token, &d.Lease.Until, &d.Attempts, &d.RetryCount, &d.RestartedAt, &order, &d.IsReleased, &d.StatusCode, &x.Leases, &x.wasDue)
		to.set(d)
		if order != nil {
			d.OrderKey = *order
		}
		if hasBody {
			d.Body = []byte{} // readBodies reads it
		}
		return x, err
	})
	slices.SortFunc(list, func(x, y leased) int { return cmp.Or(x.wasDue.Compare(y.wasDue), slices.Compare(x.ID[:], y.ID[:])) })
	claimed := make([]agents.Claimed, len(list))
	for i, x := range list {
		claimed[i] = x.Claimed
	}
	return claimed, err
}

// expiredForAgentsSQL leases deliveries that no agent gets any more. It looks at the deliveries that
// became due first, which are the oldest. Index delivery_due, then primary keys.
const expiredForAgentsSQL = `
WITH oldest AS MATERIALIZED (
    SELECT d.tenant_id, d.id FROM eventhook.delivery d
    WHERE d.destination_id = @destination AND d.due_at <= @now ORDER BY d.due_at LIMIT @limit
), c AS MATERIALIZED (
    SELECT d.tenant_id, d.id, d.due_at, ` + agentLeases + ` AS leases
    FROM oldest o JOIN eventhook.delivery d ON d.tenant_id = o.tenant_id AND d.id = o.id
    WHERE d.due_at <= @now AND (d.id < @before AND (d.restarted_at < @since) IS NOT FALSE OR d.status = 'acquired' AND d.agent_leases >= @max_leases)
    ORDER BY d.due_at FOR UPDATE OF d SKIP LOCKED
)` + leaseForAgent + `NULL, agent_leases = NULL` + returnForAgent

// ClaimProbeForAgent implements agents.Queue.
func (db *DB) ClaimProbeForAgent(ctx context.Context, of []eventhook.SubscriptionID, lease time.Duration) (*outbound.Probe, error) {
	probes, err := db.claimProbes(ctx, 1, pgx.StrictNamedArgs{"busy": [][16]byte{}, "of": uuids(of), "lease": lease})
	if err != nil || len(probes) == 0 {
		return nil, err
	}
	return &probes[0], nil
}

// ClaimMissedForAgent implements agents.Queue.
func (db *DB) ClaimMissedForAgent(ctx context.Context, agent eventhook.AgentID, p outbound.Probe, lease time.Duration) (*outbound.Missed, error) {
	return db.claimMissed(ctx, p, pgx.StrictNamedArgs{"lease": lease, "holder": [16]byte(agent), "is_agent": true})
}

// expireLease is how long deliveries are leased that are about to become dead.
const expireLease = 30 * time.Second

// ExpiredForAgents implements agents.Queue.
func (db *DB) ExpiredForAgents(ctx context.Context, to eventhook.DestinationID, before time.Time, limit int) ([]agents.Claimed, error) {
	now := db.now()
	rows, err := db.work.Query(ctx, expiredForAgentsSQL, pgx.StrictNamedArgs{"destination": [16]byte(to), "now": now, "until": now.Add(expireLease),
		"before": [16]byte(eventhook.FirstID[eventhook.Delivery](before)), "since": before, "max_leases": eventhook.MaxAgentLeases, "limit": limit})
	if err != nil {
		return nil, translate("claim expired deliveries of agents", err)
	}
	list, err := collectLeased(rows)
	if err != nil {
		return nil, translate("claim expired deliveries of agents", err)
	}
	return list, db.readForAgents(ctx, list)
}

// heldDeliveriesSQL reads deliveries with the trace of their events. Primary keys, one partition
// each.
const heldDeliveriesSQL = `
SELECT d.tenant_id, d.id, d.destination_id, d.route_id, d.target_index, d.event_id, d.event_type, d.status, d.lease_token, coalesce(d.due_at, @now),
    d.attempts, d.retry_count, d.restarted_at, d.order_key, d.released_by IS NOT NULL, CASE WHEN d.agent_leases IS NOT NULL THEN d.acquired_by END,
    coalesce(d.agent_leases <= 0, false), coalesce(d.agent_leases < 0, false), coalesce(d.status_code, 0),
    coalesce(e.origin, ''), coalesce(s.slug, ''), coalesce(e.trace_id, replace(e.payload_of::text, '-', ''), ''), p.headers, coalesce(e.envelope, p.envelope)
FROM unnest(@tenants::uuid[], @ids::uuid[]) AS u (tenant_id, id)
JOIN eventhook.delivery d ON d.tenant_id = u.tenant_id AND d.id = u.id
LEFT JOIN eventhook.event e ON e.tenant_id = d.tenant_id AND e.id = d.event_id
LEFT JOIN eventhook.source s ON s.id = e.source_id
LEFT JOIN eventhook.event_payload p ON p.event_id = coalesce(e.payload_of, d.event_id)`

// HeldDeliveries implements agents.Queue.
func (db *DB) HeldDeliveries(ctx context.Context, list []agents.Key) ([]agents.Held, error) {
	tenants, ids := make([][16]byte, len(list)), make([][16]byte, len(list))
	for i, k := range list {
		tenants[i], ids[i] = k.TenantID, k.ID
	}
	rows, err := db.work.Query(ctx, heldDeliveriesSQL, pgx.StrictNamedArgs{"tenants": tenants, "ids": ids, "now": db.now()})
	if err != nil {
		return nil, translate("read deliveries of agents", err)
	}
	held, err := pgx.CollectRows(rows, scanHeld)
	return held, translate("read deliveries of agents", err)
}

func scanHeld(r pgx.CollectableRow) (h agents.Held, err error) {
	d, e := &eventhook.Delivery{}, &eventhook.Event{}
	d.Event, h.Delivery = e, d
	var to destinationColumns
	var order, agent *[16]byte
	var envelope []byte
	err = r.Scan((*[16]byte)(&d.TenantID), (*[16]byte)(&d.ID), &to.id, &to.route, &to.index, (*[16]byte)(&d.EventID), &d.EventType, (*string)(&d.Status),
		&d.Lease.Token, &d.Lease.Until, &d.Attempts, &d.RetryCount, &d.RestartedAt, &order, &d.IsReleased, &agent,
		&h.IsProbe, &h.WasDead, &d.StatusCode, (*string)(&e.Origin), &e.SourceSlug, &e.TraceID, &e.Headers, &envelope)
	to.set(d)
	if order != nil {
		d.OrderKey = *order
	}
	if agent != nil {
		h.Agent = *agent
	}
	e.ID, e.TenantID, e.EventType = d.EventID, d.TenantID, d.EventType
	if err == nil && envelope != nil {
		e.Envelope = new(eventhook.Envelope)
		if err = json.Unmarshal(envelope, e.Envelope); err != nil {
			err = fmt.Errorf("envelope of %s: %w", e.ID, err)
		}
	}
	return h, err
}

// routesForAgentsSQL reads the routes of a tenant, whose number is limited. Indexes of sources by
// tenant and route_source.
const routesForAgentsSQL = `
SELECT r.id FROM eventhook.source s JOIN eventhook.route r ON r.source_id = s.id
WHERE s.tenant_id = $1 AND EXISTS (
    SELECT FROM jsonb_array_elements(r.targets) t WHERE t->>'type' = 'http' AND coalesce(jsonb_array_length(t->'target_labels'), 0) > 0)`

// RoutesForAgents returns the routes of a tenant that have a target with target labels.
func (db *DB) RoutesForAgents(ctx context.Context, tenant eventhook.TenantID) ([]eventhook.RouteID, error) {
	rows, err := db.work.Query(ctx, routesForAgentsSQL, [16]byte(tenant))
	if err != nil {
		return nil, translate("list the routes of agents", err)
	}
	list, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (id eventhook.RouteID, err error) {
		err = r.Scan((*[16]byte)(&id))
		return id, err
	})
	return list, translate("list the routes of agents", err)
}
