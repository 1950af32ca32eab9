package pg

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
)

var indexUsed = regexp.MustCompile(`using event_(?:\d+|default)_(\w+?)(?:\d*) on event`)

// listPlan returns the plan of a list: the generic one or, for a mixed list, the one for its
// values.
func (f *fixture) listPlan(l eventList) string {
	f.Helper()
	var lines []string
	tx, err := f.db.lists.Begin(f.Context())
	f.must(err)
	defer func() { _ = tx.Rollback(f.Context()) }()
	mode := "force_generic_plan"
	if l.isMixed {
		mode = "force_custom_plan"
	}
	_, err = tx.Exec(f.Context(), `SET LOCAL plan_cache_mode = `+mode)
	f.must(err)
	rows, err := tx.Query(f.Context(), `EXPLAIN `+l.sql(`e.id`), pgx.QueryExecModeCacheDescribe, l.args)
	f.must(err)
	lines, err = pgx.CollectRows(rows, pgx.RowTo[string])
	f.must(err)
	return strings.Join(lines, "\n")
}

// indexes returns the indexes on events that a plan reads, each once.
func indexes(plan string) []string {
	var names []string
	for _, m := range indexUsed.FindAllStringSubmatch(plan, -1) {
		names = append(names, m[1])
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Names that PostgreSQL gives to the partitions of the indexes.
const (
	primaryKey        = "pkey"
	eventSource       = "source_id_id_idx"
	eventTypeList     = "tenant_id_event_type_id_idx"
	eventStatus       = "tenant_id_status_id_idx"
	eventSourceStatus = "source_id_status_id_idx"
	eventDuplicate    = "tenant_id_idempotency_key_id_idx"
	eventDue          = "due_at_idx"
)

func TestEachFilterHasItsIndex(t *testing.T) {
	f := setUp(t)
	source := f.crm
	check := func(state string) {
		t.Helper()
		for _, c := range []struct {
			claim  string
			source eventhook.SourceID
			filter eventhook.EventFilter
			want   []string
		}{
			{"no filter", eventhook.SourceID{}, eventhook.EventFilter{}, []string{primaryKey}},
			{"a time", eventhook.SourceID{}, eventhook.EventFilter{ReceivedAfter: noon, ReceivedBefore: noon.Add(time.Hour)}, []string{primaryKey}},
			{"delivered", eventhook.SourceID{}, eventhook.EventFilter{Status: eventhook.EventDelivered}, []string{primaryKey}},
			{"failed", eventhook.SourceID{}, eventhook.EventFilter{Status: eventhook.EventFailed}, []string{eventStatus}},
			{"dead", eventhook.SourceID{}, eventhook.EventFilter{Status: eventhook.EventDead}, []string{eventStatus}},
			{"unrouted", eventhook.SourceID{}, eventhook.EventFilter{Status: eventhook.EventUnrouted}, []string{eventStatus}},
			{"duplicates", eventhook.SourceID{}, eventhook.EventFilter{Status: eventhook.EventDuplicate}, []string{eventStatus}},
			{"a type", eventhook.SourceID{}, eventhook.EventFilter{EventType: "push"}, []string{eventTypeList}},
			{"a source", source, eventhook.EventFilter{}, []string{eventSource}},
			{"a source and a time", source, eventhook.EventFilter{ReceivedAfter: noon}, []string{eventSource}},
			{"dead events of a source", source, eventhook.EventFilter{Status: eventhook.EventDead}, []string{eventSourceStatus}},
			{"a key", eventhook.SourceID{}, eventhook.EventFilter{IdempotencyKey: "k"}, []string{primaryKey, eventDuplicate}},
			{"all filters", source, eventhook.EventFilter{IdempotencyKey: "k", EventType: "push", Status: eventhook.EventDead}, []string{primaryKey, eventDuplicate}},
		} {
			plan := f.listPlan(newEventList(f.tenant, c.source, c.filter))
			if got := indexes(plan); !slices.Equal(got, c.want) || wholeTable.MatchString(plan) {
				t.Errorf("%s, %s: reads %v, want %v and no whole table:\n%s", state, c.claim, got, c.want, plan)
			}
			if c.filter.IdempotencyKey == "" && strings.Contains(plan, "Sort  (") {
				t.Errorf("%s, %s: sorts, so it reads all events before it returns the first:\n%s", state, c.claim, plan)
			}
			if c.filter.IdempotencyKey != "" && !strings.Contains(plan, "idempotency_key_pkey") {
				t.Errorf("%s, %s: finds the key without an index:\n%s", state, c.claim, plan)
			}
		}
	}
	f.inTableStates(check, `UPDATE eventhook.event SET source_id = gen_random_uuid(), event_type = id::text, status = CASE WHEN due_at IS NULL THEN 'delivered' ELSE status END`)
}

// TestCombinedFiltersUseTheMostSelectiveIndex checks the plans of combined filters after
// ANALYZE.
func TestCombinedFiltersUseTheMostSelectiveIndex(t *testing.T) {
	f := setUp(t)
	f.keep(Retention{})
	f.fillTables(5000, 10)
	quiet := eventhook.NewID[eventhook.Source](noon)
	f.exec(`UPDATE eventhook.event SET source_id = $1, event_type = 'common', status = CASE WHEN due_at IS NULL THEN 'delivered' ELSE status END`, [16]byte(f.crm))
	f.exec(`UPDATE eventhook.event SET source_id = $1 WHERE id IN (SELECT id FROM eventhook.event LIMIT 5)`, [16]byte(quiet))
	f.exec(`UPDATE eventhook.event SET event_type = 'rare' WHERE id IN (SELECT id FROM eventhook.event OFFSET 100 LIMIT 5)`)
	f.exec(`VACUUM ANALYZE eventhook.event`)
	for _, c := range []struct {
		claim  string
		source eventhook.SourceID
		filter eventhook.EventFilter
		want   string
	}{
		{"a common type of a quiet source", quiet, eventhook.EventFilter{EventType: "common"}, eventSource},
		{"delivered events of a quiet source", quiet, eventhook.EventFilter{Status: eventhook.EventDelivered}, eventSource},
		{"a rare type of a busy source", f.crm, eventhook.EventFilter{EventType: "rare"}, eventTypeList},
		{"delivered events of a rare type", eventhook.SourceID{}, eventhook.EventFilter{EventType: "rare", Status: eventhook.EventDelivered}, eventTypeList},
		{"dead events of a common type", eventhook.SourceID{}, eventhook.EventFilter{EventType: "common", Status: eventhook.EventDead}, eventStatus},
		{"pending", eventhook.SourceID{}, eventhook.EventFilter{Status: eventhook.EventPending}, eventDue},
		{"pending events of a busy source", f.crm, eventhook.EventFilter{Status: eventhook.EventPending}, eventDue},
	} {
		c.filter.Limit = 50
		plan := f.listPlan(newEventList(f.tenant, c.source, c.filter))
		if !slices.Contains(indexes(plan), c.want) || wholeTable.MatchString(plan) {
			t.Errorf("%s: reads %v, want %s and no whole table:\n%s", c.claim, indexes(plan), c.want, plan)
		}
	}
}

// TestListsReadNoOtherRows checks that a list reads only the rows that it returns.
func TestListsReadNoOtherRows(t *testing.T) {
	f := setUp(t)
	f.keep(Retention{})
	f.fillTables(5000, 0)
	f.exec(`UPDATE eventhook.event SET source_id = $1, event_type = 'common', status = 'delivered'`, [16]byte(f.crm))
	f.exec(`UPDATE eventhook.event SET source_id = $1, event_type = 'rare', status = 'dead' WHERE id IN (SELECT id FROM eventhook.event ORDER BY id LIMIT 3)`, [16]byte(f.shop))
	f.exec(`VACUUM ANALYZE eventhook.event`)
	var removed = regexp.MustCompile(`Rows Removed by Filter: (\d+)`)
	for claim, l := range map[string]eventList{
		"a rare type":         newEventList(f.tenant, eventhook.SourceID{}, eventhook.EventFilter{EventType: "rare", Limit: 50}),
		"a rare state":        newEventList(f.tenant, eventhook.SourceID{}, eventhook.EventFilter{Status: eventhook.EventDead, Limit: 50}),
		"a quiet source":      newEventList(f.tenant, f.shop, eventhook.EventFilter{Limit: 50}),
		"its dead":            newEventList(f.tenant, f.shop, eventhook.EventFilter{Status: eventhook.EventDead, Limit: 50}),
		"another's dead":      newEventList(f.tenant, f.crm, eventhook.EventFilter{Status: eventhook.EventDead, Limit: 50}),
		"an unknown key":      newEventList(f.tenant, eventhook.SourceID{}, eventhook.EventFilter{IdempotencyKey: "k", Limit: 50}),
		"another tenant's":    newEventList(eventhook.NewID[eventhook.Tenant](noon), eventhook.SourceID{}, eventhook.EventFilter{Limit: 50}),
		"a busy source's few": newEventList(f.tenant, f.crm, eventhook.EventFilter{Limit: 5}),
	} {
		_, err := f.db.lists.Exec(t.Context(), `SELECT 1`)
		f.must(err)
		rows, err := f.db.lists.Query(t.Context(), `EXPLAIN (ANALYZE, TIMING OFF) `+l.sql(`e.id`), pgx.QueryExecModeCacheDescribe, l.args)
		f.must(err)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		f.must(err)
		if plan := strings.Join(lines, "\n"); removed.MatchString(plan) {
			t.Errorf("%s: reads rows that it does not return:\n%s", claim, plan)
		}
	}
}

// TestListsAgreeWithTheData compares every combination of filters with the same selection
// in memory.
func TestListsAgreeWithTheData(t *testing.T) {
	f := setUp(t)
	f.keep(Retention{})
	var all []eventhook.Event
	for i := range 60 {
		e := f.event(f.withLease, func(e *eventhook.Event) {
			e.EventType = []string{"push", "pull"}[i/2%2]
			e.IdempotencyKey = []string{"", "a", "b", "c"}[i/4%4]
			if i%2 == 1 {
				e.SourceID = f.shop
			}
		})
		f.must(f.db.Accept(t.Context(), arrivals(e)))
		if e.Status == eventhook.EventProcessing && i%3 > 0 {
			f.settle(f.db, f.plan(e, [][]effects.PlannedAction{nil, {f.executionAction(eventhook.Task, "")}, {failedAction("down")}}[i%3]...))
		}
		all = append(all, f.storedEvent(e))
		f.clock.Advance(time.Hour)
	}
	slices.Reverse(all)
	slugs := map[string]eventhook.SourceID{"": {}, "crm": f.crm, "shop": f.shop}
	for slug, id := range slugs {
		for _, status := range []eventhook.EventStatus{"", eventhook.EventDelivered, eventhook.EventUnrouted, eventhook.EventFailed, eventhook.EventProcessing, eventhook.EventDuplicate, eventhook.EventDead} {
			for _, typ := range []string{"", "push", "pull"} {
				for _, key := range []string{"", "a", "none"} {
					for _, bound := range []time.Time{{}, noon.Add(30 * time.Hour)} {
						filter := eventhook.EventFilter{Source: slug, Status: status, EventType: typ, IdempotencyKey: key, ReceivedBefore: bound, Limit: 7}
						var want []eventhook.EventID
						for _, e := range all {
							if (slug == "" || e.SourceID == id) && (status == "" || e.Status == status) && (typ == "" || e.EventType == typ) &&
								(key == "" || e.IdempotencyKey == key) && (bound.IsZero() || e.ID.Time().Before(bound)) && len(want) < 7 {
								want = append(want, e.ID)
							}
						}
						var got []eventhook.EventID
						for _, e := range f.list(f.db, f.tenant, filter) {
							got = append(got, e.ID)
						}
						same(t, fmt.Sprintf("%+v", filter), got, want)
					}
				}
			}
		}
	}
}

func TestASourceOfAnotherTenantHasNoEvents(t *testing.T) {
	f := setUp(t)
	f.leasedEvents(3)
	umbrella := f.secondTenant()
	same(t, "another tenant's, by the source's id", len(f.list(f.db, umbrella, eventhook.EventFilter{SourceID: f.crm, Limit: 10})), 0)
	same(t, "its dead", len(f.list(f.db, umbrella, eventhook.EventFilter{SourceID: f.crm, Status: eventhook.EventDead, Limit: 10})), 0)
	same(t, "events of the tenant's own source", len(f.list(f.db, f.tenant, eventhook.EventFilter{SourceID: f.crm, Limit: 10})), 3)
	same(t, "by an id and another's slug", len(f.list(f.db, f.tenant, eventhook.EventFilter{SourceID: f.crm, Source: "shop", Limit: 10})), 0)
	same(t, "events with an unknown status", len(f.list(f.db, f.tenant, eventhook.EventFilter{Status: "lost", Limit: 10})), 0)
}

// TestAListResetsItsConnection: other lists use the connection with another plan mode.
func TestAListResetsItsConnection(t *testing.T) {
	f := setUp(t)
	db := f.open(func(o *Options) { o.ListConns = 1 })
	mode := func() (v string) {
		f.must(db.lists.QueryRow(t.Context(), `SHOW plan_cache_mode`).Scan(&v))
		return v
	}
	f.list(db, f.tenant, eventhook.EventFilter{Limit: 1})
	same(t, "after a list", mode(), "auto")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := db.Events(ended, f.tenant, eventhook.EventFilter{Limit: 1})
	if err == nil {
		t.Error("a list with an ended context: got no error, want one")
	}
	same(t, "after a cancelled list", mode(), "auto")
}

// TestOnlyListsUseTheListIndexes: statements that look up one event use its key, also in an
// empty partition, since the plan is kept while the partition fills.
func TestOnlyListsUseTheListIndexes(t *testing.T) {
	f := setUp(t)
	conn, err := f.db.work.Acquire(t.Context())
	f.must(err)
	defer conn.Release()
	check := func(state string) {
		for name, s := range frequentStatements {
			plan := explain(f, conn.Conn(), s.sql, s.parameters)
			for _, index := range indexes(plan) {
				if index != primaryKey && index != eventDue {
					t.Errorf("%s, %s: reads %s in\n%s", state, name, index, plan)
				}
			}
		}
	}
	check("no partition")
	f.must(f.db.MaintainPartitions(t.Context(), 2, Retention{}))
	check("no row")
	f.fillTables(2000, 10)
	f.exec(`ANALYZE`)
	check("an empty partition beside a full one")
}
