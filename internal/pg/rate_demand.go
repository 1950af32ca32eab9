package pg

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
)

var _ ingest.RateStore = (*DB)(nil)

// exchangeRatesSQL replaces the demands of this instance, and adds up those of the other instances for
// the same sources. The zero source counts the instances. The rows of an instance are written in the
// order of their sources, so that statements do not deadlock; no two instances write one row. Primary
// key.
const exchangeRatesSQL = `
WITH own AS (
    INSERT INTO eventhook.rate_demand AS d (source_id, instance_id, per_second, at)
    SELECT source_id, @instance, per_second, now() FROM unnest(@sources::uuid[], @demands::float4[]) AS n (source_id, per_second)
    ORDER BY source_id
    ON CONFLICT (source_id, instance_id) DO UPDATE SET per_second = excluded.per_second, at = excluded.at
)
SELECT d.source_id, count(*), sum(d.per_second)::float8 FROM eventhook.rate_demand d
WHERE d.source_id = ANY(@sources) AND d.instance_id <> @instance AND d.at > now() - @fresh::interval
GROUP BY d.source_id`

// rateAge is how long the demand of an instance counts.
const rateAge = 3 * time.Second

// ExchangeRates implements ingest.RateStore.
func (db *DB) ExchangeRates(ctx context.Context, own []ingest.RateDemand) (instances int, others map[eventhook.SourceID]float64, err error) {
	sources, demands := make([][16]byte, 1, len(own)+1), make([]float32, 1, len(own)+1) // the first is the zero source
	for _, d := range own {
		sources, demands = append(sources, d.SourceID), append(demands, float32(d.PerSecond))
	}
	rows, err := db.work.Query(ctx, exchangeRatesSQL,
		pgx.StrictNamedArgs{"instance": [16]byte(db.instance), "sources": sources, "demands": demands, "fresh": rateAge})
	if err != nil {
		return 0, nil, translate("exchange the rates of sources", err)
	}
	var source [16]byte
	var count int
	var sum float64
	instances, others = 1, map[eventhook.SourceID]float64{}
	_, err = pgx.ForEachRow(rows, []any{&source, &count, &sum}, func() error {
		if source == ([16]byte{}) {
			instances += count
		} else {
			others[source] = sum
		}
		return nil
	})
	return instances, others, translate("exchange the rates of sources", err)
}

// SweepRates deletes demands that no instance reads any more. The table has one row for each instance
// and busy source.
func (db *DB) SweepRates(ctx context.Context) (int, error) {
	done, err := db.work.Exec(ctx, `DELETE FROM eventhook.rate_demand WHERE at < now() - interval '1 minute'`)
	return int(done.RowsAffected()), translate("delete old rates of sources", err)
}
