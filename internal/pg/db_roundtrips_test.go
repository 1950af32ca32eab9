package pg

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/eventhook/eventhook"
)

// tripCounter counts round trips: one for a statement or a batch.
type tripCounter struct{ atomic.Int64 }

func (c *tripCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.Add(1)
	return ctx
}

func (c *tripCounter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (c *tripCounter) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	c.Add(1)
	return ctx
}

func (c *tripCounter) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (c *tripCounter) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// countTrips counts the round trips of the work pool.
func (f *fixture) countTrips() *tripCounter {
	f.Helper()
	trips := &tripCounter{}
	config := f.db.work.Config()
	config.ConnConfig.Tracer = trips
	counted, err := pgxpool.NewWithConfig(f.Context(), config)
	f.must(err)
	f.must(counted.Ping(f.Context()))
	f.db.work.Close()
	f.db.work = counted
	return trips
}

// Locks are not held for a round trip per route: a source may have a thousand routes.
func TestRoutesAreChangedInFewRoundTrips(t *testing.T) {
	const routes, most = 40, 15
	f := setUp(t)
	order := []eventhook.RoutePriority{{ID: f.route.ID, Priority: routes}}
	for n := range routes {
		r, err := f.db.CreateRoute(t.Context(), operator, f.tenant, "crm", newRoute(fmt.Sprint(n)))
		f.must(err)
		order = append(order, eventhook.RoutePriority{ID: r.ID, Priority: n + 1})
	}
	trips := f.countTrips()
	for _, c := range []struct {
		claim string
		act   func() error
	}{
		{"lock to reorder routes", func() error { return f.db.ReorderRoutes(t.Context(), operator, f.tenant, "crm", order) }},
		{"lock to delete routes with their source", func() error { return f.db.DeleteSource(t.Context(), operator, f.tenant, "crm", 0, true) }},
	} {
		before := trips.Load()
		f.must(c.act())
		if n := trips.Load() - before; n > most {
			t.Errorf("%s: %d round trips for %d routes, want at most %d", c.claim, n, len(order), most)
		}
	}
	same(t, "entries", f.counts(`SELECT action, count(*) FROM eventhook.audit_log WHERE action IN ('route.updated', 'route.deleted') GROUP BY 1`),
		map[string]int{"route.updated": len(order), "route.deleted": len(order)})
	same(t, "routes that are left", f.count("route", "source_id = $1", [16]byte(f.crm)), 0)
}
