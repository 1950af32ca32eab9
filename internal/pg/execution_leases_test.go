package pg

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

// leaseLog records the leases of executions: how often each token was used for a lease.
type leaseLog struct {
	mu     sync.Mutex
	tokens map[eventhook.ExecutionID]map[int64]int // how often each token was used for a lease
	ends   map[eventhook.ExecutionID]int           // how often the execution was completed since its last restart
}

func (h *leaseLog) took(x eventhook.Execution) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.tokens[x.ID] == nil {
		h.tokens[x.ID] = map[int64]int{}
	}
	h.tokens[x.ID][x.Lease.Token]++
}

func (h *leaseLog) completed(id eventhook.ExecutionID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ends[id]++
}

// TestAnExecutionNeverHasTwoLeases lets workers of two instances claim, extend, complete, fail
// and suspend executions while operators cancel and retry them and leases expire. No token may
// be used for a lease twice, no execution may be completed twice, and nothing may change under a
// token that is not the latest.
func TestAnExecutionNeverHasTwoLeases(t *testing.T) {
	f := setUp(t)
	const executions, workers, acts = 12, 8, 60
	h := &leaseLog{tokens: map[eventhook.ExecutionID]map[int64]int{}, ends: map[eventhook.ExecutionID]int{}}
	var ids []eventhook.ExecutionID
	for range executions {
		ids = append(ids, f.execution(eventhook.Workflow, func(x *eventhook.Execution) { x.MaxAttempts = 1000 }))
	}
	p := f.promise("k")
	_, err := f.db.SettlePromise(t.Context(), f.tenant, p.ID, resolved)
	f.must(err)
	var all []func()
	for n := range workers {
		w := &leaseWorker{fixture: f, leaseLog: h, db: []*DB{f.db, f.other}[n%2], random: rand.New(rand.NewPCG(1, uint64(n))), awaits: p.ID}
		all = append(all, func() {
			for range acts {
				w.act(ids)
			}
		})
	}
	concurrently(all...)
	for id, tokens := range h.tokens {
		x := f.storedExecution(id)
		for token, times := range tokens {
			if times != 1 || token > x.Lease.Token {
				t.Errorf("token %d of %s was used for a lease %d times; the last is %d", token, id, times, x.Lease.Token)
			}
		}
		if n := h.ends[id]; n > 1 || (n == 1) != (x.Status == eventhook.ExecutionCompleted) {
			t.Errorf("%s was completed %d times and is %s", id, n, x.Status)
		}
	}
}

// leaseWorker is a worker that sometimes acts as an operator.
type leaseWorker struct {
	*fixture
	*leaseLog
	db     *DB
	random *rand.Rand
	awaits eventhook.PromiseID
	leased []eventhook.Execution // their leases may be lost
}

func (w *leaseWorker) act(ids []eventhook.ExecutionID) {
	some := ids[w.random.IntN(len(ids))]
	switch w.random.IntN(8) {
	case 0, 1, 2:
		q := w.query()
		q.Max, q.Lease = 1+w.random.IntN(4), time.Duration(1+w.random.IntN(3))*time.Second
		if w.random.IntN(2) == 0 {
			q.Kinds = []string{"build", "other"}
		}
		for _, x := range w.claimWork(w.db, q) {
			w.took(x)
			w.leased = append(w.leased, x)
		}
	case 3:
		w.clock.Advance(time.Second)
	case 4:
		_, err := w.db.Cancel(w.Context(), w.tenant, some)
		w.expect("cancel", err)
	case 5:
		_, err := w.db.Retry(w.Context(), w.tenant, some)
		w.expect("retry", err)
	default:
		w.settle()
	}
}

// settle changes an execution that the worker has leased, possibly with an expired lease.
func (w *leaseWorker) settle() {
	if len(w.leased) == 0 {
		return
	}
	i := w.random.IntN(len(w.leased))
	x := w.leased[i]
	var err error
	switch w.random.IntN(5) {
	case 0:
		_, err = w.db.Heartbeat(w.Context(), x, time.Second)
	case 1:
		_, err = w.db.Fail(w.Context(), x, "no", true, eventhook.RetryPolicy{InitialDelayMS: 1000})
	case 2:
		err = w.db.Suspend(w.Context(), x, eventhook.Suspension{Await: []eventhook.PromiseID{w.awaits}})
	case 3:
		if _, err = w.db.Complete(w.Context(), x); err == nil {
			w.completed(x.ID)
		}
	case 4:
		var errs []error
		errs, err = w.db.CompleteAll(w.Context(), w.tenant, w.leased)
		w.must(err)
		for j, e := range errs {
			if e == nil {
				w.completed(w.leased[j].ID)
			}
		}
		return
	}
	w.expect("settle", err)
}

// expect accepts an error only if another change came first.
func (w *leaseWorker) expect(act string, err error) {
	if err != nil && !errors.Is(err, eventhook.ErrLeaseLost) && eventhook.KindOf(err) != eventhook.KindConflict {
		w.Errorf("%s: %v", act, err)
	}
}
