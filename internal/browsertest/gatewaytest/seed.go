package gatewaytest

import (
	"context"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook/bench/seed"
)

// seededSources are the copies of the source Source to which seeded events belong.
const seededSources = 20

// SeedEvents inserts settled events of the last minutes, without payloads, and the sources
// source-000001 to source-000020, which received them; a few events are dead, failed or duplicates.
// At least 1000 are required. A million take under a minute.
func (n *Tenant) SeedEvents(events int) {
	n.t.Helper()
	conn := n.connect()
	db, err := seed.Open(n.t.Context(), conn, n.Slug, Source, events, seededSources)
	if err != nil {
		n.t.Fatal(err)
	}
	if err := db.Insert(n.t.Context(), seed.SourceCopies, seed.Events); err != nil {
		n.t.Fatal(err)
	}
	if err := seed.Vacuum(n.t.Context(), conn); err != nil {
		n.t.Fatal(err)
	}
}

// SeedDeliveries inserts succeeded deliveries to a subscription, one per event, with their events.
func (n *Tenant) SeedDeliveries(subscription string, deliveries int) {
	n.t.Helper()
	conn := n.connect()
	var tenant [16]byte
	err := conn.QueryRow(n.t.Context(), `SELECT id FROM eventhook.tenant WHERE slug = $1`, n.Slug).Scan(&tenant)
	if err != nil {
		n.t.Fatal(err)
	}
	err = seed.InsertDeliveries(n.t.Context(), conn, tenant, "github.push", []byte(`{"n":1}`),
		seed.Deliveries{Subscription: parseID(n.t, subscription), Events: deliveries, PerEvent: 1})
	if err != nil {
		n.t.Fatal(err)
	}
}

func (n *Tenant) connect() *pgx.Conn {
	n.t.Helper()
	conn, err := pgx.Connect(n.t.Context(), n.gateway.DSN)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func parseID(t testing.TB, id string) (raw [16]byte) {
	t.Helper()
	if n, err := hex.Decode(raw[:], []byte(strings.ReplaceAll(id, "-", ""))); err != nil || n != len(raw) {
		t.Fatalf("%q is not an id", id)
	}
	return raw
}

// SeedAll inserts events as SeedEvents does, as many executions, promises and audit entries, and the
// traffic of a day for the overview.
func (n *Tenant) SeedAll(events int) {
	n.t.Helper()
	conn := n.connect()
	db, err := seed.Open(n.t.Context(), conn, n.Slug, Source, events, seededSources)
	if err != nil {
		n.t.Fatal(err)
	}
	if err := db.InsertAll(n.t.Context()); err != nil {
		n.t.Fatal(err)
	}
	n.exec(conn, seedTrafficSQL)
}

// seedTrafficSQL inserts the counts of each minute and of each ten minutes of a day, for a
// tenant, its sources and its subscriptions.
const seedTrafficSQL = `
INSERT INTO eventhook.traffic (tenant_id, resource_id, at, span, slot, received, refused, duplicates, succeeded, failed, sent,
    failed_attempts, dead, latency)
SELECT t.id, r.id, date_bin(make_interval(secs => span), now(), 'epoch') - make_interval(secs => span * i), span, 1,
    600, 0, 1, 590, 5, 600, 3, 1, array_fill(20::int8, ARRAY[26])
FROM eventhook.tenant t CROSS JOIN LATERAL (
    SELECT t.id UNION ALL SELECT id FROM eventhook.source WHERE tenant_id = t.id
    UNION ALL SELECT id FROM eventhook.subscription WHERE tenant_id = t.id) r (id),
    unnest('{60,600}'::int[]) span, generate_series(0, 86400 / span) i
WHERE t.slug = $1
ON CONFLICT DO NOTHING`

// SeedDead makes the newest deliveries of the tenant dead, for one of 20 causes.
func (n *Tenant) SeedDead(deliveries int) {
	n.t.Helper()
	conn := n.connect()
	n.exec(conn, `
UPDATE eventhook.delivery SET status = 'dead', status_code = 500,
    last_error = 'the subscriber answered 500: cause ' || ascii(substr(id::text, 36)) % 20
WHERE id IN (
    SELECT d.id FROM eventhook.delivery d JOIN eventhook.tenant t ON t.id = d.tenant_id
    WHERE t.slug = $1 ORDER BY d.id DESC LIMIT $2)`, deliveries)
	if err := seed.Vacuum(n.t.Context(), conn); err != nil {
		n.t.Fatal(err)
	}
}

// exec runs a statement whose first parameter is the slug of the tenant.
func (n *Tenant) exec(conn *pgx.Conn, sql string, more ...any) {
	n.t.Helper()
	if _, err := conn.Exec(n.t.Context(), sql, append([]any{n.Slug}, more...)...); err != nil {
		n.t.Fatal(err)
	}
}
