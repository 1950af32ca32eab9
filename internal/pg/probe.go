package pg

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
)

var _ outbound.ProbeStore = (*DB)(nil)

// claimProbesSQL leases due probes: those of the subscriptions in @of, or, if that is NULL, those
// that agents do not make. It ends the probes of subscriptions to which the gateway
// sends nothing, such as subscriptions of closed tenants. Index subscription_health_probe.
const claimProbesSQL = `
WITH due AS MATERIALIZED (
    SELECT h.subscription_id, s.tenant_id,
        (s.status = 'active' OR h.is_held) AND t.status <> 'closed' AND (coalesce(jsonb_array_length(s.settings->'target_labels'), 0) = 0 OR @of::uuid[] IS NOT NULL) AS is_probed,
        coalesce((s.settings->'recovery'->>'max_age_hours')::int, @default_hours::int) AS max_hours
    FROM eventhook.subscription_health h JOIN eventhook.subscription s ON s.id = h.subscription_id JOIN eventhook.tenant t ON t.id = s.tenant_id
    WHERE h.next_probe_at <= @now AND (h.probing_until > @now) IS NOT TRUE AND s.tenant_id <> ALL(@busy::uuid[])
      AND CASE WHEN @of IS NULL THEN coalesce(jsonb_array_length(s.settings->'target_labels'), 0) = 0 OR NOT (s.status = 'active' OR h.is_held) OR t.status = 'closed'
          ELSE s.id = ANY(@of) END
    ORDER BY h.next_probe_at LIMIT @limit FOR UPDATE OF h SKIP LOCKED
)
UPDATE eventhook.subscription_health h
SET next_probe_at = CASE WHEN due.is_probed THEN h.next_probe_at END, probing_until = CASE WHEN due.is_probed THEN @now::timestamptz + @lease::interval END
FROM due WHERE h.subscription_id = due.subscription_id
RETURNING h.subscription_id, due.tenant_id, coalesce(h.failing_since, @now), h.is_held, due.max_hours, due.is_probed`

// ClaimProbes leases up to limit due probes of outages, the longest due first, except those of the
// tenants in busy. No other instance gets them while the lease lasts.
func (db *DB) ClaimProbes(ctx context.Context, limit int, busy []eventhook.TenantID, lease time.Duration) ([]outbound.Probe, error) {
	return db.claimProbes(ctx, limit, pgx.StrictNamedArgs{"busy": uuids(busy), "of": nil, "lease": lease})
}

// claimProbes claims probes; args are some of the parameters.
func (db *DB) claimProbes(ctx context.Context, limit int, args pgx.StrictNamedArgs) (list []outbound.Probe, err error) {
	args["now"], args["limit"], args["default_hours"] = db.now(), limit, eventhook.DefaultRecoveryHours
	rows, err := db.work.Query(ctx, claimProbesSQL, args)
	if err != nil {
		return nil, translate("claim probes", err)
	}
	var p outbound.Probe
	var hours int
	var isProbed bool
	_, err = pgx.ForEachRow(rows, []any{(*[16]byte)(&p.SubscriptionID), (*[16]byte)(&p.TenantID), &p.FailingSince, &p.IsHeld, &hours,
		&isProbed}, func() error {
		if p.MaxAge = time.Duration(hours) * time.Hour; isProbed {
			list = append(list, p)
		}
		return nil
	})
	return list, translate("claim probes", err)
}

// claimMissedSQL leases the delivery of the oldest event that became dead in an outage, or, if
// the subscription is held, that waits. It takes no dead delivery of a subscription that is
// active and has open deliveries: these are sent anyway. It also takes what a recovery of an
// earlier outage has not sent yet, since that waits for the end of this one. Indexes
// delivery_destination_status, delivery_due and replay_subscription, then primary key.
const claimMissedSQL = `
WITH open AS MATERIALIZED (
    SELECT d.tenant_id, d.id FROM eventhook.delivery d
    WHERE d.destination_id = @destination AND d.due_at < 'infinity' AND d.id >= @oldest AND d.id > @after AND (d.status <> 'acquired' OR d.due_at <= @now)
    ORDER BY d.due_at LIMIT 1
), dead AS MATERIALIZED (
    SELECT d.tenant_id, d.id FROM eventhook.delivery d
    WHERE d.destination_id = @destination AND d.status = 'dead' AND d.status IN ('failed', 'dead') AND d.id >= @oldest AND d.id > @after
      AND d.recoveries < 3
      AND d.completed_at >= least(@since, (SELECT min(r.since) FROM eventhook.replay r
          WHERE r.subscription_id = @destination AND r.kind = 'recovery' AND r.status = 'running'))
    ORDER BY d.id LIMIT 1
), missed AS MATERIALIZED (
    SELECT tenant_id, id FROM open WHERE @is_held
    UNION ALL
    SELECT tenant_id, id FROM dead WHERE @is_held OR NOT EXISTS (SELECT FROM open)
    ORDER BY id LIMIT 1
), chosen AS MATERIALIZED (
    SELECT d.tenant_id, d.id, (d.status = 'dead' OR d.status = 'acquired' AND d.agent_leases < 0) IS TRUE AS was_dead FROM eventhook.delivery d JOIN missed m ON d.tenant_id = m.tenant_id AND d.id = m.id
    FOR UPDATE OF d SKIP LOCKED
)
UPDATE eventhook.delivery d
SET status = 'acquired', due_at = @now::timestamptz + @lease::interval, completed_at = NULL, lease_token = d.lease_token + 1,
    acquired_by = @holder, agent_leases = CASE WHEN @is_agent THEN CASE WHEN c.was_dead THEN -1 ELSE 0 END END
FROM chosen c
WHERE d.tenant_id = c.tenant_id AND d.id = c.id
RETURNING d.id, d.tenant_id, d.event_id, d.event_type, d.lease_token, d.due_at, d.attempts, d.retry_count, d.restarted_at, c.was_dead, d.order_key`

// ClaimMissed leases the delivery of the oldest event after p.After that an outage has held or
// killed, and reads its event. It returns nil if there is none.
func (db *DB) ClaimMissed(ctx context.Context, p outbound.Probe, lease time.Duration) (*outbound.Missed, error) {
	return db.claimMissed(ctx, p, pgx.StrictNamedArgs{"lease": lease, "holder": [16]byte(db.instance), "is_agent": false})
}

// claimMissed claims a missed delivery; args are some of the parameters.
func (db *DB) claimMissed(ctx context.Context, p outbound.Probe, args pgx.StrictNamedArgs) (*outbound.Missed, error) {
	const act = "claim a missed delivery"
	now := db.now()
	args["destination"], args["since"], args["after"] = [16]byte(p.SubscriptionID), p.FailingSince.Add(-clockSkew), [16]byte(p.After)
	args["oldest"], args["is_held"], args["now"] = [16]byte(eventhook.FirstID[eventhook.Delivery](now.Add(-p.MaxAge))), p.IsHeld, now
	rows, err := db.work.Query(ctx, claimMissedSQL, args)
	if err != nil {
		return nil, translate(act, err)
	}
	list, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (outbound.Missed, error) {
		d := &eventhook.Delivery{Status: eventhook.DeliveryAcquired, SubscriptionID: p.SubscriptionID,
			DestinationID: eventhook.DestinationID(p.SubscriptionID)}
		m := outbound.Missed{Delivery: d}
		var order *[16]byte
		err := r.Scan((*[16]byte)(&d.ID), (*[16]byte)(&d.TenantID), (*[16]byte)(&d.EventID), &d.EventType, &d.Lease.Token,
			&d.Lease.Until, &d.Attempts,
			&d.RetryCount, &d.RestartedAt, &m.WasDead, &order)
		if order != nil {
			d.OrderKey = *order
		}
		return m, err
	})
	if err != nil || len(list) == 0 {
		return nil, translate(act, err)
	}
	return &list[0], db.readPublished(ctx, []*eventhook.Delivery{list[0].Delivery})
}

// endProbeSQL ends the lease of a probe. The probes after the first follow after 4 and 10
// minutes and then every hour: 5 and 15 minutes after the outage began. Primary key.
const endProbeSQL = `
UPDATE eventhook.subscription_health SET probing_until = NULL, probes = probes + CASE WHEN @is_failed THEN 1 ELSE 0 END,
    next_probe_at = CASE WHEN @is_failed AND next_probe_at IS NOT NULL
        THEN @now::timestamptz + make_interval(mins => CASE probes WHEN 0 THEN 4 WHEN 1 THEN 10 ELSE 60 END) ELSE next_probe_at END
WHERE subscription_id = @id`

// rejectMissedSQL is bound to one delivery. Primary key.
const rejectMissedSQL = `UPDATE eventhook.delivery SET recoveries = 3 WHERE tenant_id = $1 AND id = $2 AND (status = 'dead') IS TRUE`

// RejectMissed excludes a dead delivery from probes and from recovery: the receiver rejects it.
func (db *DB) RejectMissed(ctx context.Context, d *eventhook.Delivery) error {
	_, err := db.work.Exec(ctx, rejectMissedSQL, [16]byte(d.TenantID), [16]byte(d.ID))
	return translate("reject a missed delivery", err)
}

// EndProbe ends the lease of a probe. After a success, it enables a subscription that failures
// have disabled, and its recovery starts in the same transaction.
func (db *DB) EndProbe(ctx context.Context, p outbound.Probe, result outbound.ProbeResult) error {
	if result == outbound.ProbeSucceeded && p.IsHeld {
		if err := db.enableRecovered(ctx, p); err != nil {
			return err
		}
	}
	isFailed := result == outbound.ProbeFailed || result == outbound.ProbeEmpty
	_, err := db.work.Exec(ctx, endProbeSQL, pgx.StrictNamedArgs{"id": [16]byte(p.SubscriptionID), "is_failed": isFailed, "now": db.now()})
	return translate("end a probe", err)
}

// enableRecovered makes a subscription active that failures have disabled, and ends its outage. An
// instance of an earlier version may have made it active, without a change of the outage.
func (db *DB) enableRecovered(ctx context.Context, p outbound.Probe) error {
	recovered := 0
	err := db.mutate(ctx, "enable subscription", gatewayActor, p.TenantID, func(m *mutation) error {
		have, err := m.lockSubscription(ctx, p.SubscriptionID)
		switch {
		case err != nil:
			return err
		case have.HoldsDeliveries():
			want := have
			want.Status = eventhook.SubscriptionActive
			_, _, err = m.updateSubscription(ctx, have, want)
		case have.Status == eventhook.SubscriptionActive:
			err = m.exec(ctx, resumeHealthSQL, pgx.StrictNamedArgs{"id": [16]byte(have.ID), "now": m.db.now()})
		default:
			return nil
		}
		if err != nil {
			return err
		}
		recovered, err = endOutages(ctx, m.tx, map[eventhook.SubscriptionID]bool{p.SubscriptionID: true}, nil, m.db.now())
		return err
	})
	if err == nil {
		db.recoveriesBegan(recovered)
	}
	return err
}
