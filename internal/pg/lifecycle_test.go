package pg

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
)

// lifecycleSubscription creates a subscription to event types.
func (f *fixture) lifecycleSubscription(types ...string) eventhook.Subscription {
	f.Helper()
	s := f.subscription(func(s *eventhook.Subscription) { s.EventTypes = types })
	f.deleteSystemEvents()
	return s
}

// publishLifecycle publishes the stored changes, and returns the lifecycle events with a
// delivery to s, in their order.
func (f *fixture) publishLifecycle(s eventhook.Subscription) (list []string) {
	f.Helper()
	for {
		n, err := f.db.PublishLifecycle(f.Context())
		f.must(err)
		if n == 0 {
			break
		}
	}
	same(f, "changes that are left", f.count("lifecycle_change", "true"), 0)
	types := queryValue[[]string](f, `SELECT coalesce(array_agg(e.event_type ORDER BY e.id), '{}') FROM eventhook.delivery d
		JOIN eventhook.event e ON e.tenant_id = d.tenant_id AND e.id = d.event_id
		WHERE d.destination_id = $1 AND e.origin = 'system' AND e.event_type ~ '^(task|workflow|promise)\.'`, [16]byte(s.ID))
	return types
}

// everyChange makes each change of executions and promises once.
func (f *fixture) everyChange() {
	f.Helper()
	_, err := f.db.Complete(f.Context(), f.runningExecution(eventhook.Task))
	f.must(err)
	failing := f.runningExecution(eventhook.Task)
	_, err = f.db.Fail(f.Context(), failing, "no", true, eventhook.ExecutionRetry)
	f.must(err)
	_, err = f.db.Cancel(f.Context(), f.tenant, failing.ID)
	f.must(err)
	_, err = f.db.Fail(f.Context(), f.runningExecution(eventhook.Task), "never", false, eventhook.ExecutionRetry)
	f.must(err)
	w := f.runningExecution(eventhook.Workflow)
	p, _, err := f.db.CreatePromise(f.Context(), eventhook.Promise{TenantID: f.tenant, IdempotencyKey: "p", WorkflowExecutionID: w.ID})
	f.must(err)
	f.must(f.db.Suspend(f.Context(), w, eventhook.Suspension{Await: []eventhook.PromiseID{p.ID}}))
	_, err = f.db.SettlePromise(f.Context(), f.tenant, p.ID, effects.PromiseOutcome{Status: eventhook.PromiseRejected, Error: "declined"})
	f.must(err)
	resumed := f.claimWork(f.db, f.query())
	_, err = f.db.CompleteAll(f.Context(), f.tenant, resumed)
	f.must(err)
	_, _, err = f.db.CreatePromise(f.Context(), eventhook.Promise{TenantID: f.tenant, IdempotencyKey: "late", ExpiresAt: new(f.clock.Now())})
	f.must(err)
	_, err = f.db.ExpirePromises(f.Context())
	f.must(err)
	f.settle(f.db, f.plan(f.leasedEvents(1)[0], resolveAction("early", `1`)))
	_, _, err = f.db.CreatePromise(f.Context(), eventhook.Promise{TenantID: f.tenant, IdempotencyKey: "early"})
	f.must(err)
}

func TestEachChangeHasOneLifecycleEvent(t *testing.T) {
	f := setUp(t)
	s := f.lifecycleSubscription("task.*", "workflow.*", "promise.*")
	f.everyChange()
	same(t, "events", f.publishLifecycle(s), []string{
		"task.started", "task.completed", "task.started", "task.failed", "task.cancelled", "task.started", "task.dead",
		"workflow.started", "promise.created", "workflow.suspended", "promise.rejected", "workflow.resumed", "workflow.completed",
		"promise.created", "promise.expired", "promise.created", "promise.resolved",
	})
	same(t, "published again", len(f.publishLifecycle(s)), 17)
}

func TestOnlySubscriptionsThatNameLifecycleEventsGetThem(t *testing.T) {
	f := setUp(t)
	all, named := f.lifecycleSubscription("*"), f.lifecycleSubscription("promise.expired", "task.dead")
	f.everyChange()
	same(t, "stored", f.count("lifecycle_change", "true"), 2)
	same(t, "events of a subscription that names them", f.publishLifecycle(named), []string{"task.dead", "promise.expired"})
	same(t, "events of a subscription to *", f.publishLifecycle(all), []string{})
}

func TestNothingIsStoredWhileNobodySubscribes(t *testing.T) {
	f := setUp(t)
	f.lifecycleSubscription("*", "order.*")
	f.everyChange()
	same(t, "stored changes", f.count("lifecycle_change", "true"), 0)
	same(t, "values of the sequence that were used",
		queryValue[bool](f, `SELECT is_called FROM eventhook.lifecycle_change_sequence_seq`), false)
}

func TestAChangeThatIsRefusedHasNoEvent(t *testing.T) {
	f := setUp(t)
	s := f.lifecycleSubscription("task.completed", "task.failed", "task.cancelled", "workflow.suspended")
	x := f.runningExecution(eventhook.Task)
	lost := x
	lost.Lease.Token--
	_, err := f.db.Complete(t.Context(), lost)
	wantErr(t, err, eventhook.ErrLeaseLost)
	_, err = f.db.Fail(t.Context(), lost, "no", true, eventhook.ExecutionRetry)
	wantErr(t, err, eventhook.ErrLeaseLost)
	_, err = f.db.Complete(t.Context(), x)
	f.must(err)
	_, err = f.db.Cancel(t.Context(), f.tenant, x.ID)
	if eventhook.KindOf(err) != eventhook.KindConflict {
		t.Errorf("cancel: %v, want a conflict", err)
	}
	same(t, "events", f.publishLifecycle(s), []string{"task.completed"})
}

func wantErr(t *testing.T, got, want error) {
	t.Helper()
	if got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestTheDataOfALifecycleEvent(t *testing.T) {
	f := setUp(t)
	f.lifecycleSubscription("task.failed")
	const trace = "0af7651916cd43dd8448eb211c80319c"
	x := f.runningExecution(eventhook.Task, func(x *eventhook.Execution) { x.TraceID, x.Input = trace, []byte(`{"secret":1}`) })
	_, err := f.db.Fail(t.Context(), x, strings.Repeat("x", 5000), true, eventhook.ExecutionRetry)
	f.must(err)
	_, err = f.db.PublishLifecycle(t.Context())
	f.must(err)
	raw := queryValue[[]byte](f, `SELECT p.body FROM eventhook.event e JOIN eventhook.event_payload p ON p.event_id = e.id WHERE e.event_type = 'task.failed' AND e.trace_id = $1`, trace)
	var got map[string]any
	f.must(json.Unmarshal(raw, &got))
	want := map[string]any{"id": x.ID.String(), "type": "task", "kind": "build", "queue": "ci", "status": "failed", "attempt": 1.0, "max_attempts": 3.0,
		"error": strings.Repeat("x", 1000), "event_id": x.EventID.String(), "trace_id": trace, "occurred_at": f.clock.Now().Format(time.RFC3339Nano)}
	same(t, "data", got, want)
}

// TestOneInstancePublishesAtATime publishes while another transaction has
// the lock, and after that transaction was rolled back.
func TestOneInstancePublishesAtATime(t *testing.T) {
	f := setUp(t)
	s := f.lifecycleSubscription("task.started")
	f.runningExecution(eventhook.Task)
	tx, err := f.db.work.Begin(t.Context())
	f.must(err)
	_, err = tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock($1)`, lifecycleLock)
	f.must(err)
	changes, err := f.db.takeLifecycle(t.Context(), tx)
	f.must(err)
	same(t, "changes that a transaction takes", len(changes), 1)
	n, err := f.other.PublishLifecycle(t.Context())
	f.must(err)
	same(t, "events of another instance meanwhile", n, 0)
	f.must(tx.Rollback(t.Context()))
	same(t, "events after the transaction is lost", f.publishLifecycle(s), []string{"task.started"})
}

func TestManyChangesOfATenantDoNotDelayOthers(t *testing.T) {
	f := setUp(t)
	other := f.secondTenant()
	f.exec(`INSERT INTO eventhook.lifecycle_change (tenant_id, occurred_at, event_type, status) SELECT $1, now(), 'task.dead', 'dead' FROM generate_series(1, 500)`, [16]byte(f.tenant))
	f.exec(`INSERT INTO eventhook.lifecycle_change (tenant_id, occurred_at, event_type, status) VALUES ($1, now(), 'task.dead', 'dead')`, [16]byte(other))
	_, err := f.db.PublishLifecycle(t.Context())
	f.must(err)
	same(t, "changes of the other tenant that wait", f.count("lifecycle_change", "tenant_id = $1", [16]byte(other)), 0)
	same(t, "changes of the first tenant that wait", f.count("lifecycle_change", "tenant_id = $1", [16]byte(f.tenant)), 450)
}

// TestTheConditionNamesEachLifecycleEvent compares the list in the statements with the
// catalogue, and the statements' use of the index.
func TestTheConditionNamesEachLifecycleEvent(t *testing.T) {
	f := setUp(t)
	var want []string
	for _, e := range eventhook.LifecycleEventTypes() {
		first, _, _ := strings.Cut(e.Name, ".")
		want = append(want, e.Name, first+".*")
	}
	slices.Sort(want)
	want = slices.Compact(want)
	var got []string
	for _, m := range regexp.MustCompile(`'([^']+)'`).FindAllStringSubmatch(namesLifecycle, -1) {
		got = append(got, m[1])
	}
	slices.Sort(got)
	same(t, "names", got, want)
	tx, err := f.db.work.Begin(t.Context())
	f.must(err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, err = tx.Exec(t.Context(), `SET LOCAL enable_seqscan = off`)
	f.must(err)
	rows, err := tx.Query(t.Context(), `EXPLAIN SELECT FROM eventhook.subscription s WHERE s.tenant_id = gen_random_uuid() AND `+namesLifecycle)
	f.must(err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	f.must(err)
	plan := strings.Join(lines, "\n")
	if !strings.Contains(plan, "subscription_lifecycle") {
		t.Errorf("the condition does not use its index:\n%s", plan)
	}
}

// A webhook settles a promise of the API: the event of the change has the webhook's trace.
func TestAPromiseThatAWebhookSettlesHasItsTrace(t *testing.T) {
	f := setUp(t)
	f.lifecycleSubscription("promise.*")
	_, _, err := f.db.CreatePromise(t.Context(), eventhook.Promise{TenantID: f.tenant, IdempotencyKey: "p"})
	f.must(err)
	e := f.leasedEvents(1)[0]
	f.settle(f.db, f.plan(e, resolveAction("p", `1`)))
	for n := 1; n > 0; {
		n, err = f.db.PublishLifecycle(t.Context())
		f.must(err)
	}
	const newest = `SELECT trace_id || ' ' || correlation_id FROM eventhook.event WHERE event_type = 'promise.resolved'`
	same(t, "trace and correlation", queryValue[string](f, newest), e.Trace()+" "+e.ID.String())
}
