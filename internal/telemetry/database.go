package telemetry

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventhook/eventhook"
)

// databaseMetrics show connections, sizes and partitions.
type databaseMetrics struct {
	connections map[string]*reading
	acquireWait map[string]*reading
	up          prometheus.Gauge
	size        prometheus.Gauge
	skew        prometheus.Gauge

	nextPartition     *prometheus.GaugeVec
	partitions        *prometheus.GaugeVec
	partitionsDropped *counters
	partitionsFailed  prometheus.Counter
	unreadable        *reading
	replicaUsed       *reading
}

var (
	poolNames       = []string{"accept", "work", "lists", "read"}
	partitionTables = []string{"event", "event_action", "event_payload", "delivery"}
)

func newDatabaseMetrics(r *registry) databaseMetrics {
	r.section("Database")
	pool, table := Label{Name: "pool", Values: poolNames}, Label{Name: "table", Values: partitionTables}
	return databaseMetrics{
		connections: r.readings(Gauge, Family{Name: "db_connections", Help: "Connections of a pool: idle, used, and their maximum (max). 0 for a pool that is not configured.",
			Look:   "`db_acquire_wait_seconds_total` rises. `used` at `max` for minutes means that the pool is too small or the database is slow.",
			Labels: []Label{pool, {Name: "state", Values: []string{"idle", "used", "max"}}}}),
		acquireWait: r.readings(Counter, Family{Name: "db_acquire_wait_seconds_total", Help: "Time for which callers waited for a connection of a pool, in seconds.",
			Look: "requests are slow although the database is not.", Labels: []Label{pool}}),
		up: r.gauge(Family{Name: "db_up", Help: "1 if the database answered the last check of this instance, else 0. An instance checks every 5 seconds.",
			Look: "the instance is not ready."}),
		size: r.gauge(Family{Name: "db_bytes", Shared: true, Help: "Size of the database, read every minute.", Look: "the disk fills: retention is `retention.events_days`, `bodies_days` and `deliveries_days`."}),
		skew: r.gauge(Family{Name: "db_clock_skew_seconds", Help: "Time of the database minus the wall clock of this machine, in seconds, read every 5 seconds. The gateway uses the time of the database.",
			Look: "it is beyond a second: one of the two clocks is wrong. If all instances show the same, the database's is."}),
		nextPartition: r.gauges(Family{Name: "partition_next_exists", Shared: true, Help: "1 if the partition of the next day (UTC) exists, else 0, read every minute.",
			Look: "it is 0: from midnight on, rows go to the default partition, which is slower and is emptied later.", Labels: []Label{table}}),
		partitions: r.gauges(Family{Name: "partitions", Shared: true, Help: "Partitions of a table, without the default partition, read every minute.",
			Look: "the number grows beyond the days of retention: open work keeps old partitions.", Labels: []Label{table}}),
		partitionsDropped: r.counters(Family{Name: "partitions_dropped_total", Help: "Partitions that this instance dropped after their retention.",
			Look: "the database does not shrink.", Labels: []Label{table}}),
		partitionsFailed: r.counter(Family{Name: "partition_maintenance_failed_total", Help: "Runs of the maintenance of partitions that failed. It runs every 10 minutes.",
			Look: "it rises: the log has the reason."}),
		unreadable: r.counterReading(Family{Name: "sealed_values_unreadable_total", Help: "Stored secrets that could not be decrypted: their key is not configured, or they were sealed for another row or column.",
			Look: "verification or deliveries fail after a change of `EVENTHOOK_ENCRYPTION_KEYS`."}),
		replicaUsed: r.gaugeReading(Family{Name: "db_replica_used", Help: "1 if this instance reads lists from the replica of DATABASE_READ_URL, 0 if it reads them from the primary or has no replica.",
			Look: "lists are slow, or the primary has more load than usual: the log has the reason."}),
	}
}

// WatchUnreadable sets the function that counts stored secrets that could not be decrypted.
// Each scrape calls it.
func (m *Metrics) WatchUnreadable(total func() int64) {
	m.database.unreadable.from(func() float64 { return float64(total()) })
}

// WatchReplica sets the function that reports whether lists are read from the replica. Each
// scrape calls it.
func (m *Metrics) WatchReplica(isUsed func() bool) {
	m.database.replicaUsed.fromInt(func() int {
		if isUsed() {
			return 1
		}
		return 0
	})
}

// WatchPools sets the function that returns the state of a pool. Each scrape calls it.
func (m *Metrics) WatchPools(stats func(name string) eventhook.PoolStats) {
	for _, name := range poolNames {
		m.database.connections[joined(name, "idle")].fromInt(func() int { return stats(name).Idle })
		m.database.connections[joined(name, "used")].fromInt(func() int { return stats(name).Used })
		m.database.connections[joined(name, "max")].fromInt(func() int { return stats(name).Max })
		m.database.acquireWait[name].from(func() float64 { return stats(name).Waited.Seconds() })
	}
}

// Database is the database that WatchDatabase reads.
type Database interface {
	// ClockSkew returns the time of the database minus the wall clock of this machine. The error
	// says that the database cannot be reached.
	ClockSkew(ctx context.Context) (time.Duration, error)
	Sizes(ctx context.Context) (eventhook.DatabaseSizes, error)
}

// checksPerSize is how many checks of the database follow one reading of its sizes.
const checksPerSize = 12

// WatchDatabase checks the database every interval until ctx ends, and reads its sizes at every
// twelfth interval. It always returns nil.
func (m *Metrics) WatchDatabase(ctx context.Context, db Database, w Watch) error {
	checks := 0
	return w.run(ctx, func() {
		skew, err := db.ClockSkew(ctx)
		if m.database.up.Set(0); !w.succeeded(ctx, "reach the database", err) {
			return
		}
		m.database.up.Set(1)
		m.database.skew.Set(skew.Seconds())
		if checks++; checks%checksPerSize != 1 {
			return
		}
		if sizes, err := db.Sizes(ctx); w.succeeded(ctx, "read the sizes of the database", err) {
			m.setSizes(sizes)
		} else {
			checks = 0 // again at the next check
		}
	})
}

func (m *Metrics) setSizes(sizes eventhook.DatabaseSizes) {
	m.database.size.Set(float64(sizes.Bytes))
	for _, table := range partitionTables {
		exists := 0.0
		if sizes.HasNextDays[table] {
			exists = 1
		}
		m.database.nextPartition.WithLabelValues(table).Set(exists)
		m.database.partitions.WithLabelValues(table).Set(float64(sizes.Partitions[table]))
	}
}

// PartitionDropped counts a partition that was dropped after its retention.
func (m *Metrics) PartitionDropped(table string) { m.database.partitionsDropped.of(table).Inc() }

// PartitionMaintenanceFailed counts a failed run of the maintenance of partitions.
func (m *Metrics) PartitionMaintenanceFailed() { m.database.partitionsFailed.Inc() }
