package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook/bench/measure"
	"github.com/eventhook/eventhook/bench/seed"
)

const (
	benchWorkBatch = 50                  // executions that the worker claims and completes at once
	benchWork      = 50 * benchWorkBatch // executions in one measurement
	benchOutput    = `{"done":true}`
	minWorkRatio   = 0.50 // rate over HTTP over the rate in SQL
	minFullRatio   = 0.90 // rate in a full table over the rate in an empty one
)

// BenchmarkWork is one worker that claims and completes executions with 1 KB of input:
// with two SQL statements, over HTTP, and over HTTP with BENCH_EXECUTIONS completed
// executions in the table.
func BenchmarkWork(b *testing.B) {
	completed := measure.Size(b, "BENCH_EXECUTIONS", 10_000)
	empty, full := newBenchServer(b, benchEvents, benchSources), newBenchServer(b, completed, benchSources)
	full.must(full.Insert(b.Context(), seed.CompletedExecutions))
	full.must(seed.Vacuum(b.Context(), full.Conn))
	type rates struct{ sql, empty, full float64 } // executions per second
	round := func() rates {
		return rates{empty.workRate(empty.workSQL), empty.workRate(empty.workHTTP), full.workRate(full.workHTTP)}
	}
	round() // warm up
	var rounds []rates
	for b.Loop() {
		rounds = append(rounds, round())
	}
	b.ReportMetric(measure.Median(rounds, func(r rates) float64 { return r.sql }), "sql/s")
	b.ReportMetric(measure.Median(rounds, func(r rates) float64 { return r.empty }), "http/s")
	measure.AtLeast("work, claim and complete over HTTP / bare SQL",
		measure.Median(rounds, func(r rates) float64 { return r.empty / r.sql }), minWorkRatio).Report(b, "http_of_sql")
	measure.AtLeast(fmt.Sprintf("work with %d completed / with none", completed),
		measure.Median(rounds, func(r rates) float64 { return r.full / r.empty }), minFullRatio).Report(b, "full_of_empty")
}

// benchDueSQL inserts due executions, each with an event's body as its input.
const benchDueSQL = `
WITH n AS (SELECT i, gen_random_uuid() AS event, ('018f' || substr(gen_random_uuid()::text, 5))::uuid AS id FROM generate_series(1, $2::int) i),
p AS (INSERT INTO eventhook.event_payload (event_id, headers, body) SELECT event, E'Content-Type: application/json\r\n', $3 FROM n)
INSERT INTO eventhook.execution (id, tenant_id, event_id, due_at, created_at, max_attempts, input_size, type, status, queue, kind)
SELECT id, $1, event, now(), now(), 3, length($3), 'task', 'pending', 'default', 'build' FROM n`

// workRate inserts due executions and returns how many per second work completes. work
// completes one batch and returns its size, 0 if no execution is due.
func (s *benchServer) workRate(work func() int) float64 {
	s.Helper()
	input := fmt.Appendf(nil, `{"note":%q}`, strings.Repeat("x", 1013))
	_, err := s.Conn.Exec(s.Context(), benchDueSQL, s.Tenant, benchWork, input)
	s.must(err)
	_, err = s.Conn.Exec(s.Context(), `CHECKPOINT`)
	s.must(err)
	start, done := time.Now(), 0
	for n := work(); n > 0; n = work() {
		done += n
	}
	took := time.Since(start)
	if done != benchWork {
		s.Fatalf("%d executions were completed, want %d", done, benchWork)
	}
	return float64(done) / took.Seconds()
}

// Every queue with these rows must execute at least these statements.
const (
	benchClaimSQL = `
WITH c AS MATERIALIZED (
    SELECT id FROM eventhook.execution WHERE tenant_id = $1 AND queue = 'default' AND due_at <= now() ORDER BY due_at LIMIT $2 FOR UPDATE SKIP LOCKED
), claimed AS (
    UPDATE eventhook.execution e SET status = 'running', attempt = attempt + 1, lease_token = lease_token + 1, due_at = now() + interval '30 s'
    FROM c WHERE e.id = c.id
    RETURNING e.id, e.type, e.kind, e.queue, e.event_id, e.attempt, e.lease_token
)
SELECT claimed.*, p.headers, p.body FROM claimed JOIN eventhook.event_payload p ON p.event_id = claimed.event_id`
	benchCompleteSQL = `
UPDATE eventhook.execution e SET status = 'completed', due_at = NULL, completed_at = now(), output = u.output::json
FROM unnest($1::uuid[], $2::int8[], $3::text[]) AS u (id, token, output)
WHERE e.id = u.id AND e.lease_token = u.token AND e.status = 'running'`
)

func (s *benchServer) workSQL() int {
	s.Helper()
	rows, err := s.Conn.Query(s.Context(), benchClaimSQL, s.Tenant, benchWorkBatch)
	s.must(err)
	var ids [][16]byte
	var tokens []int64
	var outputs []string
	var id, event [16]byte
	var token int64
	var typ, kind, queue string
	var attempt int
	var headers, input []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &typ, &kind, &queue, &event, &attempt, &token, &headers, &input}, func() error {
		ids, tokens, outputs = append(ids, id), append(tokens, token), append(outputs, benchOutput)
		return nil
	})
	s.must(err)
	if len(ids) == 0 {
		return 0
	}
	tag, err := s.Conn.Exec(s.Context(), benchCompleteSQL, ids, tokens, outputs)
	s.must(err)
	return int(tag.RowsAffected())
}

func (s *benchServer) workHTTP() int {
	s.Helper()
	work := T(benchTenant) + "/work"
	var claimed struct {
		Items []struct {
			ID         string          `json:"id"`
			LeaseToken int64           `json:"lease_token"`
			Output     json.RawMessage `json:"output"`
		} `json:"items"`
	}
	s.must(json.Unmarshal(s.request(http.MethodPost, work+"/claim", fmt.Appendf(nil, `{"max":%d}`, benchWorkBatch)), &claimed))
	if len(claimed.Items) == 0 {
		return 0
	}
	for i := range claimed.Items {
		claimed.Items[i].Output = json.RawMessage(benchOutput)
	}
	body, err := json.Marshal(claimed)
	s.must(err)
	return bytes.Count(s.request(http.MethodPost, work+"/complete", body), []byte(`"completed"`))
}
