package pg

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

// insertOpenWork inserts n executions (a tenth of them suspended workflows), promises,
// deliveries and events of acme that are open, and one of each that has ended.
func (f *fixture) insertOpenWork(n int) {
	f.Helper()
	id := [16]byte(f.tenant)
	f.exec(`INSERT INTO eventhook.execution (id, tenant_id, due_at, created_at, max_attempts, type, status, queue, kind)
		SELECT gen_random_uuid(), $1, CASE WHEN i % 10 > 0 THEN $3::timestamptz END, $3, 3, CASE WHEN i % 10 > 0 THEN 'task' ELSE 'workflow' END,
			(ARRAY['suspended','pending','failed','running'])[CASE WHEN i % 10 = 0 THEN 1 ELSE 2 + i % 3 END], 'ci', 'build' FROM generate_series(1, $2::int) i`, id, n, noon)
	f.exec(`INSERT INTO eventhook.execution (id, tenant_id, created_at, completed_at, max_attempts, type, status, queue, kind)
		VALUES (gen_random_uuid(), $1, $2, $2, 3, 'task', 'completed', 'ci', 'build')`, id, noon)
	f.exec(`INSERT INTO eventhook.promise (id, tenant_id, created_at, status, idempotency_key)
		SELECT gen_random_uuid(), $1, $3, 'pending', 'k' || i FROM generate_series(1, $2::int) i`, id, n, noon)
	f.exec(`INSERT INTO eventhook.promise (id, tenant_id, created_at, settled_at, status, idempotency_key, value)
		VALUES (gen_random_uuid(), $1, $2, $2, 'resolved', 'done', '1')`, id, noon)
	f.exec(`INSERT INTO eventhook.event (id, tenant_id, lease_token, source_id, due_at, status, origin)
		SELECT gen_random_uuid(), $1, 1, $4, CASE WHEN i % 2 > 0 THEN $3::timestamptz END, CASE WHEN i % 2 > 0 THEN 'failed' ELSE 'processing' END, 'source' FROM generate_series(1, $2::int) i`, id, n, noon, [16]byte(f.crm))
	f.exec(`INSERT INTO eventhook.event_payload (event_id, headers, body) SELECT id, '', 'secret' FROM eventhook.event WHERE tenant_id = $1 AND origin = 'source'`, id)
	f.exec(`INSERT INTO eventhook.delivery (id, tenant_id, destination_id, event_id, due_at, status, event_type)
		SELECT id, $1, gen_random_uuid(), id, $3, 'pending', 'a.b' FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, $2::int)) ids`, id, n, noon)
	f.exec(`INSERT INTO eventhook.delivery (id, tenant_id, destination_id, event_id, completed_at, status, event_type)
		SELECT id, $1, gen_random_uuid(), id, $2, 'success', 'a.b' FROM (SELECT gen_random_uuid() AS id) ids`, id, noon)
}

// cleanUp runs the background work of an instance until nothing is due.
func (f *fixture) cleanUp(db *DB) {
	f.Helper()
	for more := true; more; {
		var err error
		more, err = db.CleanUpTenants(f.Context())
		f.must(err)
	}
}

const openWorkSQL = `SELECT kind, count(*) FROM (
	SELECT 'executions' AS kind FROM eventhook.execution WHERE status NOT IN ('completed', 'dead', 'cancelled')
	UNION ALL SELECT 'promises' FROM eventhook.promise WHERE status = 'pending'
	UNION ALL SELECT 'deliveries' FROM eventhook.delivery WHERE due_at IS NOT NULL
	UNION ALL SELECT 'events' FROM eventhook.event WHERE due_at IS NOT NULL OR status = 'processing') open GROUP BY 1`

func TestClosingEndsOpenWorkInBatches(t *testing.T) {
	open := 2000
	if text := os.Getenv("BENCH_CLOSED"); text != "" { // make bench
		var err error
		if open, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	f := setUp(t)
	umbrella := f.secondTenant()
	f.insertOpenWork(open)
	f.exec(`INSERT INTO eventhook.execution (id, tenant_id, due_at, created_at, max_attempts, type, status, queue, kind)
		VALUES (gen_random_uuid(), $1, $2, $2, 3, 'task', 'pending', 'ci', 'build')`, [16]byte(umbrella), noon)
	_, err := f.db.CloseTenant(t.Context(), operator, "acme")
	f.must(err)
	f.clock.Advance(time.Second)

	for queue, age := range map[string]func() (time.Duration, error){
		"events":     func() (time.Duration, error) { return ageEvent(t, f.db) },
		"deliveries": func() (time.Duration, error) { return ageDelivery(t, f.db) },
	} {
		got, err := age()
		f.must(err)
		same(t, "age of "+queue+" of a closed tenant", got, time.Duration(0))
	}
	// One instance ends after three batches, as with kill -9. Another one continues when the
	// lease has ended.
	_, err = f.db.cleanUpTenant(t.Context(), 3)
	f.must(err)
	f.exec(`UPDATE eventhook.tenant_cleanup SET due_at = $1`, f.clock.Now().Add(cleanupLease)) // the first instance did not release it
	f.cleanUp(f.other)
	if left := f.counts(openWorkSQL); left["executions"] < open/2 {
		t.Fatalf("open work during the lease of another instance: %v, want most of it", left)
	}
	f.clock.Advance(cleanupLease)
	f.cleanUp(f.other)
	same(t, "open work", f.counts(openWorkSQL), map[string]int{"executions": 1}) // of umbrella

	c, err := f.db.TenantCleanup(t.Context(), f.tenant)
	f.must(err)
	same(t, "ended", c.Ended, map[string]int64{"events": int64(open), "executions": int64(open), "promises": int64(open), "deliveries": int64(open)})
	if c.CloseCompletedAt == nil || c.CorrelationID == "" {
		t.Errorf("got %+v, want a completed closing with a correlation id", c)
	}
	same(t, "ended executions in the audit log and events", queryValue[int](f, `SELECT sum(json_array_length(changes->0->'to'))::int FROM eventhook.audit_log a
		WHERE action IN ('task.cancelled_via_tenant_cascade', 'workflow.cancelled_via_tenant_cascade') AND correlation_id = $1
		AND EXISTS (SELECT FROM eventhook.event e WHERE e.event_type = a.action AND e.correlation_id = $1)`, c.CorrelationID), open)
	same(t, "reasons", f.counts(`SELECT last_error, count(*) FROM eventhook.delivery WHERE status = 'dead' GROUP BY 1`), map[string]int{"the tenant was closed": open})
	f.cleanUp(f.db)
	again, err := f.db.TenantCleanup(t.Context(), f.tenant)
	f.must(err)
	same(t, "after another run", again, c)
}

// A request that another instance accepted before the closing may write afterwards.
func TestClosingEndsWorkThatWasWrittenLate(t *testing.T) {
	f := setUp(t)
	_, err := f.db.CloseTenant(t.Context(), operator, "acme")
	f.must(err)
	f.cleanUp(f.db)
	f.insertOpenWork(10)
	f.cleanUp(f.db)
	same(t, "open executions before the second pass", f.counts(openWorkSQL)["executions"], 10)
	f.clock.Advance(lateWrites)
	f.cleanUp(f.db)
	same(t, "open work", f.counts(openWorkSQL), map[string]int{})
}

// A log of webhooks asks for them before it stores events.
func TestClosedTenants(t *testing.T) {
	f := setUp(t)
	asked := []eventhook.TenantID{f.tenant, eventhook.NewID[eventhook.Tenant](f.clock.Now())}
	want := func(claim string, want map[eventhook.TenantID]bool) {
		t.Helper()
		got, err := f.db.ClosedTenants(t.Context(), asked)
		f.must(err)
		same(t, claim, got, want)
	}
	want("an open one and one that does not exist", map[eventhook.TenantID]bool{})
	_, err := f.db.CloseTenant(t.Context(), operator, "acme")
	f.must(err)
	want("a closed one", map[eventhook.TenantID]bool{f.tenant: true})
	_, err = f.db.PurgeTenant(t.Context(), operator, "acme")
	f.must(err)
	f.cleanUp(f.db)
	f.clock.Advance(lateWrites)
	f.cleanUp(f.db)
	c, err := f.db.TenantCleanup(t.Context(), f.tenant)
	f.must(err)
	same(t, "the purge has ended", c.PurgeCompletedAt != nil, true)
	want("a purged one", map[eventhook.TenantID]bool{f.tenant: true})
}

func TestAPurgeDeletesWorkThatWasWrittenLate(t *testing.T) {
	f := setUp(t)
	_, err := f.db.CloseTenant(t.Context(), operator, "acme")
	f.must(err)
	f.cleanUp(f.db)
	_, err = f.db.PurgeTenant(t.Context(), operator, "acme")
	f.must(err)
	f.cleanUp(f.db)
	f.insertOpenWork(10)
	f.clock.Advance(lateWrites)
	f.cleanUp(f.db)
	same(t, "executions", f.count("execution", "tenant_id = $1", [16]byte(f.tenant)), 0)
	c, err := f.db.TenantCleanup(t.Context(), f.tenant)
	f.must(err)
	same(t, "the purge has ended", c.PurgeCompletedAt != nil, true)
}

func TestPurgeDeletesTheDataOfAClosedTenant(t *testing.T) {
	const open = 2000
	f := setUp(t)
	umbrella := f.secondTenant()
	f.insertOpenWork(open)
	f.subscription()
	f.exec(`INSERT INTO eventhook.tenant_usage (tenant_id, day, slot, events, bytes) VALUES ($1, $2, 0, 1, 1)`, [16]byte(f.tenant), noon)
	f.exec(`INSERT INTO eventhook.idempotency_key (tenant_id, scope, key, made, expires_at) VALUES ($1, 's', 'k', gen_random_uuid(), $2)`, [16]byte(f.tenant), noon)
	_, err := f.db.PurgeTenant(t.Context(), operator, "acme")
	wantKind(t, "of an active tenant", err, eventhook.KindConflict)
	_, err = f.db.PurgeTenant(t.Context(), operator, "unknown")
	wantKind(t, "of an unknown tenant", err, eventhook.KindNotFound)
	_, err = f.db.CloseTenant(t.Context(), operator, "acme")
	f.must(err)
	for range 2 { // the second request has no effect
		_, err = f.db.PurgeTenant(t.Context(), operator, "acme")
		f.must(err)
	}
	f.clock.Advance(lateWrites)
	_, err = f.db.cleanUpTenant(t.Context(), 18) // ends in the middle of the deletion
	f.must(err)
	f.clock.Advance(cleanupLease)
	f.cleanUp(f.other)

	c, err := f.db.TenantCleanup(t.Context(), f.tenant)
	f.must(err)
	if c.PurgeCompletedAt == nil || c.Deleted["execution"] != open+1 || c.Deleted["delivery"] != open+1 {
		t.Errorf("got %+v, want a completed purge", c)
	}
	// Every table with tenants, also of later migrations.
	tables := queryValue[[]string](f, `SELECT array_agg(c.table_name::text ORDER BY 1) FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name)
		WHERE c.table_schema = 'eventhook' AND c.column_name = 'tenant_id' AND t.table_type = 'BASE TABLE'`)
	if len(tables) < 10 {
		t.Fatalf("got the tables %q, want all", tables)
	}
	left := map[string]bool{"tenant_cleanup": true, "tenant_generation": true, "audit_log": true, "event": true, "event_default": true}
	for _, table := range tables {
		if n := queryValue[int](f, `SELECT count(*) FROM eventhook.`+table+` WHERE tenant_id = $1`, [16]byte(f.tenant)); n > 0 && !left[table] {
			t.Errorf("%s has %d rows of the tenant, want 0: add it to purgeSteps", table, n)
		}
	}
	same(t, "bodies of senders", queryValue[int](f, `SELECT count(*) FROM eventhook.event_payload WHERE body = 'secret'`), 0)
	same(t, "events that are left", queryValue[int](f, `SELECT count(*) FROM eventhook.event WHERE tenant_id = $1 AND origin <> 'system'`, [16]byte(f.tenant)), 0)
	actions := f.counts(`SELECT action, count(*) FROM eventhook.audit_log WHERE tenant_id = $1 GROUP BY 1`, [16]byte(f.tenant))
	same(t, "audit entries", actions, map[string]int{"tenant.created": 1, "tenant.closed": 1, "tenant.purge_requested": 1, "tenant.purged": 1})
	_, err = f.db.CreateTenant(t.Context(), operator, eventhook.Tenant{Slug: "acme", Name: "Acme"})
	wantKind(t, "the slug", err, eventhook.KindConflict)
	same(t, "sources of another tenant", queryValue[int](f, `SELECT count(*) FROM eventhook.tenant WHERE id = $1 AND status = 'active'`, [16]byte(umbrella)), 1)
}
