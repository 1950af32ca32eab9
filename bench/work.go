package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/tidwall/gjson"
)

// What workers do in one round, and how much work has ended before.
const (
	workBatch = 50
	workEach  = 100 * workBatch
	workEnded = 1_000_000
)

// worked is what one round gave, in executions a second.
type worked struct{ bare, empty, full float64 }

// work holds a worker that claims and completes over HTTP, in batches, against
// the same in bare SQL, and in a table where much has ended against one that is
// nearly empty.
func (r *run) work(ctx context.Context) error {
	r.print("work: one worker claims and completes %d at a time, each with 1 KB of input, beside %d that have ended; %d rounds of %d in turn\n",
		workBatch, workEnded, r.rounds, workEach)
	empty, endEmpty, err := r.workplace(ctx, "work-empty", 0)
	if err != nil {
		return err
	}
	defer endEmpty()
	full, endFull, err := r.workplace(ctx, "work-full", workEnded)
	if err != nil {
		return err
	}
	defer endFull()
	var rounds []worked
	for round := range r.rounds + 1 { // the first warms up
		var x worked
		for _, m := range []struct {
			rate *float64
			at   *workplace
			do   func(context.Context, string) (int, error)
		}{{&x.bare, empty, empty.workBare}, {&x.empty, empty, empty.workHTTP}, {&x.full, full, full.workHTTP}} {
			if *m.rate, err = m.at.measure(ctx, m.do); err != nil {
				return err
			}
		}
		if round > 0 {
			rounds = append(rounds, x)
			r.print("  bare SQL %6.0f/s   over HTTP %6.0f/s (%.2f)   beside many %6.0f/s (%.2f)\n", x.bare, x.empty, x.empty/x.bare, x.full, x.full/x.empty)
		}
	}
	r.ratios = append(r.ratios,
		ratio{"work, claim and complete over HTTP / bare SQL", medianOf(rounds, func(x worked) float64 { return x.empty / x.bare }), 0.50, false},
		ratio{"work beside a million completed / beside none", medianOf(rounds, func(x worked) float64 { return x.full / x.empty }), 0.90, false})
	return nil
}

// workplace is a gateway with work to do.
type workplace struct {
	*filler
	client  http.Client
	address string
	key     string
}

// workplace starts a gateway in whose database as many executions have ended.
// The end is the caller's to call.
func (r *run) workplace(ctx context.Context, name string, ended int) (p *workplace, end func(), err error) {
	g, err := r.gateway(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			g.stop()
		}
	}()
	f, err := newFiller(ctx, g.stats.conn, max(ended, fewEvents), fewSources)
	if err != nil {
		return nil, nil, err
	}
	if ended > 0 {
		if err = f.fill(ctx, filledExecutions); err != nil {
			return nil, nil, err
		}
	}
	key, err := os.ReadFile(filepath.Join(g.dir, "admin.key"))
	if err != nil {
		return nil, nil, err
	}
	return &workplace{filler: f, address: "http://" + g.to.address + tenantAPI + "/work", key: strings.TrimSpace(string(key))}, g.stop, f.settle(ctx)
}

// dueWork is executions that are due, each with an event's body as its input.
const dueWork = `
WITH n AS (SELECT i, gen_random_uuid() AS event, ('018f' || substr(gen_random_uuid()::text, 5))::uuid AS id FROM generate_series(1, $2::int) i),
p AS (INSERT INTO eventhook.event_payload (event_id, headers, body) SELECT event, E'Content-Type: application/json\r\n', $3 FROM n)
INSERT INTO eventhook.execution (id, tenant_id, event_id, due_at, created_at, max_attempts, input_size, type, status, queue, kind)
SELECT id, $1, event, now(), now(), 3, length($3), 'task', 'pending', 'default', 'build' FROM n`

// measure tells how many executions a second are done of some that are made
// before, until none is left.
func (p *workplace) measure(ctx context.Context, do func(context.Context, string) (int, error)) (perSec float64, err error) {
	if _, err := p.conn.Exec(ctx, dueWork, p.tenant, workEach, body); err != nil {
		return 0, err
	}
	if _, err := p.conn.Exec(ctx, `CHECKPOINT`); err != nil {
		return 0, err
	}
	began, done := time.Now(), 0
	for {
		n, err := do(ctx, p.address)
		if err != nil {
			return 0, err
		}
		if n == 0 {
			break
		}
		done += n
	}
	if done != workEach {
		return 0, fmt.Errorf("%d executions were done, want %d", done, workEach)
	}
	return float64(done) / time.Since(began).Seconds(), nil
}

// bareClaim and bareComplete are what any queue of these rows must do.
const (
	bareClaim = `
WITH c AS MATERIALIZED (
    SELECT id FROM eventhook.execution WHERE tenant_id = $1 AND queue = 'default' AND due_at <= now() ORDER BY due_at LIMIT $2 FOR UPDATE SKIP LOCKED
), claimed AS (
    UPDATE eventhook.execution e SET status = 'running', attempt = attempt + 1, lease_token = lease_token + 1, due_at = now() + interval '30 s'
    FROM c WHERE e.id = c.id
    RETURNING e.id, e.type, e.kind, e.queue, e.event_id, e.attempt, e.lease_token
)
SELECT claimed.*, p.headers, p.body FROM claimed JOIN eventhook.event_payload p ON p.event_id = claimed.event_id`
	bareComplete = `
UPDATE eventhook.execution e SET status = 'completed', due_at = NULL, completed_at = now(), output = u.output::json
FROM unnest($1::uuid[], $2::int8[], $3::text[]) AS u (id, token, output)
WHERE e.id = u.id AND e.lease_token = u.token AND e.status = 'running'`
)

const output = `{"done":true}`

// workBare does a batch in bare SQL.
func (p *workplace) workBare(ctx context.Context, _ string) (int, error) {
	rows, err := p.conn.Query(ctx, bareClaim, p.tenant, workBatch)
	if err != nil {
		return 0, err
	}
	var ids [][16]byte
	var tokens []int64
	var outputs []string
	var id, event [16]byte
	var token int64
	var typ, kind, queue string
	var attempt int
	var headers, input []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &typ, &kind, &queue, &event, &attempt, &token, &headers, &input}, func() error {
		ids, tokens, outputs = append(ids, id), append(tokens, token), append(outputs, output)
		return nil
	})
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	tag, err := p.conn.Exec(ctx, bareComplete, ids, tokens, outputs)
	return int(tag.RowsAffected()), err
}

// workHTTP does a batch over HTTP.
func (p *workplace) workHTTP(ctx context.Context, address string) (int, error) {
	claimed, err := p.post(ctx, address+"/claim", fmt.Appendf(nil, `{"max":%d}`, workBatch))
	if err != nil {
		return 0, err
	}
	items := []byte(`{"items":[`)
	n := 0
	gjson.GetBytes(claimed, "items").ForEach(func(_, item gjson.Result) bool {
		if n > 0 {
			items = append(items, ',')
		}
		n++
		items = fmt.Appendf(items, `{"id":%q,"lease_token":%d,"output":`+output+`}`, item.Get("id").Str, item.Get("lease_token").Int())
		return true
	})
	if n == 0 {
		return 0, nil
	}
	answers, err := p.post(ctx, address+"/complete", append(items, `]}`...))
	return bytes.Count(answers, []byte(`"completed"`)), err
}

func (p *workplace) post(ctx context.Context, url string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+p.key)
	req.Header.Set("Content-Type", "application/json")
	res, err := p.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s %s", url, res.Status, answer)
	}
	return answer, err
}
