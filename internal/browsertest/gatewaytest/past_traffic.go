package gatewaytest

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/eventhook/eventhook"
)

// PastTraffic is the traffic of a source or of a subscription during the last day.
type PastTraffic struct {
	Source       string // id; "" for a subscription
	Subscription string // id; "" for a source
	PerMinute    float64
	Refused      float64       // part of the requests that a source refused
	Failed       float64       // part of the attempts to a subscription that failed
	Latency      time.Duration // median
	DownFor      time.Duration // how long the subscription's receiver has failed until now
}

const (
	pastTrafficSQL = `
INSERT INTO eventhook.traffic (tenant_id, resource_id, at, span, slot, received, refused, duplicates, succeeded, failed, sent, failed_attempts, dead, latency)
SELECT t.id, coalesce(n.id, t.id), n.at, n.span, 1, n.received, n.refused, n.received / 200, n.received, 0, n.sent, n.failed, n.failed / 40,
    CASE WHEN n.latency IS NOT NULL THEN ARRAY(SELECT json_array_elements_text(n.latency)::int8) END
FROM json_to_recordset($2) AS n (id uuid, at timestamptz, span int, received int8, refused int8, sent int8, failed int8, latency json)
JOIN eventhook.tenant t ON t.slug = $1 ON CONFLICT DO NOTHING`
	pastSourcesSQL = `
INSERT INTO eventhook.source_usage (source_id, at, slot, events, failed)
SELECT n.id, date_bin('5 minutes', n.at, 'epoch'), 1, sum(n.received), 0
FROM json_to_recordset($2) AS n (id uuid, at timestamptz, span int, received int8) JOIN eventhook.tenant t ON t.slug = $1
WHERE n.span = 600 AND n.id IN (SELECT id FROM eventhook.source WHERE tenant_id = t.id) GROUP BY 1, 2 ON CONFLICT DO NOTHING`
	pastSubscriptionsSQL = `
INSERT INTO eventhook.subscription_usage (subscription_id, at, slot, delivered, failed, dead, duration_ms)
SELECT n.id, date_bin('5 minutes', n.at, 'epoch'), 1, sum(n.sent), sum(n.failed), sum(n.failed) / 40, sum(n.sent) * 21
FROM json_to_recordset($2) AS n (id uuid, at timestamptz, span int, sent int8, failed int8) JOIN eventhook.tenant t ON t.slug = $1
WHERE n.span = 600 AND n.id IN (SELECT id FROM eventhook.subscription WHERE tenant_id = t.id) GROUP BY 1, 2 ON CONFLICT DO NOTHING`
	pastUsageSQL = `
INSERT INTO eventhook.tenant_usage (tenant_id, day, slot, events, bytes)
SELECT t.id, (now() AT TIME ZONE 'UTC')::date - days, 1, sum(n.received) * CASE days WHEN 0 THEN 0.6 ELSE 1 END, sum(n.received) * 1200
FROM json_to_recordset($2) AS n (id uuid, span int, received int8) JOIN eventhook.tenant t ON t.slug = $1, generate_series(0, 6) days
WHERE n.span = 600 AND n.id IS NULL GROUP BY t.id, days
ON CONFLICT (tenant_id, day, slot) DO UPDATE SET events = excluded.events, bytes = excluded.bytes`
)

// SeedTraffic inserts the counts of the last day: per minute for the last hours, and per ten minutes.
// The tenant has the sums.
func (n *Tenant) SeedTraffic(list ...PastTraffic) {
	n.t.Helper()
	conn := n.connect()
	random := rand.New(rand.NewPCG(1, uint64(len(n.Slug)))) //nolint:gosec // the same traffic in every run
	now := time.Now().UTC()
	var rows []pastRow
	for span, spans := range map[time.Duration]int{time.Minute: 130, 10 * time.Minute: 146} {
		for i := range spans {
			rows = append(rows, n.span(list, now, now.Truncate(span).Add(-time.Duration(i)*span), span, random)...)
		}
	}
	for _, sql := range []string{pastTrafficSQL, pastSourcesSQL, pastSubscriptionsSQL, pastUsageSQL} {
		n.exec(conn, sql, rows)
	}
}

// span returns the counts of a span for each resource, and those of the tenant.
func (n *Tenant) span(list []PastTraffic, now, at time.Time, span time.Duration, random *rand.Rand) []pastRow {
	var rows []pastRow
	var received, refused, sent, failed int64
	var latency eventhook.LatencyCounts
	for _, l := range list {
		count := l.PerMinute * span.Minutes() * daytime(at) * (0.85 + 0.3*random.Float64())
		row := pastRow{"at": at, "span": int(span.Seconds()), "received": int64(0), "refused": int64(0), "sent": int64(0), "failed": int64(0)}
		if l.Source != "" {
			row["id"], row["received"], row["refused"] = l.Source, int64(count), int64(count*l.Refused)
			received, refused = received+int64(count), refused+int64(count*l.Refused)
		} else {
			bad := count * l.Failed
			if now.Sub(at) < l.DownFor {
				count, bad = 0, 4*span.Minutes()
			}
			own := latencies(int64(count), l.Latency, random)
			for i, c := range own {
				latency[i] += c
			}
			row["id"], row["sent"], row["failed"], row["latency"] = l.Subscription, int64(count), int64(bad), own
			sent, failed = sent+int64(count), failed+int64(bad)
		}
		rows = append(rows, row)
	}
	return append(rows, pastRow{"at": at, "span": int(span.Seconds()), "received": received, "refused": refused, "sent": sent, "failed": failed, "latency": latency})
}

// daytime is the part of the rate at a time of the day.
func daytime(at time.Time) float64 {
	const quietest, hours = 3, 24
	return 0.6 - 0.4*math.Cos(2*math.Pi*(float64(at.Hour())+float64(at.Minute())/60-quietest)/hours)
}

// latencies spreads deliveries around a median.
func latencies(deliveries int64, median time.Duration, random *rand.Rand) (counts eventhook.LatencyCounts) {
	for _, part := range []struct{ share, factor float64 }{{0.3, 0.5}, {0.4, 0.9}, {0.2, 1.6}, {0.08, 3}, {0.016, 7 + 4*random.Float64()}} {
		each := int64(float64(deliveries) * part.share)
		var one eventhook.LatencyCounts
		one.Observe(time.Duration(float64(median) * part.factor))
		for i := range one {
			counts[i] += one[i] * each
		}
	}
	return counts
}
