package pg

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

var pagesHit = regexp.MustCompile(`Buffers: shared hit=(\d+)(?: read=(\d+))?`)

// pages returns the number of pages that a list reads with a generic plan.
func (f *fixture) pages(l eventList) (n int, plan string) {
	f.Helper()
	tx, err := f.db.lists.Begin(f.Context())
	f.must(err)
	defer func() { _ = tx.Rollback(f.Context()) }()
	_, err = tx.Exec(f.Context(), `SET LOCAL plan_cache_mode = force_generic_plan`)
	f.must(err)
	rows, err := tx.Query(f.Context(), `EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) `+l.sql(`e.id`), pgx.QueryExecModeCacheDescribe, l.args)
	f.must(err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	f.must(err)
	plan = strings.Join(lines, "\n")
	for _, digits := range pagesHit.FindStringSubmatch(plan)[1:] { // the first line has the total
		more, _ := strconv.Atoi(digits)
		n += more
	}
	return n, plan
}

// TestListsReadWithinTheirBounds lists few events next to many that an index has on the
// other side of a bound: of the id, the type or the status.
func TestListsReadWithinTheirBounds(t *testing.T) {
	f := setUp(t)
	f.keep(Retention{})
	f.fillTables(20_000, 0)
	f.exec(`UPDATE eventhook.event SET source_id = $1, event_type = 'common', status = 'dead'`, [16]byte(f.crm))
	f.exec(`UPDATE eventhook.event SET event_type = 'rare', status = 'unrouted' WHERE id IN (SELECT id FROM eventhook.event ORDER BY id LIMIT 3)`)
	f.exec(`VACUUM ANALYZE eventhook.event`)
	later := f.clock.Now().Add(time.Hour)
	none := eventhook.SourceID{}
	for claim, c := range map[string]struct {
		source eventhook.SourceID
		filter eventhook.EventFilter
	}{
		"all after the last":             {none, eventhook.EventFilter{ReceivedAfter: later}},
		"delivered after the last":       {none, eventhook.EventFilter{ReceivedAfter: later, Status: eventhook.EventDelivered}},
		"a source's after the last":      {f.crm, eventhook.EventFilter{ReceivedAfter: later}},
		"a type's after the last":        {none, eventhook.EventFilter{ReceivedAfter: later, EventType: "common"}},
		"a state's after the last":       {none, eventhook.EventFilter{ReceivedAfter: later, Status: eventhook.EventDead}},
		"a source's dead after the last": {f.crm, eventhook.EventFilter{ReceivedAfter: later, Status: eventhook.EventDead}},
		"a rare type behind another":     {none, eventhook.EventFilter{EventType: "rare"}},
		"no type behind another":         {none, eventhook.EventFilter{EventType: "none"}},
		"a rare state behind another":    {none, eventhook.EventFilter{Status: eventhook.EventUnrouted}},
		"a source's rare state":          {f.crm, eventhook.EventFilter{Status: eventhook.EventUnrouted}},
		"a page from the middle":         {none, eventhook.EventFilter{ReceivedBefore: noon.Add(time.Millisecond)}},
	} {
		c.filter.Limit = 10
		const most = 60 // including the root of each partition's index; an index has more leaves
		if got, plan := f.pages(newEventList(f.tenant, c.source, c.filter)); got > most {
			t.Errorf("%s: reads %d pages, want at most %d:\n%s", claim, got, most, plan)
		}
	}
}
