package pg

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

// start starts a task in the queue of query.
func (f *fixture) start(change ...func(*eventhook.Execution)) eventhook.Execution {
	f.Helper()
	x := eventhook.Execution{TenantID: f.tenant, Type: eventhook.Task, Kind: "build", Queue: "ci", MaxAttempts: 3, Input: []byte(`{}`)}
	for _, c := range change {
		c(&x)
	}
	x, _, err := f.db.StartWork(f.Context(), x)
	f.must(err)
	return x
}

func priority(n int) func(*eventhook.Execution) {
	return func(x *eventhook.Execution) { x.Priority = n }
}

func (f *fixture) dueIn(d time.Duration) func(*eventhook.Execution) {
	return func(x *eventhook.Execution) { x.DueAt = new(f.clock.Now().Add(d)) }
}

func prioritiesOf(list []eventhook.Execution) (got []int) {
	for _, x := range list {
		got = append(got, x.Priority)
	}
	return got
}

func TestAPriorityIsAHeadStartInMinutes(t *testing.T) {
	for _, kinds := range [][]string{nil, {"build", "other"}} {
		t.Run(map[bool]string{true: "all kinds", false: "some kinds"}[kinds == nil], func(t *testing.T) {
			f := setUp(t)
			q := f.query()
			q.Kinds = kinds
			for _, p := range []int{-100, 1, 0, 100, -1} {
				f.start(priority(p))
			}
			f.clock.Advance(90 * time.Second)
			f.start(priority(2)) // after 1: 90 s later, but 60 s ahead
			f.start()
			got := f.claimWork(f.other, q)
			same(t, "priorities, in the order of the claim", prioritiesOf(got), []int{100, 1, 2, 0, -1, 0, -100})
			same(t, "a second claim", len(f.claimWork(f.db, q)), 0)
		})
	}
}

func TestAPriorityOfATargetIsStored(t *testing.T) {
	f := setUp(t)
	low := f.execution(eventhook.Task, priority(-7))
	f.execution(eventhook.Task, priority(7))
	x, err := f.db.Execution(t.Context(), f.tenant, low)
	f.must(err)
	same(t, "due", x.DueAt.UTC(), f.clock.Now())
	same(t, "claimed", prioritiesOf(f.claimWork(f.db, f.query())), []int{7, -7})
}

// TestAPriorityNeverMakesWorkDue starts work that is due later, and fails work whose retry
// is due later.
func TestAPriorityNeverMakesWorkDue(t *testing.T) {
	for _, p := range []int{-100, -1, 0, 1, 100} {
		t.Run(strconv.Itoa(p), func(t *testing.T) { neverEarly(setUp(t), p) })
	}
}

func neverEarly(f *fixture, p int) {
	x := f.start(priority(p), f.dueIn(time.Hour))
	same(f, "due_at", *x.DueAt, noon.Add(time.Hour))
	next := func() time.Time {
		due, err := f.db.NextWork(f.Context(), f.query())
		f.must(err)
		return due.UTC()
	}
	same(f, "next work", next(), noon.Add(time.Hour))
	f.clock.Advance(time.Hour - time.Millisecond)
	same(f, "claimed before it is due", len(f.claimWork(f.db, f.query())), 0)
	f.clock.Advance(time.Millisecond)
	list := f.claimWork(f.db, f.query())
	same(f, "claimed when it is due", len(list), 1)
	retry, err := f.db.Fail(f.Context(), list[0], "no", true, eventhook.ExecutionRetry)
	f.must(err)
	same(f, "next retry", next(), retry.UTC())
	f.clock.Advance(retry.Sub(f.clock.Now()) - time.Millisecond)
	same(f, "claimed before its retry", len(f.claimWork(f.db, f.query())), 0)
	f.clock.Advance(time.Millisecond)
	list = f.claimWork(f.db, f.query())
	same(f, "claimed at its retry", len(list), 1)
	f.must(f.db.releaseClaims(f.Context(), f.query(), []claimedExecution{{Execution: list[0], statusBefore: eventhook.ExecutionFailed, dueBefore: retry.Add(behind(p))}}))
	same(f, "claimed after a release", len(f.claimWork(f.db, f.query())), 1)
	f.clock.Advance(lease - time.Millisecond)
	same(f, "claimed while it is leased", len(f.claimWork(f.db, f.query())), 0)
	f.clock.Advance(time.Millisecond)
	same(f, "claimed when the lease is over", len(f.claimWork(f.db, f.query())), 1)
}

// TestClaimsFollowTheOrderOfPlaces compares claims with a list that is sorted by
// due_at - priority x 60 s, while work of random priorities, delays and failures comes
// faster than it is claimed. No execution waits longer than its place allows.
func TestClaimsFollowTheOrderOfPlaces(t *testing.T) {
	f := setUp(t)
	random := rand.New(rand.NewPCG(1, 2))
	priorities := []int{-100, -3, 0, 0, 0, 2, 100}
	type waiting struct {
		id    eventhook.ExecutionID
		p     int
		dueAt time.Time
	}
	place := func(w waiting) time.Time { return w.dueAt.Add(-time.Duration(w.p) * time.Minute) }
	byPlace := func(x, y waiting) int {
		return cmp.Or(place(x).Compare(place(y)), slices.Compare(x.id[:], y.id[:]))
	}
	var model []waiting
	claim := func(maxCount int) {
		q := f.query()
		q.Max, q.Lease = maxCount, time.Hour
		if random.IntN(2) == 0 {
			q.Kinds = []string{"build"}
		}
		slices.SortFunc(model, byPlace)
		var want []eventhook.ExecutionID
		var left []waiting
		failed := map[eventhook.ExecutionID]waiting{}
		for _, w := range model {
			if w.dueAt.After(f.clock.Now()) || len(want) == maxCount {
				left = append(left, w)
				continue
			}
			want = append(want, w.id)
			failed[w.id] = w
		}
		list := f.claimWork(f.db, q)
		var got []eventhook.ExecutionID
		for _, x := range list {
			got = append(got, x.ID)
			if w := failed[x.ID]; random.IntN(3) == 0 && x.Attempt < x.MaxAttempts {
				next, err := f.db.Fail(t.Context(), x, "no", true, eventhook.ExecutionRetry)
				f.must(err)
				w.dueAt = next
				left = append(left, w)
			} else {
				_, err := f.db.Complete(t.Context(), x)
				f.must(err)
			}
		}
		same(t, "claimed", got, want)
		model = left
	}
	for range 60 {
		for range random.IntN(4) {
			p := priorities[random.IntN(len(priorities))]
			x := f.start(priority(p), f.dueIn(time.Duration(random.IntN(3)*random.IntN(60))*time.Second))
			model = append(model, waiting{x.ID, p, *x.DueAt})
			f.clock.Advance(time.Millisecond)
		}
		f.clock.Advance(time.Duration(random.IntN(90)) * time.Second)
		claim(1 + random.IntN(2))
	}
	for len(model) > 0 {
		f.clock.Advance(time.Minute)
		claim(10)
	}
}

// TestHighPrioritiesDoNotStarveALowOne starts twice as much work of the highest priority as
// is claimed, without an end. Only work that is due within the head start precedes the work
// of the lowest priority.
func TestHighPrioritiesDoNotStarveALowOne(t *testing.T) {
	const step, headStart = 20 * time.Minute, 2 * eventhook.MaxPriority * eventhook.PriorityStep
	f := setUp(t)
	low := f.start(priority(-eventhook.MaxPriority))
	q := f.query()
	q.Max, q.Lease = 1, 24*time.Hour
	for claimed := range 2*int(headStart/step) + 1 {
		f.start(priority(eventhook.MaxPriority))
		f.start(priority(eventhook.MaxPriority))
		if f.claimWork(f.db, q)[0].ID == low.ID {
			same(t, "executions that preceded it", claimed, 2*int(headStart/step))
			return
		}
		f.clock.Advance(step)
	}
	t.Error("the execution with the lowest priority was not claimed")
}

func TestClaimsByPlaceSkipLockedExecutions(t *testing.T) {
	f := setUp(t)
	for range 50 {
		f.start(priority(5))
	}
	last := f.start(priority(-5))
	tx, err := f.db.work.Begin(t.Context())
	f.must(err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, err = tx.Exec(t.Context(), `SELECT FROM eventhook.execution WHERE priority = 5 FOR UPDATE`)
	f.must(err)
	q := f.query()
	q.Max = 1
	list := f.claimWork(f.other, q)
	if len(list) != 1 || list[0].ID != last.ID {
		t.Errorf("claimed %v, want the execution that is not locked", list)
	}
}

// TestOnlyQueuesWithPrioritiesPayForThem counts the statements of claims.
func TestOnlyQueuesWithPrioritiesPayForThem(t *testing.T) {
	f := setUp(t)
	trips := f.countTrips()
	claims := func() int {
		before := trips.Load()
		f.claimWork(f.db, f.query())
		return int(trips.Load() - before)
	}
	_ = claims() // prepares the statement
	f.start()
	same(t, "statements of a claim without priorities", claims(), 1)
	same(t, "statements of a claim in an empty queue", claims(), 1)
}
