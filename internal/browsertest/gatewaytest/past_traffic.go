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
INSERT INTO eventhook.traffic (tenant_id, resource_id, at, span, slot, received, refused, duplicates, succeeded, failed,
    sent, failed_attempts, dead, latency)
SELECT t.id, coalesce(n.id, t.id), n.at, n.span, 1, n.received, n.refused, n.received / 200, n.received, 0,
    n.sent, n.failed, n.failed / 40, CASE WHEN n.latency IS NOT NULL THEN ARRAY(SELECT json_array_elements_text(n.latency)::int8) END
FROM json_to_recordset($2) AS n (id uuid, at timestamptz, span int, received int8, refused int8, sent int8, failed int8,
    latency json)
JOIN eventhook.tenant t ON t.slug = $1 ON CONFLICT DO NOTHING`
	pastSourcesSQL = `
INSERT INTO eventhook.source_usage (source_id, at, slot, events, failed)
SELECT n.id, date_bin('5 minutes', n.at, 'epoch'), 1, sum(n.received), 0
FROM json_to_recordset($2) AS n (id uuid, at timestamptz, span int, received int8) JOIN eventhook.tenant t ON t.slug = $1
WHERE n.span = 600 AND n.id IN (SELECT id FROM eventhook.source WHERE tenant_id = t.id)
GROUP BY 1, 2 ON CONFLICT DO NOTHING`
	pastSubscriptionsSQL = `
INSERT INTO eventhook.subscription_usage (subscription_id, at, slot, delivered, failed, dead, duration_ms)
SELECT n.id, date_bin('5 minutes', n.at, 'epoch'), 1, sum(n.sent), sum(n.failed), sum(n.failed) / 40, sum(n.sent) * 21
FROM json_to_recordset($2) AS n (id uuid, at timestamptz, span int, sent int8, failed int8)
JOIN eventhook.tenant t ON t.slug = $1
WHERE n.span = 600 AND n.id IN (SELECT id FROM eventhook.subscription WHERE tenant_id = t.id)
GROUP BY 1, 2 ON CONFLICT DO NOTHING`
	pastUsageSQL = `
INSERT INTO eventhook.tenant_usage (tenant_id, day, slot, events, bytes)
SELECT t.id, (now() AT TIME ZONE 'UTC')::date - days, 1, sum(n.received) * CASE days WHEN 0 THEN 0.6 ELSE 1 END,
    sum(n.received) * 1200
FROM json_to_recordset($2) AS n (id uuid, span int, received int8)
JOIN eventhook.tenant t ON t.slug = $1, generate_series(0, 6) days
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
			rows = append(rows, spanOf(list, now, now.Truncate(span).Add(-time.Duration(i)*span), span, random)...)
		}
	}
	for _, sql := range []string{pastTrafficSQL, pastSourcesSQL, pastSubscriptionsSQL, pastUsageSQL} {
		n.exec(conn, sql, rows)
	}
}

// spanOf returns the counts of a span for each resource, and their sums for the tenant.
func spanOf(list []PastTraffic, now, at time.Time, span time.Duration, random *rand.Rand) []pastRow {
	rows := make([]pastRow, 0, len(list)+1)
	var all pastCounts
	for _, l := range list {
		c := l.counts(now.Sub(at), l.PerMinute*span.Minutes()*daytime(at), random)
		all.add(c)
		rows = append(rows, c.row(at, span))
	}
	return append(rows, all.row(at, span))
}

// pastCounts are the counts of a span.
type pastCounts struct {
	resource                        string // id; "" for the tenant
	received, refused, sent, failed int64
	latency                         eventhook.LatencyCounts
}

func (c *pastCounts) add(more pastCounts) {
	c.received, c.refused = c.received+more.received, c.refused+more.refused
	c.sent, c.failed = c.sent+more.sent, c.failed+more.failed
	for i, n := range more.latency {
		c.latency[i] += n
	}
}

func (c *pastCounts) row(at time.Time, span time.Duration) pastRow {
	row := pastRow{"at": at, "span": int(span.Seconds()), "received": c.received, "refused": c.refused, "sent": c.sent,
		"failed": c.failed, "latency": c.latency}
	if c.resource != "" {
		row["id"] = c.resource
	}
	return row
}

// counts returns the counts of a span that is some time ago, in which about so many events happened.
func (l PastTraffic) counts(ago time.Duration, about float64, random *rand.Rand) pastCounts {
	const least, spread = 0.85, 0.3
	count := about * (least + spread*random.Float64())
	switch {
	case l.Source != "":
		return pastCounts{resource: l.Source, received: int64(count), refused: int64(count * l.Refused)}
	case ago < l.DownFor:
		const probes = 4
		return pastCounts{resource: l.Subscription, failed: probes}
	}
	return pastCounts{resource: l.Subscription, sent: int64(count), failed: int64(count * l.Failed),
		latency: latencies(int64(count), l.Latency, random)}
}

// daytime is the part of the rate at a time of the day.
func daytime(at time.Time) float64 {
	const quietest, hours = 3, 24
	return 0.6 - 0.4*math.Cos(2*math.Pi*(float64(at.Hour())+float64(at.Minute())/60-quietest)/hours)
}

// latencies spreads deliveries around a median.
func latencies(deliveries int64, median time.Duration, random *rand.Rand) (counts eventhook.LatencyCounts) {
	slowest := 7 + 4*random.Float64()
	for _, part := range []struct{ share, factor float64 }{{0.3, 0.5}, {0.4, 0.9}, {0.2, 1.6}, {0.08, 3}, {0.016, slowest}} {
		each := int64(float64(deliveries) * part.share)
		var one eventhook.LatencyCounts
		one.Observe(time.Duration(float64(median) * part.factor))
		for i := range one {
			counts[i] += one[i] * each
		}
	}
	return counts
}
