package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/eventhook/eventhook/bench/measure"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// searchedSQL stores events of a tenant with bodies of 600 bytes, one for each millisecond
// until $2.
const searchedSQL = `
WITH e AS (
    SELECT i, (lpad(to_hex((extract(epoch FROM $2::timestamptz) * 1000)::int8 - $1::int + i), 12, '0') || '7' || substr(md5(i::text), 1, 3) ||
        '8' || substr(md5(i::text), 4, 15))::uuid AS id FROM generate_series(1, $1::int) i
), bodies AS (
    INSERT INTO eventhook.event_payload (event_id, headers, body)
    SELECT id, 'Content-Type: application/json', convert_to('{"customer":"cus_' || i % 1000 || '","text":"' || repeat(md5(i::text), 18) || '"}', 'UTF8') FROM e
)
INSERT INTO eventhook.event (id, tenant_id, source_id, processed_at, body_size, status, origin, event_type, content_type)
SELECT e.id, s.tenant_id, s.id, $2, 610, 'delivered', 'source', 'type.' || i % 20, 'application/json' FROM e, eventhook.source s ORDER BY i`

// eventsFound is an answer of a search.
type eventsFound struct {
	Items        []any
	Scanned      int
	ScannedUntil *time.Time `json:"scanned_until"`
	NextCursor   *string    `json:"next_cursor"`
}

// A search whose filter never matches ends each page within its budget, and scanned_until names
// the oldest event that it has examined. BENCH_EVENTS sets the number of events.
func TestASearchThatFindsNothingSaysHowFarItCame(t *testing.T) {
	const budget, slack = 5 * time.Second, 10 * time.Second // of a page, which also waits for processors
	events := measure.Size(t, "BENCH_EVENTS", 20_000)
	dsn := pgtest.New(t)
	gateway := startInstance(t, dsn)
	conn, newest := connect(t, dsn), time.Now().Truncate(time.Millisecond)
	for _, step := range []struct {
		sql  string
		args []any
	}{{`DELETE FROM eventhook.event`, nil}, {searchedSQL, []any{events, newest}}, {`VACUUM (ANALYZE) eventhook.event`, nil}} {
		if _, err := conn.Exec(t.Context(), step.sql, step.args...); err != nil {
			t.Fatal(err)
		}
	}
	after := newest.Add(-time.Duration(events) * time.Millisecond)
	for claim, filter := range map[string]any{"body": map[string]any{"body.customer": "nobody"}, "type": map[string]any{"event.type": "none"}} {
		pages, scanned, longest, began := 0, 0, time.Duration(0), time.Now()
		request := map[string]any{"filter": filter, "received_after": after, "limit": 250}
		for isDone := false; !isDone; pages++ {
			var got eventsFound
			start := time.Now()
			if status := gateway.call(http.MethodPost, "/events/search", request, &got); status != http.StatusOK {
				t.Fatalf("%s: answered %d", claim, status)
			}
			longest = max(longest, time.Since(start))
			scanned, isDone = scanned+got.Scanned, got.NextCursor == nil
			want := newest.Add(-time.Duration(scanned-1) * time.Millisecond)
			if isDone {
				want = after
			}
			if len(got.Items) > 0 || got.Scanned == 0 && !isDone || got.ScannedUntil == nil || !got.ScannedUntil.Equal(want) {
				t.Fatalf("%s: page %d found %d of %d events until %v, want none until %s", claim, pages, len(got.Items), got.Scanned, got.ScannedUntil, want)
			}
			if request["cursor"] = got.NextCursor; isDone {
				delete(request, "cursor")
			}
		}
		t.Logf("%s: %d events in %d pages and %s, the longest %s", claim, scanned, pages, time.Since(began).Round(time.Millisecond), longest.Round(time.Millisecond))
		if scanned != events || longest > budget+slack {
			t.Errorf("%s: scanned %d events, the longest page took %s; want %d and at most %s", claim, scanned, longest, events, budget+slack)
		}
	}
}
