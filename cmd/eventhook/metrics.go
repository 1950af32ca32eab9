package main

import (
	"context"
	"runtime"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/telemetry"
)

// Intervals at which metrics are read from the database.
const (
	queuesInterval   = 5 * time.Second
	databaseInterval = 5 * time.Second
)

// wireMetrics connects the metrics of the instance and of its database.
func (g *gateway) wireMetrics() {
	g.db.Observe(g.metrics)
	g.metrics.WatchPools(g.db.Pool)
	g.metrics.WatchReplica(g.db.IsReplicaUsed)
	instance := telemetry.Instance{Version: version, Revision: revision(), Go: runtime.Version(), Roles: g.config.Roles, Ready: g.health.IsReady}
	if g.database.embedded != nil {
		instance.FreeBytes = func() float64 {
			free, err := freeBytes(g.config.DataDir)
			if err != nil {
				return 0
			}
			return float64(free)
		}
	}
	g.metrics.WatchInstance(instance)
	if g.config.Metrics.TenantLabel {
		g.metrics.EnableTenants()
	}
	if g.tracer != nil {
		g.metrics.WatchSampling(g.sampledTrace)
	}
}

// sampledTrace returns the trace id of an event whose trace is sampled, otherwise "".
func (g *gateway) sampledTrace(e *eventhook.Event) string {
	if trace := e.Trace(); g.tracer.Sampled(trace, e.TraceFlags()) {
		return trace
	}
	return ""
}

// watchTenants adds the counts by tenant to their series.
func (g *gateway) watchTenants(ctx context.Context) error {
	return g.metrics.WatchTenants(ctx, g.db.TenantSlugs, telemetry.Watch{Interval: queuesInterval, Log: g.log})
}

func (g *gateway) watchDatabase(ctx context.Context) error {
	return g.metrics.WatchDatabase(ctx, &clockWatch{DB: g.db, log: g.log}, telemetry.Watch{Interval: databaseInterval, Log: g.log})
}

// watchQueues reads the queues. Only instances that send know which receivers are blocked.
func (g *gateway) watchQueues(ctx context.Context) error {
	return g.metrics.WatchQueues(ctx, g.db, g.subscribers.dispatcher.Blocked, telemetry.Watch{Interval: queuesInterval, Log: g.log})
}

// maintainPartitions creates and drops partitions.
func (g *gateway) maintainPartitions(ctx context.Context) (bool, error) {
	err := g.db.MaintainPartitions(ctx, partitionsAhead, retention(g.config))
	if err != nil {
		g.metrics.PartitionMaintenanceFailed()
	}
	return false, err
}
