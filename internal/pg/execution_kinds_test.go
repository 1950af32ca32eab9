package pg

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// backlog creates n due executions of a kind, older than all others.
func (f *fixture) backlog(n int, kind string) {
	f.Helper()
	f.exec(`INSERT INTO eventhook.execution (id, tenant_id, due_at, created_at, max_attempts, type, status, queue, kind)
		SELECT gen_random_uuid(), $1, $2::timestamptz - i * interval '1 ms', $2, 3, 'task', 'pending', 'ci', $4 FROM generate_series(1, $3::int) i`,
		[16]byte(f.tenant), f.clock.Now(), n, kind)
}

func TestClaimsOfKindsLeaseTheOldest(t *testing.T) {
	f := setUp(t)
	var want []eventhook.ExecutionID
	for i := range 12 {
		kind := []string{"a", "b", "other"}[i%3]
		id := f.execution(eventhook.Task, func(x *eventhook.Execution) { x.Kind = kind })
		f.clock.Advance(time.Millisecond)
		if kind != "other" {
			want = append(want, id)
		}
	}
	q := f.query()
	q.Kinds, q.Max = []string{"b", "a", "b", "nothing's"}, 5
	var got []eventhook.ExecutionID
	for range 3 {
		for _, x := range f.claimWork(f.db, q) {
			got = append(got, x.ID)
		}
	}
	same(t, "claimed, in order", got, want)
	due, err := f.db.NextWork(t.Context(), q)
	f.must(err)
	same(t, "next execution of the kind", due.UTC(), f.clock.Now().Add(lease))
	due, err = f.db.NextWork(t.Context(), f.query())
	f.must(err)
	same(t, "next execution of any kind", due.UTC(), noon.Add(2*time.Millisecond))
	q.Kinds = []string{"nothing's"}
	due, err = f.db.NextWork(t.Context(), q)
	f.must(err)
	same(t, "next execution of an unknown kind", due, time.Time{})
}

// TestClaimsOfKindsSkipLockedExecutions claims while another transaction has locked the 250
// oldest executions.
func TestClaimsOfKindsSkipLockedExecutions(t *testing.T) {
	f := setUp(t)
	f.backlog(150, "build")
	f.backlog(150, "test")
	gate, err := f.other.work.Begin(t.Context())
	f.must(err)
	defer func() { _ = gate.Rollback(context.Background()) }()
	lock := func(n int) {
		t.Helper()
		tag, err := gate.Exec(t.Context(), `SELECT FROM eventhook.execution ORDER BY due_at LIMIT $1 FOR UPDATE`, n)
		f.must(err)
		same(t, "locked", tag.RowsAffected(), int64(n))
	}
	lock(250)
	q := f.query()
	q.Kinds = []string{"build", "test"}
	for _, most := range []int{1, 2, 10, 12} {
		q.Max = most
		same(t, "claimed up to the maximum", len(f.claimWork(f.db, q)), most)
	}
	lock(275)
	for _, most := range []int{1, 250} {
		q.Max = most
		same(t, "claimed while all are locked", len(f.claimWork(f.db, q)), 0)
	}
}

var pages = regexp.MustCompile(`(?:hit|read)=(\d+)`)

// pagesRead returns the number of pages that a statement reads.
func (f *fixture) pagesRead(sql string, args ...any) (n int, plan string) {
	f.Helper()
	tx, err := f.db.work.Begin(f.Context())
	f.must(err)
	defer func() { _ = tx.Rollback(f.Context()) }()
	rows, err := tx.Query(f.Context(), `EXPLAIN (ANALYZE, TIMING OFF, COSTS OFF, BUFFERS) `+sql, append([]any{pgx.QueryExecModeCacheDescribe}, args...)...)
	f.must(err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	f.must(err)
	whole := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, "Buffers:") }) // the parts of the plan follow
	for _, m := range pages.FindAllStringSubmatch(lines[max(whole, 0)], -1) {
		more, err := strconv.Atoi(m[1])
		f.must(err)
		n += more
	}
	return n, strings.Join(lines, "\n")
}

// TestClaimsOfKindsDoNotReadOthers: the pages that a claim reads do not depend on the number
// of due executions of other kinds.
func TestClaimsOfKindsDoNotReadOthers(t *testing.T) {
	f := setUp(t)
	f.backlog(20_000, "other")
	f.execution(eventhook.Task)
	f.exec(`ANALYZE eventhook.execution`)
	for name, sql := range map[string]string{"claim": claimKindsSQL.logged, "count": countOldestSQL, "next": nextKindsSQL} {
		args := []any{pgx.NamedArgs{"tenant": [16]byte(f.tenant), "queue": "ci", "now": f.clock.Now(), "kinds": []string{"build", "test"}, "look": 40,
			"until": f.clock.Now(), "max_bytes": maxClaimBytes, "lease_seconds": 30, "max": 10}}
		if name == "next" {
			args = []any{[16]byte(f.tenant), "ci", []string{"build", "test"}}
		}
		const most = 100 // pages; the index entries of the others have more
		if n, plan := f.pagesRead(sql, args...); n > most || n == 0 {
			t.Errorf("%s: read %d pages, want at most %d:\n%s", name, n, most, plan)
		}
	}
	same(t, "claimed", len(f.claimWork(f.db, eventhook.WorkQuery{Tenant: f.tenant, Queue: "ci", Kinds: []string{"build"}, Max: 10, Lease: lease})), 1)
}
