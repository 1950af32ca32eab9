package pg

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/bench/measure"
)

// maxClaimExtras is the cost of a claim of one task without lifecycle events and priorities,
// over the cost of a claim that looks for neither.
const maxClaimExtras = 1.05

// BenchmarkClaimWork compares the forms of a claim of one task, while no subscription names
// lifecycle events and no execution has a priority. Each iteration runs every form.
func BenchmarkClaimWork(b *testing.B) {
	f := newClaimFixture(b)
	now := time.Now()
	f.exec(`INSERT INTO eventhook.execution (id, tenant_id, due_at, created_at, status, type, max_attempts, queue, kind)
		SELECT gen_random_uuid(), $1, $2::timestamptz - i * interval '1 second', $2, 'pending', 'task', 3, 'ci', 'build' FROM generate_series(1, 20000) i`, [16]byte(f.tenant), now)
	f.exec(`ANALYZE eventhook.execution`)
	_, args := workClaim{WorkQuery: eventhook.WorkQuery{Tenant: f.tenant, Queue: "ci", Max: 1}}.statement(now)
	args["until"], args["max_bytes"], args["lease_seconds"] = now.Add(time.Minute), maxClaimBytes, 30
	none := `
WITH priority_gate AS MATERIALIZED (
    SELECT false AS is_open
)`
	forms := []struct{ name, sql string }{
		{"logged", claimWorkSQL.logged}, {"silent", claimWorkSQL.silent}, {"bare", strings.Replace(claimWorkSQL.silent, priorityGateSQL, none, 1)},
	}
	took := map[string][]float64{}
	conn, err := f.db.work.Acquire(b.Context())
	f.must(err)
	defer conn.Release()
	for i := 0; b.Loop(); i++ {
		for k := range forms {
			form := forms[(i+k)%len(forms)]
			tx, err := conn.Begin(b.Context())
			f.must(err)
			began := time.Now()
			rows, err := tx.Query(b.Context(), form.sql, args)
			f.must(err)
			rows.Close()
			took[form.name] = append(took[form.name], float64(time.Since(began).Microseconds()))
			f.must(rows.Err())
			f.must(tx.Rollback(b.Context()))
		}
	}
	fastest := func(name string) float64 { // the middle of the fastest tenth, which other load delays least
		slices.Sort(took[name])
		return took[name][len(took[name])/20]
	}
	for _, form := range forms {
		b.ReportMetric(fastest(form.name), "µs_"+form.name)
	}
	b.ReportMetric(fastest("logged")/fastest("bare"), "logged/bare")
	measure.AtMost("claim of a task / without lifecycle and priorities", fastest("silent")/fastest("bare"), maxClaimExtras).Report(b, "silent/bare")
}
