package main

import (
	"context"
	"errors"
	"time"

	"github.com/eventhook/eventhook/internal/pg"
)

// backgroundLoops are the loops that maintain the caches, metrics and data of the
// gateway. They run until the last request has ended.
func (g *gateway) backgroundLoops() []func(context.Context) error {
	return []func(context.Context) error{
		func(ctx context.Context) error { return g.db.Listen(ctx, g.invalidate) },
		func(ctx context.Context) error { return g.db.WatchFit(ctx, 10*time.Second) },
		g.applyLater,
		func(ctx context.Context) error { return g.db.SendNotifications(ctx, 20*time.Millisecond) },
		func(ctx context.Context) error { return g.db.PushEvents(ctx, 100*time.Millisecond) },
		func(ctx context.Context) error { return g.database.watch(ctx, g.log) },
		func(ctx context.Context) error { return g.metrics.WatchQueues(ctx, g.db, 5*time.Second, g.log) },
		func(ctx context.Context) error { return g.handler.RecordRejections(ctx, g.db) },
		func(ctx context.Context) error { return g.meter.Run(ctx) },
		func(ctx context.Context) error { return g.subscribers.replays.Run(ctx) },
		func(ctx context.Context) error { return g.keyUses.Run(ctx, g.db, g.log) },
		g.every(10*time.Minute, "maintain partitions", func(ctx context.Context) (bool, error) {
			return false, g.db.MaintainPartitions(ctx, partitionsAhead, retention(g.config))
		}),
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
	return errors.Join(keys, executions, promises, counts, audit, rejections, replays, operators)
}

// invalidate evicts the cache entries that a configuration change concerns.
func (g *gateway) invalidate(c pg.ConfigChange) {
	g.subscribers.invalidate(c)
	switch {
	case c == pg.ConfigChange{}:
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
				if more, err = do(ctx); err != nil && ctx.Err() == nil {
					g.log.Warn("cannot "+act+"; retrying later", "error", err)
					break
				}
			}
		}
	}
}
