package pg

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/eventhook/eventhook"
)

func TestCompleteAllAnswersForEachExecution(t *testing.T) {
	f := setUp(t)
	for range 5 {
		f.execution(eventhook.Task)
	}
	claimed := f.claimWork(f.db, f.query())
	umbrella := f.secondTenant()
	foreign := claimed[4]
	f.exec(`UPDATE eventhook.execution SET tenant_id = $1 WHERE id = $2`, [16]byte(umbrella), [16]byte(foreign.ID))
	cancelled := claimed[3]
	_, err := f.db.Cancel(t.Context(), f.tenant, cancelled.ID)
	f.must(err)
	late, none := claimed[2], claimed[2]
	late.Lease.Token--
	none.ID = eventhook.NewID[eventhook.Execution](noon)
	first, twice, second := claimed[1], claimed[1], claimed[0]
	first.Output, twice.Output, second.Output = []byte(`{"n":1}`), []byte(`{"n":2}`), []byte("\"a\xff\"")

	trips := f.countTrips()
	before := trips.Load()
	got, err := f.db.CompleteAll(t.Context(), f.tenant, []eventhook.Execution{first, late, foreign, none, twice, cancelled, second})
	f.must(err)
	same(t, "statements", trips.Load()-before, int64(2))
	for i, want := range []error{nil, eventhook.ErrLeaseLost, eventhook.ErrNotFound, eventhook.ErrNotFound, eventhook.ErrLeaseLost, eventhook.ErrLeaseLost, nil} {
		if !errors.Is(got[i], want) {
			t.Errorf("item %d: got %v, want %v", i, got[i], want)
		}
	}
	x := f.storedExecution(first.ID)
	same(t, "status", x.Status, eventhook.ExecutionCompleted)
	same(t, "output of the first of two", string(x.Output), `{"n":1}`)
	same(t, "output", string(f.storedExecution(second.ID).Output), "\"a\uFFFD\"")
	same(t, "without an output", f.storedExecution(late.ID).Status, eventhook.ExecutionRunning)
	same(t, "another tenant's", f.count("execution", "tenant_id = $1 AND status = 'running'", [16]byte(umbrella)), 1)
}

// A worker that has claimed its execution again may send both tokens.
func TestCompleteAllUsesTheCurrentToken(t *testing.T) {
	for claim, order := range map[string][]int64{"first": {0, 5}, "last": {5, 0}, "between, and again": {-1, 0, 5, 0}} {
		t.Run(claim, func(t *testing.T) {
			f := setUp(t)
			x := f.runningExecution(eventhook.Task)
			list := make([]eventhook.Execution, len(order))
			want := make([]error, len(order))
			isDone := false
			for i, late := range order {
				list[i] = x
				list[i].Lease.Token += late
				list[i].Output = fmt.Append(nil, late)
				if late != 0 || isDone {
					want[i] = eventhook.ErrLeaseLost
				}
				isDone = isDone || late == 0
			}
			got, err := f.db.CompleteAll(t.Context(), f.tenant, list)
			f.must(err)
			for i := range want {
				if !errors.Is(got[i], want[i]) {
					t.Errorf("item %d: got %v, want %v", i, got[i], want[i])
				}
			}
			same(t, "status", f.storedExecution(x.ID).Status, eventhook.ExecutionCompleted)
			same(t, "output", string(f.storedExecution(x.ID).Output), "0")
		})
	}
}

func TestCompleteAllIsOneStatement(t *testing.T) {
	f := setUp(t)
	for range 10 {
		f.execution(eventhook.Task)
	}
	f.usesLog(f.db, f.tenant) // reads the tenant's flag, which is then cached
	trips := f.countTrips()
	before := trips.Load()
	claimed := f.claimWork(f.db, f.query())
	same(t, "statements of a claim", trips.Load()-before, int64(1))
	before = trips.Load()
	got, err := f.db.CompleteAll(t.Context(), f.tenant, claimed)
	f.must(err)
	same(t, "answers", got, make([]error, 10))
	same(t, "statements", trips.Load()-before, int64(1))
	f.complete(f.db, f.runningExecution(eventhook.Task), nil)
	same(t, "completed", f.count("execution", "status = 'completed' AND due_at IS NULL AND completed_at = $1", f.clock.Now()), 11)
}

// Batches with the same executions in different orders wait for each other and do not
// deadlock, and each execution is completed once. Both run while another transaction locks
// an execution in the middle.
func TestConcurrentBatchesCompleteEachExecutionOnce(t *testing.T) {
	f := setUp(t)
	f.backlog(10, "build")
	claimed := f.claimWork(f.db, f.query())
	f.fillTables(5000, 0) // enough rows for index lookups
	f.exec(`ANALYZE eventhook.execution`)
	backwards := slices.Clone(claimed)
	slices.Reverse(backwards)
	gate, err := f.db.work.Begin(t.Context())
	f.must(err)
	_, err = gate.Exec(t.Context(), `SELECT FROM eventhook.execution WHERE id = $1 FOR UPDATE`, [16]byte(claimed[5].ID))
	f.must(err)
	var answers [2][]error
	var errs [2]error
	concurrently(
		func() { answers[0], errs[0] = f.db.CompleteAll(t.Context(), f.tenant, claimed) },
		func() { answers[1], errs[1] = f.other.CompleteAll(t.Context(), f.tenant, backwards) },
		func() {
			f.waitForBlocked(2)
			f.must(gate.Rollback(t.Context()))
		})
	f.must(errors.Join(errs[:]...))
	for i := range claimed {
		if (answers[0][i] == nil) == (answers[1][len(claimed)-1-i] == nil) {
			t.Errorf("results %v and %v, want exactly one nil", answers[0][i], answers[1][len(claimed)-1-i])
		}
	}
}

// TestCompletingReadsOnlyItsExecutions checks the plan in small and large tables.
func TestCompletingReadsOnlyItsExecutions(t *testing.T) {
	f := setUp(t)
	f.backlog(10, "build")
	claimed := f.claimWork(f.db, f.query())
	for _, state := range []string{"a small table", "a large one", "after ANALYZE"} {
		for name, sql := range map[string]string{"many": completeManySQL.logged, "many, silent": completeManySQL.silent, "existing executions": existingExecutionsSQL} {
			args := f.db.completeArgs(f.tenant, claimed)
			if sql == existingExecutionsSQL {
				args = args[:2]
			}
			if n, plan := f.pagesRead(sql, args...); n > 200 || !strings.Contains(plan, "execution_pkey") || strings.Contains(plan, "execution_tenant") {
				t.Errorf("%s, %s: read %d pages, want few and by the primary key:\n%s", name, state, n, plan)
			}
		}
		if state == "a small table" {
			f.fillTables(5000, 100)
		} else {
			f.exec(`ANALYZE eventhook.execution`)
		}
	}
}
