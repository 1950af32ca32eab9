package main

import (
	"context"
	"errors"
	"time"

	"github.com/eventhook/eventhook/internal/pg"
)

// backgroundLoops keep the instance and its data in order. They end after the
// last request.
func (g *gateway) backgroundLoops() []func(context.Context) error {
	return []func(context.Context) error{
		func(ctx context.Context) error { return g.db.Listen(ctx, g.forget) },
		func(ctx context.Context) error { return g.db.WatchSealing(ctx, 10*time.Second) },
		func(ctx context.Context) error { return g.db.SendNotifications(ctx, 20*time.Millisecond) },
		func(ctx context.Context) error { return g.db.PushEvents(ctx, 100*time.Millisecond) },
		func(ctx context.Context) error { return g.database.watch(ctx, g.log) },
		func(ctx context.Context) error { return g.metrics.WatchQueues(ctx, g.db, 5*time.Second, g.log) },
		func(ctx context.Context) error { return g.handler.RecordRejections(ctx, g.db) },
		func(ctx context.Context) error { return g.meter.Run(ctx) },
		func(ctx context.Context) error { return g.keyUses.Run(ctx, g.db, g.log) },
		g.every(10*time.Minute, "keep partitions", func(ctx context.Context) (bool, error) {
			return false, g.db.MaintainPartitions(ctx, partitionsAhead, retention(g.config))
		}),
		g.every(time.Second, "expire promises", func(ctx context.Context) (bool, error) {
			n, err := g.db.ExpirePromises(ctx)
			return n > 0, err
		}),
		g.every(10*time.Second, "expire deliveries", func(ctx context.Context) (bool, error) {
			n, err := g.db.ExpireDeliveries(ctx, g.config.Outbound.Dispatch.MaxAge)
			return n > 0, err
		}),
		g.every(10*time.Second, "sweep what is past its time", func(ctx context.Context) (bool, error) { return false, g.sweep(ctx) }),
	}
}

// sweep removes a part of everything that is past its time. What fails for one
// thing does not keep it from the others.
func (g *gateway) sweep(ctx context.Context) error {
	days := func(n int) time.Duration { return time.Duration(n) * 24 * time.Hour }
	keep := g.config.Retention
	_, keys := g.db.SweepIdempotencyKeys(ctx)
	_, executions := g.db.SweepExecutions(ctx, days(keep.EventsDays))
	_, promises := g.db.SweepPromises(ctx, days(keep.EventsDays))
	_, counts := g.db.SweepUsage(ctx, retention(g.config))
	_, audit := g.db.SweepAudit(ctx, days(keep.AuditDays))
	_, rejections := g.db.SweepRejections(ctx)
	return errors.Join(keys, executions, promises, counts, audit, rejections)
}

// forget drops what is cached of a configuration that changed.
func (g *gateway) forget(c pg.ConfigChange) {
	g.subscribers.forget(c)
	switch {
	case c == pg.ConfigChange{}:
		g.handler.InvalidateAll()
		g.process.ForgetAll()
	case !c.SubscriptionID.IsZero():
	case c.SourceSlug == "":
		g.handler.InvalidateTenant(c.TenantSlug)
	default:
		g.handler.InvalidateSource(c.TenantSlug, c.SourceSlug)
		g.process.ForgetSource(c.SourceID)
	}
}

// every does something at each interval until ctx ends, and again at once
// while it says that there is more. What fails is tried again at the next.
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
			for more := true; more && ctx.Err() == nil; {
				var err error
				if more, err = do(ctx); err != nil && ctx.Err() == nil {
					g.log.Warn("cannot "+act+"; trying again later", "error", err)
					break
				}
			}
		}
	}
}
