package main

import (
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// likeSQL is a tenant as the bench's gateways have it.
const likeSQL = `
WITH t AS (INSERT INTO eventhook.tenant (id, slug, name) VALUES (gen_random_uuid(), 'bench', 'bench') RETURNING id),
s AS (INSERT INTO eventhook.source (id, tenant_id, slug, name, verifier, secrets_count, settings)
    SELECT gen_random_uuid(), id, 'github', 'github', 'sealed', 1, '{}' FROM t RETURNING id, tenant_id)
INSERT INTO eventhook.route (id, tenant_id, source_id, name, filter_event_types, targets) SELECT gen_random_uuid(), tenant_id, id, 'pushes', '{push}', '[]' FROM s`

func filled(t *testing.T, events, sources int) *filler {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), pgtest.New(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	if _, err := conn.Exec(t.Context(), likeSQL); err != nil {
		t.Fatal(err)
	}
	f, err := newFiller(t.Context(), conn, events, sources)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.all(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFillHoldsWhatItSays(t *testing.T) {
	t.Parallel()
	for _, size := range []struct{ events, sources int }{{1000, 10}, {5000, 70}} {
		f := filled(t, size.events, size.sources)
		for what, c := range map[string]struct {
			table string
			where string
			want  int
		}{
			"events":         {`events`, `true`, size.events},
			"of one source":  {`events`, `s.slug = 'source-000001'`, filledFew},
			"of its sources": {`events`, `s.slug LIKE 'source-%'`, size.events},
			"of one type":    {`events`, `e.event_type = '` + rareType + `'`, filledFew},
			"dead":           {`events`, `e.status = 'dead'`, filledDead},
			"failed":         {`events`, `e.status = 'failed' AND e.due_at > now()`, filledFew},
			"duplicates":     {`events`, `e.status = 'duplicate'`, filledFew},
			"duplicates whose original has their key and source": {`events`, `EXISTS (SELECT FROM eventhook.event o WHERE o.id = e.duplicate_of
				AND o.idempotency_key = e.idempotency_key AND o.source_id = e.source_id AND o.status <> 'duplicate')`, filledFew},
			"events that a key leads to": {`events`, `EXISTS (SELECT FROM eventhook.idempotency_key k WHERE k.tenant_id = e.tenant_id
				AND k.scope = e.source_id::text AND k.key = e.idempotency_key AND k.made = e.id)`, size.events - filledFew},
			"sources":                        {`eventhook.source`, `slug LIKE 'source-%' AND verifier = 'sealed'`, size.sources},
			"sources with a route":           {`eventhook.source s`, `EXISTS (SELECT FROM eventhook.route r WHERE r.source_id = s.id AND r.name = 'pushes')`, size.sources + 1},
			"routes":                         {`eventhook.route`, `true`, size.sources + filledRoutes},
			"rejections of the first source": {`eventhook.rejection x JOIN eventhook.source s ON s.id = x.source_id`, `s.slug = 'source-000001'`, filledRejections},
			"rejections":                     {`eventhook.rejection`, `true`, filledRejections + size.sources - 1},
			"tenants":                        {`eventhook.tenant`, `true`, size.sources + 1},
			"keys":                           {`eventhook.api_key`, `true`, size.sources},
			"event types":                    {`eventhook.event_type`, `true`, size.sources},
			"audit entries":                  {`eventhook.audit_log`, `true`, size.events},
			"audit entries of the tenant":    {`eventhook.audit_log a JOIN eventhook.tenant t ON t.id = a.tenant_id`, `t.slug = 'bench'`, size.events / 2},
			"rare audit entries":             {`eventhook.audit_log`, `action = '` + rareAction + `'`, filledFew},
			"executions":                     {`eventhook.execution`, `due_at IS NULL`, size.events},
			"promises":                       {`eventhook.promise`, `due_at IS NULL`, size.events},
		} {
			table := c.table
			if table == `events` {
				table = `eventhook.event e JOIN eventhook.source s ON s.id = e.source_id`
			}
			var got int
			if err := f.conn.QueryRow(t.Context(), `SELECT count(*) FROM `+table+` WHERE `+c.where).Scan(&got); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if got != c.want {
				t.Errorf("%d events, %d sources, %s: got %d, want %d", size.events, size.sources, what, got, c.want)
			}
		}
	}
}

func TestFillTellsWhenAnEventWasReceived(t *testing.T) {
	t.Parallel()
	f := filled(t, 1000, 2)
	for _, n := range []int{1, 100, 1000} {
		var key string
		err := f.conn.QueryRow(t.Context(), `SELECT idempotency_key FROM eventhook.event
			WHERE ('x' || substr(replace(id::text, '-', ''), 1, 12))::bit(48)::int8 = $1`, f.at(n).UnixMilli()).Scan(&key)
		if want := "key-" + strconv.Itoa(n); err != nil || key != want {
			t.Errorf("at(%d): got %q, %v; want %q", n, key, err, want)
		}
	}
}

func TestTooSmallAFillIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ events, sources int }{{999, 2}, {1000, 1}} {
		if _, err := newFiller(t.Context(), nil, c.events, c.sources); err == nil {
			t.Errorf("%d events over %d sources: got no error, want one", c.events, c.sources)
		}
	}
}
