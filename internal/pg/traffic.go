package pg

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// addTrafficSQL adds counts in the order of their keys, as addTenantCountsSQL does. A histogram is
// passed as the text of an array, "" for none. Primary key; rows that exist change in place (HOT).
const addTrafficSQL = `
INSERT INTO eventhook.traffic AS t (tenant_id, resource_id, at, span, slot, received, refused, duplicates, succeeded, failed, sent,
    failed_attempts, dead, latency)
SELECT tenant_id, resource_id, at, span, @slot::int2, received, refused, duplicates, succeeded, failed, sent, failed_attempts, dead,
    nullif(latency, '')::int8[]
FROM unnest(@tenants::uuid[], @resources::uuid[], @at::timestamptz[], @spans::int2[], @received::int8[], @refused::int8[],
        @duplicates::int8[], @succeeded::int8[], @failed::int8[], @sent::int8[], @failed_attempts::int8[], @dead::int8[], @latency::text[])
    AS n (tenant_id, resource_id, at, span, received, refused, duplicates, succeeded, failed, sent, failed_attempts, dead, latency)
ORDER BY tenant_id, span, resource_id, at
ON CONFLICT (tenant_id, span, resource_id, at, slot) DO UPDATE
    SET received = t.received + excluded.received, refused = t.refused + excluded.refused, duplicates = t.duplicates + excluded.duplicates,
        succeeded = t.succeeded + excluded.succeeded, failed = t.failed + excluded.failed, sent = t.sent + excluded.sent,
        failed_attempts = t.failed_attempts + excluded.failed_attempts, dead = t.dead + excluded.dead,
        latency = CASE WHEN t.latency IS NULL OR excluded.latency IS NULL THEN coalesce(t.latency, excluded.latency)
            ELSE ARRAY(SELECT a + b FROM unnest(t.latency, excluded.latency) AS l (a, b)) END`

// AddTraffic adds counts to the counts of a slot. If it fails, it adds no count. A span of a resource
// may occur once. Counts of deleted resources are accepted.
func (db *DB) AddTraffic(ctx context.Context, slot int, counts []eventhook.TrafficCount) error {
	n := len(counts)
	tenants, resources, at, spans := make([][16]byte, n), make([][16]byte, n), make([]time.Time, n), make([]int16, n)
	latency := make([]string, n)
	columns := make([][]int64, len(trafficColumns))
	for i := range columns {
		columns[i] = make([]int64, n)
	}
	for i, c := range counts {
		tenants[i], resources[i], at[i], spans[i] = c.TenantID, resourceOf(c.TrafficOf), c.At, seconds(c.Span)
		latency[i] = latencyText(c.Latency)
		for j, v := range countsOf(&c.Traffic) {
			columns[j][i] = *v
		}
	}
	args := pgx.StrictNamedArgs{"slot": slot, "tenants": tenants, "resources": resources, "at": at, "spans": spans, "latency": latency}
	for i, name := range trafficColumns {
		args[name] = columns[i]
	}
	_, err := db.work.Exec(ctx, addTrafficSQL, args)
	return translate("count traffic", err)
}

// trafficColumns are the counts of eventhook.traffic, in the order of countsOf.
var trafficColumns = []string{"received", "refused", "duplicates", "succeeded", "failed", "sent", "failed_attempts", "dead"}

func countsOf(t *eventhook.Traffic) []*int64 {
	return []*int64{&t.Received, &t.Refused, &t.Duplicates, &t.Succeeded, &t.Failed, &t.Sent, &t.FailedAttempts, &t.Dead}
}

func resourceOf(of eventhook.TrafficOf) [16]byte {
	switch {
	case !of.SubscriptionID.IsZero():
		return of.SubscriptionID
	case !of.SourceID.IsZero():
		return of.SourceID
	}
	return of.TenantID
}

func seconds(s eventhook.TrafficSpan) int16 { return int16(time.Duration(s) / time.Second) }

// latencyText returns a histogram as the text of an array, "" without a latency.
func latencyText(c eventhook.LatencyCounts) string {
	if c == (eventhook.LatencyCounts{}) {
		return ""
	}
	b := []byte{'{'}
	for i, n := range c {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Append(b, n)
	}
	return string(append(b, '}'))
}

// trafficSums are the sums over the rows of eventhook.traffic u, for scanTraffic.
var trafficSums = func() string {
	var b strings.Builder
	for _, c := range trafficColumns {
		fmt.Fprintf(&b, "coalesce(sum(u.%[1]s), 0)::int8 AS %[1]s, ", c)
	}
	b.WriteString("ARRAY[")
	for i := range eventhook.LatencyBuckets {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "coalesce(sum(u.latency[%d]), 0)::int8", i+1)
	}
	return b.String() + "] AS latency"
}()

// trafficOfWindow has the rows of eventhook.traffic u of a resource within a window. Primary key.
const trafficOfWindow = ` u.span = @span::int2 AND u.at >= @since AND u.at < @until`

func windowArgs(w eventhook.TrafficWindow) pgx.StrictNamedArgs {
	return pgx.StrictNamedArgs{"span": seconds(w.Span), "since": w.Since, "until": w.Until}
}

// trafficDest returns the destinations of trafficSums; call done after the scan.
func trafficDest(t *eventhook.Traffic) (dest []any, done func()) {
	for _, c := range countsOf(t) {
		dest = append(dest, c)
	}
	var latency []int64
	return append(dest, &latency), func() { copy(t.Latency[:], latency) }
}

// sweepTrafficSQL is sweepSourceUsageSQL for traffic.
const sweepTrafficSQL = `
WITH over AS MATERIALIZED (
    SELECT ctid FROM eventhook.traffic WHERE ctid >= $1 AND ctid < $2 AND at < $3
    FOR UPDATE SKIP LOCKED
)
DELETE FROM eventhook.traffic WHERE ctid = ANY(ARRAY(SELECT ctid FROM over))`

// sourceTrafficSQL: primary key.
var sourceTrafficSQL = `SELECT ` + trafficSums + ` FROM eventhook.traffic u
WHERE u.tenant_id = @tenant AND u.resource_id = @source AND` + trafficOfWindow

// SourceTraffic returns the traffic of a source in a window. It is zero for a source that does not
// exist.
func (db *DB) SourceTraffic(ctx context.Context, tenant eventhook.TenantID, source eventhook.SourceID, w eventhook.TrafficWindow,
) (t eventhook.Traffic, err error) {
	args := windowArgs(w)
	args["tenant"], args["source"] = [16]byte(tenant), [16]byte(source)
	dest, done := trafficDest(&t)
	err = db.lists.QueryRow(ctx, sourceTrafficSQL, args).Scan(dest...)
	done()
	return t, translate("read the traffic of a source", err)
}
