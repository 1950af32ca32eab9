package pg

import "testing"

// TestEventsWithoutASourceAreNotInTheIndexBySource counts index entries as
// ANALYZE does, which is exact for a table of this size.
func TestEventsWithoutASourceAreNotInTheIndexBySource(t *testing.T) {
	f := setUp(t)
	f.keep(Retention{})
	f.fillTables(10, 0)
	f.exec(`UPDATE eventhook.event SET source_id = NULL, origin = 'route'
		WHERE id IN (SELECT id FROM eventhook.event LIMIT 4)`)
	f.exec(`VACUUM ANALYZE eventhook.event`)
	entries := queryValue[int](f, `SELECT sum(c.reltuples)::int FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = 'eventhook.event_source'::regclass`)
	same(t, "entries of 6 events with a source and 4 without", entries, 6)
}

func TestExecutionsReserveNoSpaceForUpdates(t *testing.T) {
	f := setUp(t)
	options := queryValue[string](f, `SELECT reloptions::text FROM pg_class WHERE oid = 'eventhook.execution'::regclass`)
	same(t, "options", options, "{fillfactor=100}")
}
