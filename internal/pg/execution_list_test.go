package pg

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/eventhook/eventhook"
)

// TestListsOfExecutionsMatchTheFilter compares every combination of filters with the stored
// executions, page by page.
func TestListsOfExecutionsMatchTheFilter(t *testing.T) {
	f := setUp(t)
	f.manyWork(400)
	all, err := f.db.Executions(t.Context(), f.tenant, eventhook.ExecutionFilter{Limit: 1000})
	f.must(err)
	same(t, "all", len(all), 400)
	same(t, "newest first", slices.IsSortedFunc(all, func(x, y eventhook.Execution) int { return slices.Compare(y.ID[:], x.ID[:]) }), true)
	states := []eventhook.ExecutionStatus{"", "pending", "running", "completed", "failed", "dead", "suspended", "cancelled"}
	for _, filter := range combinations(states) {
		var want, got []eventhook.ExecutionID
		for _, x := range all {
			if is(filter.Type, x.Type) && is(filter.Status, x.Status) && is(filter.Kind, x.Kind) && is(filter.Queue, x.Queue) {
				want = append(want, x.ID)
			}
		}
		filter.Limit = 7
		for {
			page, err := f.db.Executions(t.Context(), f.tenant, filter)
			f.must(err)
			for _, x := range page {
				got = append(got, x.ID)
			}
			if len(page) < filter.Limit {
				break
			}
			filter.Before = page[len(page)-1].ID
		}
		same(t, fmt.Sprintf("%+v", filter), got, want)
	}
}

// TestListsWithManyOpenExecutions has more open executions than a list reads.
func TestListsWithManyOpenExecutions(t *testing.T) {
	f := setUp(t)
	f.manyWork(40)
	f.backlog(10_100, "kind-1")
	for _, filter := range []eventhook.ExecutionFilter{{Kind: "kind-1"}, {Queue: "ci"}, {Type: eventhook.Task}, {Status: eventhook.ExecutionPending}} {
		filter.Limit = 20_000
		all, err := f.db.Executions(t.Context(), f.tenant, filter)
		f.must(err)
		filter.Limit = 30
		page, err := f.db.Executions(t.Context(), f.tenant, filter)
		f.must(err)
		same(t, fmt.Sprintf("%+v: the first page", filter), page, all[:30])
		want := f.count("execution", `($1 = '' OR kind = $1) AND ($2 = '' OR queue = $2) AND ($3 = '' OR type = $3) AND ($4 = '' OR status = $4)`,
			filter.Kind, filter.Queue, string(filter.Type), string(filter.Status))
		same(t, fmt.Sprintf("%+v: all", filter), len(all), want)
	}
}

// is reports whether a value matches a filter. An empty filter matches all.
func is[S ~string](filter, value S) bool { return filter == "" || filter == value }

func combinations(states []eventhook.ExecutionStatus) (all []eventhook.ExecutionFilter) {
	for _, s := range states {
		for _, typ := range []eventhook.ExecutionType{"", eventhook.Task} {
			for _, kind := range []string{"", "kind-1", "none"} {
				for _, queue := range []string{"", "queue-2"} {
					all = append(all, eventhook.ExecutionFilter{Type: typ, Status: s, Kind: kind, Queue: queue})
				}
			}
		}
	}
	return all
}

// manyWork creates n executions of five kinds, three queues and all statuses.
func (f *fixture) manyWork(n int) {
	f.Helper()
	f.exec(`INSERT INTO eventhook.execution (id, tenant_id, due_at, created_at, completed_at, max_attempts, type, status, queue, kind)
		SELECT gen_random_uuid(), $1, CASE WHEN s IN ('pending', 'running', 'failed') THEN $2::timestamptz END, $2,
			CASE WHEN s IN ('completed', 'dead', 'cancelled') THEN $2 END, 3, CASE WHEN i % 2 = 0 THEN 'task' ELSE 'workflow' END, s, 'queue-' || i % 3, 'kind-' || i % 5
		FROM (SELECT i, (ARRAY['pending', 'running', 'completed', 'failed', 'dead', 'cancelled'])[1 + i * 7 % 6] s FROM generate_series(1, $3::int) i) x`,
		[16]byte(f.tenant), f.clock.Now(), n)
}

// TestListsOfFewExecutionsReadFewPages: with each filter alone, the pages that a list reads
// do not depend on the number of other executions.
func TestListsOfFewExecutionsReadFewPages(t *testing.T) {
	f := setUp(t)
	const many, maxPages = 30_000, 5000 // reading all executions takes more pages
	f.exec(`INSERT INTO eventhook.execution (id, tenant_id, created_at, completed_at, max_attempts, type, status, queue, kind)
		SELECT gen_random_uuid(), $1, $2, $2, 3, 'task', 'completed', 'queue-' || i % 3, 'kind-' || i % 20 FROM generate_series(1, $3::int) i`,
		[16]byte(f.tenant), f.clock.Now(), many)
	for _, s := range []string{"pending", "running", "failed", "dead", "cancelled", "suspended"} {
		f.exec(`INSERT INTO eventhook.execution (id, tenant_id, due_at, created_at, completed_at, max_attempts, type, status, queue, kind)
			SELECT gen_random_uuid(), $1, CASE WHEN s IN ('pending', 'running', 'failed', 'suspended') THEN $2::timestamptz END, $2,
				CASE WHEN s IN ('dead', 'cancelled') THEN $2 END, 3, 'workflow', s, 'rare', 'rare' FROM (SELECT $3::text AS s FROM generate_series(1, 5)) x`,
			[16]byte(f.tenant), f.clock.Now(), s)
	}
	filters := []eventhook.ExecutionFilter{{}, {Type: eventhook.Workflow}, {Kind: "rare"}, {Queue: "rare"}, {Kind: "none"}, {Type: eventhook.Task, Kind: "rare"},
		{Kind: "kind-3"}, {Queue: "queue-1"}, {Type: eventhook.Task}, {Status: eventhook.ExecutionCompleted}}
	for _, s := range []eventhook.ExecutionStatus{"pending", "running", "failed", "dead", "suspended", "cancelled"} {
		filters = append(filters, eventhook.ExecutionFilter{Status: s}, eventhook.ExecutionFilter{Status: s, Kind: "rare"})
	}
	for _, state := range []string{"before the first ANALYZE", "after it"} {
		for _, filter := range filters {
			n, plan := f.listPages(filter)
			if n > maxPages {
				t.Errorf("%s, %+v: read %d pages, want at most %d:\n%s", state, filter, n, maxPages, plan)
			}
		}
		f.exec(`VACUUM ANALYZE eventhook.execution`)
	}
}

// listPages returns the number of pages that a list reads with a generic plan.
func (f *fixture) listPages(filter eventhook.ExecutionFilter) (n int, plan string) {
	f.Helper()
	work := f.db.work
	defer func() { f.db.work = work }()
	f.db.work = f.db.lists.Pool
	filter.Limit = cmp.Or(filter.Limit, 50)
	return f.pagesRead(executionListSQL(filter), executionListArgs(f.tenant, filter))
}
