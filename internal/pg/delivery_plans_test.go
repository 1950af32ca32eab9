package pg

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

var deliveryIndexUsed = regexp.MustCompile(`using delivery_(?:\d+|default)_(\w+?_idx|pkey)\d* on delivery`)

// deliveryIndexes returns the indexes of deliveries that a plan reads, each once.
func deliveryIndexes(plan string) []string {
	var names []string
	for _, m := range deliveryIndexUsed.FindAllStringSubmatch(plan, -1) {
		name := m[1]
		if strings.HasPrefix(name, deliveryHeld) { // PostgreSQL shortens it, depending on the partition
			name = deliveryHeld
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// sortsDeliveries matches an unordered read of deliveries.
var sortsDeliveries = regexp.MustCompile(`Bitmap Heap Scan on delivery`)

// readsAllDeliveries matches a scan of a primary key that begins at no key. The planner does not begin
// at a key in an empty partition, whose index costs 0.12 to open.
var readsAllDeliveries = regexp.MustCompile(`using delivery_\S+_pkey\d* on delivery\S*.*\(cost=(?:0\.1[^2]|0\.[^1]|[1-9]).*\n\s+(?:Filter|->|$)`)

// Names that PostgreSQL gives to the partitions of the indexes.
const (
	deliveryDue               = "destination_id_due_at_idx"
	deliveryDestination       = "destination_id_id_idx"
	deliveryStatus            = "tenant_id_status_id_idx"
	deliveryDestinationStatus = "destination_id_status_id_idx"
	deliveryOrder             = "destination_id_order_key_due_at_order_seq_idx"
	deliveryReleased          = "released_by_status_idx"
	deliveryHeld              = "tenant_id_destination_id_due_at_acquired" // its beginning
)

// TestDeliveryStatementsUseTheirIndexes checks the index of each statement, also in an empty
// partition, since a plan is kept while the partition fills.
func TestDeliveryStatementsUseTheirIndexes(t *testing.T) {
	f := setUp(t)
	conn, err := f.db.work.Acquire(t.Context())
	f.must(err)
	defer conn.Release()
	want := map[string][]string{
		"advance order": {deliveryOrder, primaryKey}, "insert ordered": {deliveryOrder}, "lock all order": {deliveryOrder}, "lock order of": {primaryKey},
		"lock events of": {primaryKey}, "lock exact": {primaryKey}, "precede order": {primaryKey}, "delivery queue": {deliveryDue},
		"due destinations": {deliveryDue}, "claim deliveries": {deliveryDue, primaryKey}, "claim retries": {deliveryDestinationStatus, primaryKey}, "abandon": {deliveryDue, primaryKey},
		"expire deliveries": {deliveryDue, primaryKey}, "expire held": {deliveryDue, primaryKey}, "subscriber stats": {deliveryDue}, "settle deliveries": {primaryKey}, "renew stale": {primaryKey}, "missed deliveries": {deliveryDue, deliveryDestinationStatus}, "claim missed": {deliveryDue, deliveryDestinationStatus, primaryKey}, "reject missed": {primaryKey},
		"release sends": {primaryKey}, "conclude events": {primaryKey}, "restart": {primaryKey}, "count deliveries": {primaryKey}, "deliveries of an event": {primaryKey}, "read requests": {primaryKey},
		"open of replay": {deliveryReleased}, "count replay": {deliveryReleased}, "replay undelivered": {deliveryDestinationStatus}, "replay delivered": {deliveryDestination},
		"deliveries of a tenant": {deliveryDue}, "failing subscriptions": {deliveryDue, deliveryDestinationStatus}, "offline agents": {deliveryHeld},
		"dead deliveries":  {"tenant_id_status_id_idx"},
		"deliveries by id": {primaryKey}, "delivery states": {primaryKey},
		"due for agents": {deliveryDue, deliveryHeld}, "claim for agent": {deliveryDue, primaryKey, deliveryHeld}, "held deliveries": {primaryKey},
		"probe by agent": {deliveryDue, deliveryDestinationStatus, primaryKey, deliveryHeld}, "expired for agents": {deliveryDue, primaryKey},
	}
	check := func(state string) {
		t.Helper()
		for name, s := range frequentStatements {
			plan := explain(f, conn.Conn(), s.sql, s.parameters)
			isPruned := strings.Contains(plan, "Subplans Removed") // as no id is between NULLs
			if got := deliveryIndexes(plan); !slices.Equal(got, want[name]) && !isPruned {
				t.Errorf("%s, %s: reads %v, want %v:\n%s", state, name, got, want[name], plan)
			}
			if sortsDeliveries.MatchString(plan) || name == "due destinations" && sorts.MatchString(plan) {
				t.Errorf("%s, %s sorts:\n%s", state, name, plan)
			}
			if readsAllDeliveries.MatchString(plan) {
				t.Errorf("%s, %s reads all deliveries:\n%s", state, name, plan)
			}
		}
	}
	check("no partition")
	f.must(f.db.MaintainPartitions(t.Context(), 2, Retention{}))
	check("no row")
	f.fillTables(2000, 0)
	f.exec(`ANALYZE`)
	check("nothing due")
	f.fillTables(0, 20_000)
	check("grown since")
	f.exec(`ANALYZE`)
	check("nearly all due")
}

// Retention looks for replayed deliveries in a partition under the lock of its table.
func TestRetentionReadsOnlyReplayedDeliveriesOfAPartition(t *testing.T) {
	f := setUp(t)
	conn, err := f.db.work.Acquire(t.Context())
	f.must(err)
	defer conn.Release()
	i := slices.IndexFunc(partitioned, func(p partitionedTable) bool { return p.released != "" })
	sql, args := partitioned[i].keeps(noon.Truncate(day), noon)
	check := func(state string) {
		t.Helper()
		if plan := explain(f, conn.Conn(), sql, len(args)); !strings.Contains(plan, "delivery_20260310_"+deliveryReleased) || wholeTable.MatchString(plan) {
			t.Errorf("%s: does not read the index of replayed deliveries:\n%s", state, plan)
		}
	}
	f.must(f.db.MaintainPartitions(t.Context(), 2, Retention{}))
	check("no row")
	f.fillTables(2000, 10)
	check("before the first ANALYZE")
	f.exec(`ANALYZE`)
	check("no replayed delivery")
}

func (f *fixture) deliveryListPlan(filter eventhook.DeliveryFilter, analyze bool) string {
	f.Helper()
	tx, err := f.db.lists.Begin(f.Context())
	f.must(err)
	defer func() { _ = tx.Rollback(f.Context()) }()
	_, err = tx.Exec(f.Context(), `SET LOCAL plan_cache_mode = force_generic_plan`)
	f.must(err)
	explain := `EXPLAIN `
	if analyze {
		explain = `EXPLAIN (ANALYZE, TIMING OFF) `
	}
	from, before := deliveryBounds(filter)
	rows, err := tx.Query(f.Context(), explain+deliveryList(filter), pgx.QueryExecModeCacheDescribe, deliveryListArgs(f.tenant, filter, from, before))
	f.must(err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	f.must(err)
	return strings.Join(lines, "\n")
}

func TestEachDeliveryFilterHasItsIndex(t *testing.T) {
	f := setUp(t)
	s, r := eventhook.SubscriptionID(f.tenant), eventhook.NewID[eventhook.Route](noon)
	check := func(state string) {
		t.Helper()
		for _, c := range []struct {
			claim  string
			filter eventhook.DeliveryFilter
			want   []string
		}{
			{"all", eventhook.DeliveryFilter{}, []string{primaryKey}},
			{"a time", eventhook.DeliveryFilter{CreatedAfter: noon}, []string{primaryKey}},
			{"an event", eventhook.DeliveryFilter{EventID: eventhook.NewID[eventhook.Event](noon)}, []string{primaryKey}},
			{"an event's dead of a subscription", eventhook.DeliveryFilter{EventID: eventhook.NewID[eventhook.Event](noon), SubscriptionID: s, Status: "dead"}, []string{primaryKey}},
			{"a subscription", eventhook.DeliveryFilter{SubscriptionID: s}, []string{deliveryDestination}},
			{"its delivered", eventhook.DeliveryFilter{SubscriptionID: s, Status: "success"}, []string{deliveryDestination}},
			{"its dead", eventhook.DeliveryFilter{SubscriptionID: s, Status: "dead"}, []string{deliveryDestinationStatus}},
			{"its failed", eventhook.DeliveryFilter{SubscriptionID: s, Status: "failed"}, []string{deliveryDestinationStatus}},
			{"its pending", eventhook.DeliveryFilter{SubscriptionID: s, Status: "pending"}, []string{deliveryDue, deliveryDestination, primaryKey}},
			{"a route", eventhook.DeliveryFilter{RouteID: r}, []string{deliveryDestination, primaryKey}},
			{"a route's dead", eventhook.DeliveryFilter{RouteID: r, Status: "dead"}, []string{deliveryDestinationStatus, primaryKey}},
			{"a route's pending", eventhook.DeliveryFilter{RouteID: r, Status: "pending"}, []string{deliveryDue, primaryKey}},
			{"an event's of a route", eventhook.DeliveryFilter{EventID: eventhook.NewID[eventhook.Event](noon), RouteID: r}, []string{primaryKey}},
			{"delivered", eventhook.DeliveryFilter{Status: "success"}, []string{primaryKey}},
			{"dead", eventhook.DeliveryFilter{Status: "dead"}, []string{deliveryStatus}},
			{"failed", eventhook.DeliveryFilter{Status: "failed"}, []string{deliveryStatus}},
			{"pending", eventhook.DeliveryFilter{Status: "pending"}, []string{deliveryDue, primaryKey}},
			{"acquired", eventhook.DeliveryFilter{Status: "acquired"}, []string{deliveryDue, primaryKey}},
		} {
			c.filter.Limit = 50
			plan := f.deliveryListPlan(c.filter, false)
			if got := deliveryIndexes(plan); !slices.Equal(got, c.want) || wholeTable.MatchString(plan) {
				t.Errorf("%s, %s: reads %v, want %v and no whole table:\n%s", state, c.claim, got, c.want, plan)
			}
			isOpen := c.filter.Status == eventhook.DeliveryPending || c.filter.Status == eventhook.DeliveryAcquired
			merges := !c.filter.RouteID.IsZero() && c.filter.EventID.IsZero() // the first of each of its targets
			if !isOpen && !merges && strings.Contains(plan, "Sort  (") {
				t.Errorf("%s, %s: sorts, so that it reads all rows before it returns the first:\n%s", state, c.claim, plan)
			}
		}
	}
	f.inTableStates(check, `UPDATE eventhook.delivery SET destination_id = gen_random_uuid(), status = CASE WHEN due_at IS NULL THEN 'dead' ELSE status END, last_error = CASE WHEN due_at IS NULL THEN 'x' END`)
}

// deliveriesTouched returns how many rows of deliveries a connection has read or written
// recently. Only differences are meaningful.
func (f *fixture) deliveriesTouched(tx pgx.Tx) (n int64) {
	f.Helper()
	f.must(tx.QueryRow(f.Context(), `SELECT coalesce(sum(seq_tup_read + idx_tup_fetch + n_tup_ins + n_tup_upd + n_tup_del), 0)::int8
		FROM pg_stat_xact_all_tables WHERE relname LIKE 'delivery%'`).Scan(&n))
	return n
}

// A subscription with a large backlog is paused, changed and deleted without reading its
// deliveries.
func TestAPausedBacklogIsNotRead(t *testing.T) {
	f := setUp(t)
	f.keep(Retention{})
	s := f.insertSubscription()
	f.insertDueDeliveries(s, 50_000)
	f.exec(`ANALYZE`)
	touched := func(act, sql string) {
		t.Helper()
		tx, err := f.db.work.Begin(t.Context())
		f.must(err)
		before := f.deliveriesTouched(tx)
		_, err = tx.Exec(t.Context(), sql, [16]byte(s.ID))
		f.must(err)
		same(t, act+": rows of deliveries that it reads or writes", f.deliveriesTouched(tx)-before, int64(0))
		f.must(tx.Commit(t.Context()))
	}
	touched("pausing", `UPDATE eventhook.subscription SET status = 'paused' WHERE id = $1`)
	destinations, err := f.db.DueDestinations(t.Context(), eventhook.DestinationID{}, 10)
	f.must(err)
	same(t, "due destinations", len(destinations), 1)
	touched("deleting", `DELETE FROM eventhook.subscription WHERE id = $1`)
	n, err := f.db.AbandonDeliveries(t.Context(), eventhook.Destination{TenantID: s.TenantID, SubscriptionID: s.ID}, "deleted", 100)
	f.must(err)
	same(t, "abandoned", n, 100)
}

// TestAClaimReadsFewRowsOfABacklog counts the rows that claiming and listing due destinations
// read beside a large backlog and many ended deliveries.
func TestAClaimReadsFewRowsOfABacklog(t *testing.T) {
	const limit = 100 // rows read or written, of 40 000
	f := setUp(t)
	f.keep(Retention{})
	f.fillTables(20_000, 0)
	s, dead := f.insertSubscription(), f.insertSubscription()
	f.insertDueDeliveries(dead, 20_000)
	f.insertDueDeliveries(s, 5)
	f.exec(`VACUUM ANALYZE eventhook.delivery`)
	for act, do := range map[string]func(tx pgx.Tx) error{
		"listing due destinations": func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), dueDestinationsSQL, f.clock.Now(), [16]byte{}, 100)
			return err
		},
		"a claim": func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), claimDeliveriesSQL, [][16]byte{s.ID, dead.ID}, []int32{10, 10}, []time.Duration{lease, lease}, f.clock.Now(), maxClaimBytes, [16]byte(f.db.instance))
			return err
		},
	} {
		tx, err := f.db.work.Begin(t.Context())
		f.must(err)
		before := f.deliveriesTouched(tx)
		f.must(do(tx))
		if n := f.deliveriesTouched(tx) - before; n == 0 || n > limit {
			t.Errorf("%s reads or writes %d rows of deliveries, want some and at most %d", act, n, limit)
		}
		f.must(tx.Rollback(t.Context()))
	}
}
