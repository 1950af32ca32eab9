package seed

import (
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// tenantSQL inserts a tenant with a source and a route.
const tenantSQL = `
WITH t AS (INSERT INTO eventhook.tenant (id, slug, name) VALUES (gen_random_uuid(), 'bench', 'bench') RETURNING id),
s AS (INSERT INTO eventhook.source (id, tenant_id, slug, name, verifier, secrets_count, settings)
    SELECT gen_random_uuid(), id, 'github', 'github', 'sealed', 1, '{}' FROM t RETURNING id, tenant_id)
INSERT INTO eventhook.route (id, tenant_id, source_id, name, filter_event_types, targets) SELECT gen_random_uuid(), tenant_id, id, 'pushes', '{push}', '[]' FROM s`

func connect(t *testing.T) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), pgtest.New(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	return conn
}

func seeded(t *testing.T, events, sources int) *Database {
	t.Helper()
	conn := connect(t)
	if _, err := conn.Exec(t.Context(), tenantSQL); err != nil {
		t.Fatal(err)
	}
	d, err := Open(t.Context(), conn, "bench", "github", events, sources)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.InsertAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestInsertAllInsertsTheDocumentedNumbers(t *testing.T) {
	t.Parallel()
	for _, size := range []struct{ events, sources int }{{1000, 10}, {5000, 70}} {
		d := seeded(t, size.events, size.sources)
		for what, c := range map[string]struct {
			table string
			where string
			want  int
		}{
			"events":                   {`events`, `true`, size.events},
			"events of source 1":       {`events`, `s.slug = 'source-000001'`, Rare},
			"events of seeded sources": {`events`, `s.slug LIKE 'source-%'`, size.events},
			"events of the rare type":  {`events`, `e.event_type = '` + RareType + `'`, Rare},
			"dead events":              {`events`, `e.status = 'dead'`, DeadEvents},
			"failed events":            {`events`, `e.status = 'failed' AND e.due_at > now()`, Rare},
			"duplicates":               {`events`, `e.status = 'duplicate'`, Rare},
			"duplicates with the key and source of the original": {`events`, `EXISTS (SELECT FROM eventhook.event o WHERE o.id = e.duplicate_of
				AND o.idempotency_key = e.idempotency_key AND o.source_id = e.source_id AND o.status <> 'duplicate')`, Rare},
			"events with an idempotency key": {`events`, `EXISTS (SELECT FROM eventhook.idempotency_key k WHERE k.tenant_id = e.tenant_id
				AND k.scope = e.source_id::text AND k.key = e.idempotency_key AND k.made = e.id)`, size.events - Rare},
			"sources":                        {`eventhook.source`, `slug LIKE 'source-%' AND verifier = 'sealed'`, size.sources},
			"sources with a route":           {`eventhook.source s`, `EXISTS (SELECT FROM eventhook.route r WHERE r.source_id = s.id AND r.name = 'pushes')`, size.sources + 1},
			"routes":                         {`eventhook.route`, `true`, size.sources + FirstRoutes},
			"rejections of the first source": {`eventhook.rejection x JOIN eventhook.source s ON s.id = x.source_id`, `s.slug = 'source-000001'`, FirstRejections},
			"rejections":                     {`eventhook.rejection`, `true`, FirstRejections + size.sources - 1},
			"tenants":                        {`eventhook.tenant`, `slug <> '_operator'`, size.sources + 1},
			"keys":                           {`eventhook.api_key`, `true`, size.sources},
			"event types":                    {`eventhook.event_type`, `true`, size.sources},
			"audit entries":                  {`eventhook.audit_log`, `true`, size.events},
			"audit entries of the tenant":    {`eventhook.audit_log a JOIN eventhook.tenant t ON t.id = a.tenant_id`, `t.slug = 'bench'`, size.events / 2},
			"rare audit entries":             {`eventhook.audit_log`, `action = '` + RareAction + `'`, Rare},
			"executions":                     {`eventhook.execution`, `due_at IS NULL`, size.events},
			"promises":                       {`eventhook.promise`, `due_at IS NULL`, size.events},
		} {
			table := c.table
			if table == `events` {
				table = `eventhook.event e JOIN eventhook.source s ON s.id = e.source_id`
			}
			var got int
			if err := d.Conn.QueryRow(t.Context(), `SELECT count(*) FROM `+table+` WHERE `+c.where).Scan(&got); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if got != c.want {
				t.Errorf("%d events, %d sources, %s: got %d, want %d", size.events, size.sources, what, got, c.want)
			}
		}
	}
}

func TestReceivedAt(t *testing.T) {
	t.Parallel()
	d := seeded(t, 1000, 2)
	for _, n := range []int{1, 100, 1000} {
		var key string
		err := d.Conn.QueryRow(t.Context(), `SELECT idempotency_key FROM eventhook.event
			WHERE ('x' || substr(replace(id::text, '-', ''), 1, 12))::bit(48)::int8 = $1`, d.ReceivedAt(n).UnixMilli()).Scan(&key)
		if want := "key-" + strconv.Itoa(n); err != nil || key != want {
			t.Errorf("ReceivedAt(%d): got %q, %v; want %q", n, key, err, want)
		}
	}
}

func TestOpenRefusesTooFewRows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ events, sources int }{{999, 2}, {1000, 1}} {
		if _, err := Open(t.Context(), nil, "bench", "github", c.events, c.sources); err == nil {
			t.Errorf("%d events and %d sources: got no error, want one", c.events, c.sources)
		}
	}
}

func TestInsertDeliveries(t *testing.T) {
	t.Parallel()
	conn := connect(t)
	const settled, due, single = 20 * BacklogPerEvent, 30 * BacklogPerEvent, 500
	tenant, first, second := [16]byte{1}, [16]byte{2}, [16]byte{3}
	if _, err := conn.Exec(t.Context(), `INSERT INTO eventhook.tenant (id, slug, name) VALUES ($1, 'bench', 'bench')`, tenant); err != nil {
		t.Fatal(err)
	}
	for _, id := range [][16]byte{first, second} {
		if _, err := conn.Exec(t.Context(), `INSERT INTO eventhook.subscription (id, tenant_id, name, status, event_types, settings, secrets, created_at, updated_at)
			VALUES ($1, $2, 'bench', 'active', '{*}', '{}', '', now(), now())`, id, tenant); err != nil {
			t.Fatal(err)
		}
	}
	if err := InsertDeliveries(t.Context(), conn, tenant, "bench.created", []byte(`{}`),
		Deliveries{Subscription: second, Events: settled / BacklogPerEvent, PerEvent: BacklogPerEvent}, DueBacklog(second, due),
		Deliveries{Subscription: first, Events: single, PerEvent: 1, IsDue: true, At: time.Now().Add(-time.Hour)}); err != nil {
		t.Fatal(err)
	}
	const all = settled + due + single
	for claim, c := range map[string]struct {
		where string
		want  int
	}{
		"succeeded":            {`status = 'success' AND due_at IS NULL AND completed_at <= now() AND attempts = 1`, settled},
		"due":                  {`status = 'pending' AND due_at <= now()`, due + single},
		"due an hour ago":      {`due_at < now() - interval '59 minutes'`, single},
		"to the first":         {`destination_id = '02000000-0000-0000-0000-000000000000'`, single},
		"with event and body":  {`EXISTS (SELECT FROM eventhook.event e JOIN eventhook.event_payload p ON p.event_id = e.id WHERE e.id = d.event_id AND e.tenant_id = d.tenant_id AND e.due_at IS NULL AND length(p.body) = e.body_size AND p.envelope IS NOT NULL)`, all},
		"with the event's day": {`left(id::text, 18) = left(event_id::text, 18) AND substr(id::text, 20, 1) = '8'`, all},
	} {
		var got int
		if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM eventhook.delivery d WHERE `+c.where).Scan(&got); err != nil {
			t.Fatalf("deliveries %s: %v", claim, err)
		}
		if got != c.want {
			t.Errorf("deliveries %s: got %d, want %d", claim, got, c.want)
		}
	}
}
