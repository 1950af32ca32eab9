package pg

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
)

// A settle of 100 000 deliveries locks the keys of its targets for seconds. New events of
// all tenants share a commit and must not wait for it.
func TestNewEventsDoNotWaitForTheKeyLockOfASettle(t *testing.T) {
	f := setUp(t)
	blocked := f.arrival(f.event(withKey("k")), f.executionAction(eventhook.Task, "busy"))
	f.accept(f.db, f.arrival(f.event(), f.executionAction(eventhook.Task, "busy")))
	tx, err := f.other.work.Begin(t.Context())
	f.must(err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, err = tx.Exec(t.Context(), `SELECT FROM eventhook.idempotency_key WHERE key = 'busy' FOR UPDATE`)
	f.must(err)

	plan := blocked.Plan
	others := []*effects.Arrival{f.arrival(f.event(), f.executionAction(eventhook.Task, "")), {Event: f.event(f.withLease)}}
	accepted := make(chan error, 1)
	go func() { accepted <- f.db.Accept(t.Context(), append(others, blocked)) }()
	select {
	case err := <-accepted:
		f.must(err)
	case <-time.After(patient):
		t.Fatal("a batch waits for a locked key")
	}
	same(t, "the event with the locked key is stored without its plan", []any{blocked.IsPlanRefused, blocked.Event.Status, blocked.Event.Lease.Token}, []any{true, eventhook.EventProcessing, int64(1)})
	same(t, "other events of the batch", []any{others[0].IsPlanned(), others[0].Event.Status, others[1].Event.Status},
		[]any{true, eventhook.EventDelivered, eventhook.EventProcessing})
	same(t, "executions of the event with the locked key", f.count("execution", "event_id = $1", [16]byte(blocked.Event.ID)), 0)

	f.must(tx.Rollback(t.Context()))
	f.settle(f.db, plan)
	same(t, "action after the processor settled the event", f.actions(blocked.Event)[0].Status, eventhook.ActionSkipped)
}

var indexScan = regexp.MustCompile(`Index (Only )?Scan using`)

// The accept pool keeps generic plans that were made while the tables were empty.
func TestStatementsOfAcceptUseIndexes(t *testing.T) {
	f := setUp(t)
	conn, err := f.db.accept.Acquire(t.Context())
	f.must(err)
	defer conn.Release()
	check := func(state string) {
		for _, s := range []*statement{acceptSQL, acceptSignedSQL, claimKeysSQL, setActionsSQL} {
			plan := explain(f, conn.Conn(), s.sql, len(s.params))
			if wholeTable.MatchString(plan) || len(indexScan.FindAllString(plan, -1)) > strings.Count(plan, "Index Cond:") {
				t.Errorf("%s, %s:\n%s", state, s.name, plan)
			}
		}
	}
	check("no partition, no row")
	f.keep(Retention{})
	check("no row")
	f.fillTables(2000, 0)
	f.exec(`ANALYZE`)
	check("after ANALYZE")
}
