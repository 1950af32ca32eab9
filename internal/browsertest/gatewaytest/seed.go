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
