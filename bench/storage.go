package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/eventhook/eventhook/bench/measure"
)

const (
	// storedTargets are the targets for each event: a task, and a published event with one
	// delivery.
	storedTargets = `{type: task, task_kind: build}, ` + publishRoute
	// With storedEvents, the fixed costs of a table do not count.
	storedEvents = 100_000
	// maxStored limits the bytes in the database per event.
	maxStored = 2500.0
)

// storedBody is the body of each event: 650 bytes of JSON. A third of them are hashes
// and numbers, which do not compress, as in the webhooks of providers.
var storedBody = []byte(`{"ref":"refs/heads/main","before":"86ad05dc987f806230a13ca07796da768f640748",` +
	`"after":"d1a3f6aaba40044b98753a43c64be5ba0b03ca37",` +
	`"repository":{"id":843184120,"node_id":"R_084a2cbdb184","name":"shop","full_name":"acme/shop","private":false},` +
	`"pusher":{"name":"dev-559","email":"dev-891@example.com"},"sender":{"login":"dev-823","id":82846914,"type":"User"},` +
	`"head_commit":{"id":"39aacaef9c58891c0c3bddddf34bf0c81fdf82ed","message":"change the shop",` +
	`"timestamp":"2026-03-10T12:00:20+00:00","added":["a/720698.go"],"removed":[],"modified":["main.go","shop/cart_87719.go"]},` +
	`"compare":"https://example.com/acme/shop/compare/a0bca481c7db...dc0578b227d6","note":""}`)

// tableSize is the size of a table and of its indexes in bytes, with all partitions.
type tableSize struct {
	name          string
	rows, indexes float64
}

// storage measures the growth of the database per event.
func (r *run) storage(ctx context.Context) error {
	r.print("storage: %d events or more, bodies of %d bytes, each with a task and a published event with one delivery\n",
		storedEvents, len(storedBody))
	to, err := startSink(ctx)
	if err != nil {
		return err
	}
	defer to.stop()
	p, err := r.publisherOf(ctx, "storage", storedTargets)
	if err != nil {
		return err
	}
	defer p.stop()
	subscriber := subscription{Name: "routed", URL: to.url("0ms", "routed"), EventTypes: []string{eventRouted}, MaxInFlight: r.connections}
	if _, err := p.createSubscription(ctx, subscriber); err != nil {
		return err
	}
	before, err := p.stats.tables(ctx)
	if err != nil {
		return err
	}
	events, err := p.storeEvents(ctx, r, to)
	if err != nil {
		return err
	}
	after, err := p.stats.tables(ctx)
	if err != nil {
		return err
	}
	r.reportStored(before, after, float64(events))
	return nil
}

// storeEvents sends until there are enough events and all of them are settled. It
// vacuums between rounds, so that new rows use the space of old versions. Autovacuum
// does the same in large tables, at 5 % dead rows.
func (p *publisher) storeEvents(ctx context.Context, r *run, to *sinkProcess) (events int, err error) {
	hooks := p.to
	hooks.body = storedBody
	for events < storedEvents {
		m, err := p.measureDeliveries(ctx, r, to, hooks, 1, r.length)
		if err != nil {
			return events, err
		}
		events += m.ok
		if _, err := p.stats.conn.Exec(ctx, `VACUUM`); err != nil {
			return events, err
		}
	}
	return events, nil
}

// tables returns the sizes of the gateway's tables.
func (s *stats) tables(ctx context.Context) (list []tableSize, err error) {
	rows, err := s.conn.Query(ctx, `SELECT coalesce(p.relname, c.relname),
			sum(pg_table_size(c.oid))::float8, sum(pg_indexes_size(c.oid))::float8
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		LEFT JOIN pg_inherits i ON i.inhrelid = c.oid LEFT JOIN pg_class p ON p.oid = i.inhparent
		WHERE n.nspname = 'eventhook' AND c.relkind = 'r' GROUP BY 1 ORDER BY 1`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var t tableSize
		if err := rows.Scan(&t.name, &t.rows, &t.indexes); err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	return list, rows.Err()
}

// reportStored prints the growth of each table per event.
func (r *run) reportStored(before, after []tableSize, events float64) {
	r.print("\n%-38s %10s %10s %10s\n", "bytes per event", "rows", "indexes", "both")
	var sum tableSize
	for _, t := range after {
		if i := slices.IndexFunc(before, func(b tableSize) bool { return b.name == t.name }); i >= 0 {
			t.rows, t.indexes = t.rows-before[i].rows, t.indexes-before[i].indexes
		}
		sum.rows, sum.indexes = sum.rows+t.rows, sum.indexes+t.indexes
		if t.rows+t.indexes >= events { // at least one byte per event
			r.print("%-38s %10.0f %10.0f %10.0f\n", t.name, t.rows/events, t.indexes/events, (t.rows+t.indexes)/events)
		}
	}
	all := (sum.rows + sum.indexes) / events
	head := fmt.Sprintf("all, of %.0f events", events)
	r.print("%-38s %10.0f %10.0f %10.0f\n", head, sum.rows/events, sum.indexes/events, all)
	r.addRatios(measure.AtMost("database bytes per event", all, maxStored))
}
