package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/eventhook/eventhook/configs"
	"github.com/eventhook/eventhook/internal/panics"
	"github.com/eventhook/eventhook/internal/pg"
)

// loop runs until ctx ends.
type loop = func(ctx context.Context) error

// backgroundLoops are the loops that maintain the caches, metrics and data of the
// gateway. They run until the last request has ended.
func (g *gateway) backgroundLoops() []loop {
	loops := []loop{
		func(ctx context.Context) error { return g.db.Listen(ctx, g.invalidate) },
		func(ctx context.Context) error { return g.db.WatchFit(ctx, 10*time.Second) },
		g.db.WatchReplica,
		g.applyLater,
		g.prepareLater,
		g.copySources,
		g.reloadOnHangup,
		func(ctx context.Context) error { return g.outage.Run(ctx, g.log) },
		g.tenantSlugs.run,
		func(ctx context.Context) error { return g.db.SendNotifications(ctx, 20*time.Millisecond) },
		func(ctx context.Context) error { return g.db.PushEvents(ctx, 100*time.Millisecond) },
		func(ctx context.Context) error { return g.database.watch(ctx, g.log) },
		func(ctx context.Context) error { return g.meter.Run(ctx) },
		g.watchDatabase,
	}
	if g.config.Metrics.TenantLabel {
		loops = append(loops, g.watchTenants)
	}
	if g.certificate != nil {
		loops = append(loops, func(ctx context.Context) error { return g.certificate.Watch(ctx, certificateInterval) })
	}
	if g.config.HasRole(configs.RoleDispatch) {
		loops = append(loops, g.watchQueues)
	}
	if g.config.HasRole(configs.RoleIngest) {
		loops = append(loops, func(ctx context.Context) error { return g.handler.ShareLimits(ctx, g.db) },
			func(ctx context.Context) error { return g.handler.RecordRejections(ctx, g.db) })
	}
	if g.config.HasRole(configs.RoleAPI) {
		loops = append(loops, func(ctx context.Context) error { return g.keyUses.Run(ctx, g.db, g.log) })
	}
	if g.config.HasRole(configs.RoleDispatch) {
		loops = append(loops, g.maintenanceLoops()...)
	}
	return loops
}

// maintenanceLoops do the background work on the database. Each instance with RoleDispatch runs
// them: they lease the rows that they change, skip rows that another instance has locked, or take
// an advisory lock, so no work is done twice.
func (g *gateway) maintenanceLoops() []loop {
	return []loop{
		func(ctx context.Context) error { return g.subscribers.replays.Run(ctx) },
		g.every(10*time.Minute, "maintain partitions", g.maintainPartitions),
		g.every(time.Second, "expire promises", func(ctx context.Context) (bool, error) {
			n, err := g.db.ExpirePromises(ctx)
			return n > 0, err
		}),
		g.every(500*time.Millisecond, "publish lifecycle events", func(ctx context.Context) (bool, error) {
			n, err := g.db.PublishLifecycle(ctx)
			return n > 0, err
		}),
		g.every(time.Second, "end the work of closed tenants", g.db.CleanUpTenants),
		g.every(10*time.Second, "expire deliveries", func(ctx context.Context) (bool, error) {
			n, err := g.db.ExpireDeliveries(ctx, g.config.Outbound.Dispatch.MaxAge)
			return n > 0, err
		}),
		g.every(5*time.Second, "find agents that are offline", func(ctx context.Context) (bool, error) {
			n, err := g.db.EndAgents(ctx)
			return n > 0, err
		}),
		g.every(10*time.Second, "delete expired rows", func(ctx context.Context) (bool, error) { return false, g.sweep(ctx) }),
	}
}

// sweep deletes a batch of expired rows from each table. A failure in one table
// does not stop the sweep of the other tables.
func (g *gateway) sweep(ctx context.Context) error {
	days := func(n int) time.Duration { return time.Duration(n) * 24 * time.Hour }
	keep := g.config.Retention
	_, keys := g.db.SweepIdempotencyKeys(ctx)
	_, executions := g.db.SweepExecutions(ctx, days(keep.EventsDays))
	_, promises := g.db.SweepPromises(ctx, days(keep.EventsDays))
	_, counts := g.db.SweepUsage(ctx, retention(g.config))
	_, audit := g.db.SweepAudit(ctx, days(keep.AuditDays))
	_, rejections := g.db.SweepRejections(ctx)
	_, replays := g.db.SweepReplays(ctx, days(keep.EventsDays))
	_, operators := g.db.SweepOperatorSubscriptions(ctx, days(keep.DeliveriesDays))
	_, sessions := g.db.SweepWebSessions(ctx)
	_, rates := g.db.SweepRates(ctx)
	_, consumers := g.db.SweepConsumers(ctx)
	return errors.Join(keys, executions, promises, counts, audit, rejections, replays, operators, sessions, rates, consumers)
}

// invalidate evicts the cache entries that a configuration change concerns.
func (g *gateway) invalidate(c pg.ConfigChange) {
	g.subscribers.invalidate(c)
	g.tenantSlugs.changed(c)
	if g.ingestLog != nil && c.SubscriptionID.IsZero() {
		g.ingestLog.projector.Changed(c.TenantSlug, c.SourceSlug)
	}
	switch {
	case c == pg.ConfigChange{}:
		if g.ingestLog != nil { // copies of the sources are cached no longer
			g.ingestLog.sources.Reached()
		}
		g.handler.InvalidateAll()
		g.process.InvalidateAll()
	case !c.SubscriptionID.IsZero():
	case c.SourceSlug == "":
		g.handler.InvalidateTenant(c.TenantSlug)
	default:
		g.handler.InvalidateSource(c.TenantSlug, c.SourceSlug)
		g.process.InvalidateSource(c.SourceID)
	}
}

// every returns a loop that calls do at each interval until ctx ends, and repeats
// the call at once while do reports more work. It calls nothing while the instance is not
// ready because of the schema or the keys. A failed call is logged and retried
// at the next interval.
func (g *gateway) every(interval time.Duration, act string, do func(context.Context) (more bool, err error)) func(context.Context) error {
	return func(ctx context.Context) error {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
			for more := g.db.Fit() == nil; more && ctx.Err() == nil; {
				var err error
				if more, err = recovering(ctx, do); err != nil && ctx.Err() == nil {
					g.log.Warn("cannot "+act+"; retrying later", "error", err)
					break
				}
			}
		}
	}
}

// recovering calls do. A panic of do is an error, so that it does not end the instance.
func recovering(ctx context.Context, do func(context.Context) (bool, error)) (more bool, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			panics.Count(panics.Loop)
			more, err = false, fmt.Errorf("panic: %v\n%s", reason, debug.Stack())
		}
	}()
	return do(ctx)
}
