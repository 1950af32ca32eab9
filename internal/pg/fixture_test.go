package pg

import (
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/clocktest"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// operator is the actor of changes in tests.
var operator = eventhook.Actor{Type: eventhook.ActorOperator, Name: "test"}

// noon is the time at which every test begins.
var noon = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

const (
	lease   = 30 * time.Second
	keyTTL  = 90 * day
	patient = time.Minute // timeout for results that come at once unless the code is broken
)

// wrapped is a Sealer whose sealed texts do not contain the plain text.
type wrapped struct{}

func (wrapped) Seal(plain, place string) (string, error) {
	if place == "" {
		return "enc:test:" + base64.StdEncoding.EncodeToString([]byte(plain)), nil
	}
	return "enc2:test:" + base64.StdEncoding.EncodeToString([]byte(place+"\x00"+plain)), nil
}

func (wrapped) Open(sealed, place string) (string, error) {
	encoded, isBound := strings.CutPrefix(sealed, "enc2:test:")
	if !isBound {
		encoded, place = strings.TrimPrefix(sealed, "enc:test:"), ""
	}
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return "", err
	}
	if !isBound {
		return string(raw), nil
	}
	plain, ok := strings.CutPrefix(string(raw), place+"\x00")
	if !ok {
		return "", errors.New("sealed for another place")
	}
	return plain, nil
}

// fixture is a database with the tenant acme, its sources crm and shop, and a route of
// crm. db and other stand for two instances.
type fixture struct {
	testing.TB
	dsn       string
	clock     *clocktest.Clock
	db, other *DB
	tenant    eventhook.TenantID
	crm, shop eventhook.SourceID
	route     eventhook.Route
}

func setUp(t *testing.T) *fixture {
	t.Helper()
	t.Parallel()
	f := &fixture{TB: t, dsn: pgtest.New(t), clock: clocktest.New(noon)}
	f.db, f.other = f.open(), f.open()
	f.apply(acme())
	f.tenant, f.crm = f.sourceID("acme", "crm")
	_, f.shop = f.sourceID("acme", "shop")
	routed, err := f.db.SourceRouting(t.Context(), f.tenant, f.crm)
	f.must(err)
	f.route = routed.Routes[0]
	f.deleteSystemEvents()
	t.Cleanup(func() { checkInvariants(t, f.dsn) })
	return f
}

// deleteSystemEvents deletes the system events. Call it before partitions are created.
func (f *fixture) deleteSystemEvents() {
	f.Helper()
	f.exec(`TRUNCATE eventhook.event_default, eventhook.event_payload_default`)
}

// open returns a further instance.
func (f *fixture) open(change ...func(*Options)) *DB {
	f.Helper()
	db := openAt(f, f.dsn, append([]func(*Options){func(o *Options) { o.Now = f.clock.Now }}, change...)...)
	f.must(db.StartSealing(f.Context()))
	return db
}

func openAt(t testing.TB, dsn string, change ...func(*Options)) *DB {
	t.Helper()
	o := Options{AcceptConns: 4, WorkConns: 6, KeyTTL: keyTTL, Sealer: wrapped{}, Log: slog.New(slog.DiscardHandler)}
	for _, c := range change {
		c(&o)
	}
	db, err := Open(t.Context(), dsn, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

// acme is the configuration of the fixture's tenant.
func acme() eventhook.TenantConfig {
	source := func(slug string) eventhook.Source {
		return eventhook.Source{Slug: slug, Name: slug, Verifier: eventhook.NewSecret(`{"type":"hmac","secrets":["s3cr3t"]}`), SecretsCount: 1, IsEnabled: true}
	}
	return eventhook.TenantConfig{
		Tenant: eventhook.Tenant{Slug: "acme", Name: "Acme"},
		Sources: []eventhook.SourceConfig{
			{Source: source("crm"), Routes: []eventhook.Route{{
				Name: "all", IsEnabled: true, FilterEventTypes: []string{"*"},
				Targets: []eventhook.Target{{Type: eventhook.TargetTask, Settings: []byte(`{"queue":"ci","task_kind":"build"}`)}},
			}}},
			{Source: source("shop")},
		},
	}
}

func (f *fixture) apply(c eventhook.TenantConfig) []eventhook.Change {
	f.Helper()
	changes, err := f.db.ApplyTenant(f.Context(), operator, c, ApplyOptions{})
	f.must(err)
	return changes
}

func (f *fixture) sourceID(tenant, slug string) (eventhook.TenantID, eventhook.SourceID) {
	f.Helper()
	s, err := f.db.FindSource(f.Context(), tenant, slug)
	f.must(err)
	return s.TenantID, s.ID
}

// secondTenant creates a tenant, which must not see data of acme.
func (f *fixture) secondTenant() eventhook.TenantID {
	f.Helper()
	t, err := f.db.CreateTenant(f.Context(), operator, eventhook.Tenant{Slug: "umbrella", Name: "Umbrella"})
	f.must(err)
	return t.ID
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// event returns an event of crm, due at once, which is not stored yet.
func (f *fixture) event(change ...func(*eventhook.Event)) *eventhook.Event {
	e := &eventhook.Event{
		ID: eventhook.NewID[eventhook.Event](f.clock.Now()), TenantID: f.tenant, SourceID: f.crm, Origin: eventhook.OriginSource,
		EventType: "push", ContentType: "application/json", BodySize: 2,
		Payload: eventhook.Payload{Headers: []byte("X-A: b\r\n"), Body: []byte(`{}`)},
	}
	for _, c := range change {
		c(e)
	}
	return e
}

func withKey(key string) func(*eventhook.Event) {
	return func(e *eventhook.Event) { e.IdempotencyKey = key }
}

func (f *fixture) withLease(e *eventhook.Event) { e.Lease.Until = f.clock.Now().Add(lease) }

// leasedEvents stores n events, which db has leased.
func (f *fixture) leasedEvents(n int) []*eventhook.Event {
	f.Helper()
	batch := make([]*eventhook.Event, n)
	for i := range batch {
		batch[i] = f.event(f.withLease)
	}
	f.must(f.db.Accept(f.Context(), arrivals(batch...)))
	return batch
}

func (f *fixture) storedEvent(e *eventhook.Event) eventhook.Event {
	f.Helper()
	got, err := f.db.Event(f.Context(), e.TenantID, e.ID)
	f.must(err)
	return got
}

func (f *fixture) actions(e *eventhook.Event) []eventhook.Action {
	f.Helper()
	list, _, err := f.db.Actions(f.Context(), e, 1000)
	f.must(err)
	return list
}

// arrivals returns events without plans.
func arrivals(events ...*eventhook.Event) []*effects.Arrival {
	list := make([]*effects.Arrival, len(events))
	for i, e := range events {
		list[i] = &effects.Arrival{Event: e}
	}
	return list
}

// plan returns a settlement with the actions of the fixture's route, in order, without
// actions that succeeded in an earlier try.
func (f *fixture) plan(e *eventhook.Event, actions ...effects.PlannedAction) *effects.Settlement {
	f.Helper()
	for i := range actions {
		a := &actions[i]
		a.ID, a.EventID, a.RouteID, a.RouteName, a.TargetIndex = eventhook.ActionIDOf(e.ID, f.route.ID, i), e.ID, f.route.ID, f.route.Name, i
		a.Attempts = 1
		if x := a.Effect.Execution; x != nil {
			x.EventID, x.TenantID = e.ID, e.TenantID
		}
		if r := a.Effect.Request; r != nil {
			to := eventhook.Destination{TenantID: e.TenantID, RouteID: f.route.ID, TargetIndex: i}.ID()
			r.Delivery = &eventhook.Delivery{ID: eventhook.DeliveryIDOf(e.ID, to), DestinationID: to, RouteID: f.route.ID, TargetIndex: i}
		}
	}
	s := &effects.Settlement{
		Event: e, Actions: actions, Matched: len(actions), Retry: eventhook.EventRetry,
		Generation: queryValue[int64](f, generationSQL, [16]byte(e.TenantID)),
	}
	if e.Lease.Token > 1 {
		f.replan(s)
	}
	return s
}

// replan omits actions that succeeded in earlier tries, as package route does.
func (f *fixture) replan(s *effects.Settlement) {
	f.Helper()
	all, err := f.db.EventActions(f.Context(), []*eventhook.Event{s.Event})
	f.must(err)
	s.Prior, s.OpenRequests = all[s.Event.ID], 0
	s.Actions = slices.DeleteFunc(s.Actions, func(a effects.PlannedAction) bool {
		return slices.ContainsFunc(s.Prior, func(p eventhook.Action) bool {
			return p.TargetIndex == a.TargetIndex && p.Status != eventhook.ActionFailed
		})
	})
	for _, p := range s.Prior {
		if p.Status == eventhook.ActionPending {
			s.OpenRequests++
		}
		for i := range s.Actions {
			if s.Actions[i].TargetIndex == p.TargetIndex {
				s.Actions[i].Attempts += p.Attempts
			}
		}
	}
}

// countDoneActions counts the actions of an event that have not failed.
func (f *fixture) countDoneActions(e *eventhook.Event) (n int) {
	f.Helper()
	for _, a := range f.actions(e) {
		if a.Status != eventhook.ActionFailed {
			n++
		}
	}
	return n
}

// executionAction returns an action that creates an execution. key may be "".
func (f *fixture) executionAction(typ eventhook.ExecutionType, key string, change ...func(*eventhook.Execution)) effects.PlannedAction {
	x := &eventhook.Execution{
		ID: eventhook.NewID[eventhook.Execution](f.clock.Now()), Type: typ, Kind: "build", Queue: "ci", IdempotencyKey: key, MaxAttempts: 3,
	}
	for _, c := range change {
		c(x)
	}
	return effects.PlannedAction{Action: eventhook.Action{TargetType: string(typ)}, Effect: effects.Effect{Execution: x}}
}

func resolveAction(key, value string) effects.PlannedAction {
	return promiseAction(effects.PromiseOutcome{Key: key, Status: eventhook.PromiseResolved, Value: []byte(value), Hold: true})
}

func promiseAction(o effects.PromiseOutcome) effects.PlannedAction {
	return effects.PlannedAction{Action: eventhook.Action{TargetType: eventhook.TargetPromise}, Effect: effects.Effect{Promise: &o}}
}

func failedAction(message string) effects.PlannedAction {
	return effects.PlannedAction{Action: eventhook.Action{TargetType: "http"}, Failure: message}
}

// settle settles on db and fails the test if a lease was lost.
func (f *fixture) settle(db *DB, batch ...*effects.Settlement) {
	f.Helper()
	lost, err := db.SettleEvents(f.Context(), batch)
	f.must(err)
	if len(lost) > 0 {
		f.Fatalf("%d leases were lost, want none", len(lost))
	}
}

// claimEvents claims due events on db.
func (f *fixture) claimEvents(db *DB, limit int) []*eventhook.Event {
	f.Helper()
	list, err := db.ClaimEvents(f.Context(), limit, lease)
	f.must(err)
	return list
}

// execution creates an execution of a type through an event.
func (f *fixture) execution(typ eventhook.ExecutionType, change ...func(*eventhook.Execution)) eventhook.ExecutionID {
	f.Helper()
	a := f.executionAction(typ, "", change...)
	f.settle(f.db, f.plan(f.leasedEvents(1)[0], a))
	return a.Effect.Execution.ID
}

func (f *fixture) query() eventhook.WorkQuery {
	return eventhook.WorkQuery{Tenant: f.tenant, Queue: "ci", Max: 10, Lease: lease}
}

func (f *fixture) claimWork(db *DB, q eventhook.WorkQuery) []eventhook.Execution {
	f.Helper()
	list, err := db.ClaimWork(f.Context(), q)
	f.must(err)
	return list
}

// runningExecution returns an execution that a worker has leased.
func (f *fixture) runningExecution(typ eventhook.ExecutionType, change ...func(*eventhook.Execution)) eventhook.Execution {
	f.Helper()
	f.execution(typ, change...)
	list := f.claimWork(f.db, f.query())
	if len(list) != 1 {
		f.Fatalf("claimed %d executions, want 1", len(list))
	}
	return list[0]
}

// complete completes an execution on db.
func (f *fixture) complete(db *DB, x eventhook.Execution, output []byte) eventhook.Execution {
	f.Helper()
	x.Output = output
	done, err := db.Complete(f.Context(), x)
	f.must(err)
	return done
}

func (f *fixture) storedExecution(id eventhook.ExecutionID) eventhook.Execution {
	f.Helper()
	x, err := f.db.Execution(f.Context(), f.tenant, id)
	f.must(err)
	return x
}

func (f *fixture) promise(key string) eventhook.Promise {
	f.Helper()
	p, created, err := f.db.CreatePromise(f.Context(), eventhook.Promise{TenantID: f.tenant, IdempotencyKey: key})
	f.must(err)
	if !created {
		f.Fatalf("promise %q exists already", key)
	}
	return p
}

// queryValue returns the value of a query with one row and column.
func queryValue[T any](f *fixture, sql string, args ...any) T {
	f.Helper()
	var v T
	f.must(f.db.work.QueryRow(f.Context(), sql, args...).Scan(&v))
	return v
}

// Conditions of sessions.
const (
	blockedSession = `wait_event_type = 'Lock'`                    // waits for a lock of another session
	busySession    = `state <> 'idle' AND pid <> pg_backend_pid()` // runs a statement or a transaction
)

// waitForBlocked waits until n sessions of the fixture's database wait for locks.
func (f *fixture) waitForBlocked(n int) {
	f.Helper()
	f.waitForSessions(blockedSession, func(got int) bool { return got >= n })
}

// waitForSessions waits until enough sessions of the fixture's database meet a condition.
func (f *fixture) waitForSessions(condition string, isEnough func(n int) bool) {
	f.Helper()
	count := f.sessionCounter(condition)
	for deadline := time.Now().Add(patient); ; {
		n := count()
		if isEnough(n) {
			return
		}
		if time.Now().After(deadline) {
			f.Fatalf("gave up waiting: there are %d sessions with %s", n, condition)
		}
	}
}

// sessionCounter returns a function that counts the sessions of the fixture's database that
// meet a condition; all tests share one server. Its connection is not from a pool: a new
// connection of a pool prepares statements, which may wait for the locks of a test.
func (f *fixture) sessionCounter(condition string) func() int {
	f.Helper()
	conn, err := pgx.Connect(f.Context(), f.dsn)
	f.must(err)
	f.Cleanup(func() { _ = conn.Close(context.Background()) })
	return func() (n int) {
		f.Helper()
		f.must(conn.QueryRow(f.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND backend_type = 'client backend' AND `+condition).Scan(&n))
		return n
	}
}

func (f *fixture) exec(sql string, args ...any) {
	f.Helper()
	_, err := f.db.work.Exec(f.Context(), sql, args...)
	f.must(err)
}

func (f *fixture) count(table, where string, args ...any) int {
	f.Helper()
	return queryValue[int](f, "SELECT count(*) FROM eventhook."+table+" WHERE "+where, args...)
}

// same fails the test if got and want differ. value names the compared value.
func same(t testing.TB, value string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", value, diff)
	}
}

func wantKind(t testing.TB, act string, err error, want eventhook.Kind) {
	t.Helper()
	if got := eventhook.KindOf(err); got != want {
		t.Errorf("%s: kind %q (%v), want %q", act, got, err, want)
	}
}

// concurrently runs functions concurrently and waits for them.
func concurrently(acts ...func()) {
	var all sync.WaitGroup
	start := make(chan struct{})
	for _, act := range acts {
		all.Go(func() {
			<-start
			act()
		})
	}
	close(start)
	all.Wait()
}

// invariants are queries for rows that violate docs/states.md.
var invariants = map[string]string{
	"one open delivery of each key is due": `SELECT FROM eventhook.delivery WHERE order_key IS NOT NULL AND due_at IS NOT NULL
		GROUP BY destination_id, order_key HAVING count(*) FILTER (WHERE due_at < 'infinity') <> 1`,
	"only ordered deliveries wait": `SELECT FROM eventhook.delivery WHERE due_at = 'infinity' AND (order_key IS NULL OR status NOT IN ('pending', 'failed'))`,
	"an event is due exactly if it is pending, processing or failed, unless it waits for deliveries of its routes": `SELECT id FROM eventhook.event e
		WHERE (due_at IS NOT NULL) <> (status IN ('pending', 'processing', 'failed')) AND NOT (status = 'processing' AND EXISTS (
			SELECT FROM eventhook.delivery d WHERE d.event_id = e.id AND d.route_id IS NOT NULL AND d.due_at IS NOT NULL)
			AND NOT EXISTS (SELECT FROM eventhook.delivery d WHERE d.event_id = e.id AND d.route_id IS NOT NULL AND d.status = 'dead'))`,
	"a delivery has a route and a target index, or neither": `SELECT id FROM eventhook.delivery
		WHERE (route_id IS NULL) <> (target_index IS NULL) OR has_body AND route_id IS NULL`,
	"exactly duplicates have an original": `SELECT id FROM eventhook.event
		WHERE (status = 'duplicate') <> (duplicate_of IS NOT NULL)`,
	"an original has the source of its duplicate, and is no duplicate of a duplicate": `SELECT d.id FROM eventhook.event d
		JOIN eventhook.event o ON o.id = d.duplicate_of LEFT JOIN eventhook.event p ON p.id = o.duplicate_of
		WHERE o.source_id <> d.source_id OR p.status = 'duplicate'`,
	"if no signed bytes are stored, an original has the key of its duplicate and is no duplicate": `SELECT d.id FROM eventhook.event d
		JOIN eventhook.event o ON o.id = d.duplicate_of
		WHERE (o.status = 'duplicate' OR o.idempotency_key <> d.idempotency_key)
			AND NOT EXISTS (SELECT FROM eventhook.idempotency_key k WHERE k.tenant_id = d.tenant_id AND k.scope = d.source_id::text || '/signed')`,
	"a processing event has a lease token": `SELECT id FROM eventhook.event WHERE status = 'processing' AND lease_token = 0`,
	"a delivered event has no open or failed action": `SELECT e.id FROM eventhook.event e CROSS JOIN json_array_elements(e.actions) a
		WHERE e.status = 'delivered' AND coalesce(a->>'s', 'success') NOT IN ('success', 'skipped', 'request')`,
	"a delivered event has no open or dead request": `SELECT e.id FROM eventhook.event e JOIN eventhook.delivery d ON d.event_id = e.id AND d.route_id IS NOT NULL
		WHERE e.status = 'delivered' AND d.status <> 'success' AND (d.status <> 'dead' OR d.completed_at >= coalesce(e.rerouted_at, '-infinity'))`,
	"each request has a delivery, and each delivery of a route a request": `SELECT coalesce(r.id, d.event_id)
		FROM (SELECT e.id, coalesce((a->>'i')::int, 0) AS target_index FROM eventhook.event e CROSS JOIN json_array_elements(e.actions) a WHERE a->>'s' = 'request') r
		FULL JOIN (SELECT event_id, target_index FROM eventhook.delivery WHERE route_id IS NOT NULL) d ON d.event_id = r.id AND d.target_index = r.target_index
		WHERE r.id IS NULL OR d.event_id IS NULL`,
	"an event that shares the payload of another event is of the same day": `SELECT e.id FROM eventhook.event e
		WHERE payload_of IS NOT NULL AND NOT EXISTS (SELECT FROM eventhook.event o WHERE o.id = e.payload_of AND ('x' || substr(replace(o.id::text, '-', ''), 1, 12))::bit(48)::int8 / 86400000
			= ('x' || substr(replace(e.id::text, '-', ''), 1, 12))::bit(48)::int8 / 86400000)`,
	"no row of event_action is written": `SELECT event_id FROM eventhook.event_action WHERE route_name <> 'former'`,
	"an action belongs to a settled, retried or reprocessed event": `SELECT e.id FROM eventhook.event e
		WHERE e.actions IS NOT NULL AND (e.status = 'duplicate' OR e.retry_count = 0 AND e.lease_token <= 1 AND e.due_at IS NOT NULL AND e.status = 'pending')`,
	"exactly failed actions have an error": `SELECT e.id FROM eventhook.event e CROSS JOIN json_array_elements(e.actions) a WHERE (a->>'s' IS NOT DISTINCT FROM 'failed') <> (a->>'e' IS NOT NULL)`,
	"a pending, running or failed execution is due, and an ended one is not": `SELECT id FROM eventhook.execution
		WHERE due_at IS NULL AND status IN ('pending', 'running', 'failed') OR due_at IS NOT NULL AND status IN ('completed', 'dead', 'cancelled')`,
	"exactly ended executions have completed_at": `SELECT id FROM eventhook.execution
		WHERE (completed_at IS NOT NULL) <> (status IN ('completed', 'dead', 'cancelled'))`,
	"no execution exceeds its max_attempts": `SELECT id FROM eventhook.execution WHERE attempt > max_attempts`,
	"a suspended workflow that is not due awaits a pending promise": `SELECT e.id FROM eventhook.execution e
		WHERE e.status = 'suspended' AND e.due_at IS NULL AND NOT EXISTS (SELECT FROM eventhook.execution_await w
		JOIN eventhook.promise p ON p.id = w.promise_id WHERE w.execution_id = e.id AND p.status = 'pending')`,
	"a delivery is due exactly if it is pending, acquired or failed": `SELECT id FROM eventhook.delivery
		WHERE (due_at IS NOT NULL) <> (status IN ('pending', 'acquired', 'failed'))`,
	"exactly ended deliveries have completed_at": `SELECT id FROM eventhook.delivery
		WHERE (completed_at IS NOT NULL) <> (status IN ('success', 'dead'))`,
	"an acquired delivery has a lease token": `SELECT id FROM eventhook.delivery WHERE status = 'acquired' AND lease_token = 0`,
	"a dead delivery has an error, and a successful one has none": `SELECT id FROM eventhook.delivery
		WHERE status = 'dead' AND last_error IS NULL OR status = 'success' AND last_error IS NOT NULL`,
	"the id of a delivery begins with the time of its event": `SELECT id FROM eventhook.delivery WHERE substr(id::text, 1, 18) <> substr(event_id::text, 1, 18) AND event_id <> tenant_id`,
	"no event has two deliveries to one destination":         `SELECT event_id FROM eventhook.delivery WHERE event_id <> tenant_id GROUP BY event_id, destination_id HAVING count(*) > 1`,
	"a promise has settled_at unless it is pending; only a pending one is due; a held one is not pending": `SELECT id FROM eventhook.promise
		WHERE (settled_at IS NULL) <> (status = 'pending') OR due_at IS NOT NULL AND status <> 'pending' OR is_held AND status = 'pending'`,
	"a key has one execution within a day": `SELECT key::text FROM (SELECT tenant_id, type, kind, idempotency_key AS key, created_at FROM eventhook.execution WHERE idempotency_key IS NOT NULL) x
		GROUP BY tenant_id, type, kind, key HAVING count(*) > 1 AND max(created_at) - min(created_at) < interval '24 hours'`,
	"a successful action has the id of its effect": `SELECT e.id FROM eventhook.event e CROSS JOIN json_array_elements(e.actions) a
		WHERE a->>'s' IS NULL AND a->>'t' IN ('workflow', 'task', 'promise', 'publish') AND a->>'m' IS NULL`,
}

// checkInvariants fails the test if rows violate an invariant.
func checkInvariants(t *testing.T, dsn string) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = conn.Close(ctx) }()
	checkSealed(ctx, t, conn)
	for claim, sql := range invariants {
		var n int
		if err := conn.QueryRow(ctx, "SELECT count(*) FROM ("+sql+") violations").Scan(&n); err != nil {
			t.Errorf("%s: %v", claim, err)
		}
		if n > 0 {
			t.Errorf("%s: %d rows violate this", claim, n)
		}
	}
}
