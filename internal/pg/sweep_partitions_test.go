package pg

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

func (f *fixture) keep(r Retention) {
	f.Helper()
	f.must(f.db.MaintainPartitions(f.Context(), 1, r))
}

// days returns the days of a table's partitions, without the default one.
func (f *fixture) days(table string) []string {
	f.Helper()
	have, err := partitionsOf(f.Context(), f.db.work, table)
	f.must(err)
	days := []string{}
	for name := range have {
		if day := name[len(table)+1:]; day != "default" {
			days = append(days, day)
		}
	}
	slices.Sort(days)
	return days
}

// rowsByPartition returns how many rows each partition of a table has.
func (f *fixture) rowsByPartition(table string) map[string]int {
	f.Helper()
	rows, err := f.db.work.Query(f.Context(), fmt.Sprintf(`SELECT substr(c.relname, %d), count(*)
		FROM eventhook.%s r JOIN pg_class c ON c.oid = r.tableoid GROUP BY 1`, len(table+"_")+1, table))
	f.must(err)
	placed := map[string]int{}
	var day string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&day, &n}, func() error {
		placed[day] = n
		return nil
	})
	f.must(err)
	return placed
}

// formerAction inserts an action of an event in the format of a former version.
func (f *fixture) formerAction(e *eventhook.Event) {
	f.Helper()
	f.exec(`INSERT INTO eventhook.event_action (event_id, route_id, target_index, id, route_name, target_type, status, attempts, execution_id, started_at, completed_at)
		VALUES ($1, $2, 0, gen_random_uuid(), 'former', 'task', 'success', 1, gen_random_uuid(), $3, $3)`, [16]byte(e.ID), [16]byte(f.route.ID), f.clock.Now())
}

func TestMaintainPartitionsCreatesTheDaysAhead(t *testing.T) {
	f := setUp(t)
	want := []string{"20260310", "20260311"}
	for range 2 {
		f.keep(Retention{EventsDays: 90, BodiesDays: 90})
		for _, p := range partitioned {
			same(t, p.table, f.days(p.table), want)
		}
	}
	f.formerAction(f.leasedEvents(1)[0])
	f.publishTo(1, f.insertSubscription())
	for _, p := range partitioned {
		want := map[string]int{"event": 2, "event_payload": 2, "event_action": 1, "delivery": 1}[p.table]
		same(t, "rows of "+p.table, f.rowsByPartition(p.table), map[string]int{"20260310": want})
	}
}

func TestAMissingPartitionLosesNothing(t *testing.T) {
	f := setUp(t)
	f.keep(Retention{})
	for _, p := range partitioned {
		for _, day := range f.days(p.table) {
			f.exec("DROP TABLE eventhook." + p.table + "_" + day)
		}
	}
	events := f.leasedEvents(3)
	f.clock.Advance(5 * day)
	events = append(events, f.leasedEvents(2)...)
	waiting := events[4]
	for _, e := range events[3:4] {
		f.formerAction(e)
	}
	same(t, "rows in the default partition", f.rowsByPartition("event"), map[string]int{"default": 5})

	f.keep(Retention{})
	same(t, "events", f.rowsByPartition("event"), map[string]int{"20260310": 3, "20260315": 2})
	same(t, "bodies", f.rowsByPartition("event_payload"), map[string]int{"20260310": 3, "20260315": 2})
	same(t, "actions", f.rowsByPartition("event_action"), map[string]int{"20260315": 1})
	f.settle(f.db, f.plan(waiting, f.executionAction(eventhook.Task, ""))) // the lease moved with its row
	again := f.claimEvents(f.db, 10)
	same(t, "claimed events after the rows were moved", len(again), 3)
	for _, e := range again {
		same(t, "body", string(e.Body), "{}")
	}
}

func TestRetentionDropsOldPartitions(t *testing.T) {
	for _, c := range []struct {
		claim          string
		keep           Retention
		events, bodies []string
	}{
		{"forever", Retention{}, []string{"20260310", "20260311", "20260320", "20260321"}, []string{"20260310", "20260311", "20260320", "20260321"}},
		{"to the day", Retention{EventsDays: 9, BodiesDays: 9}, []string{"20260311", "20260320", "20260321"}, []string{"20260311", "20260320", "20260321"}},
		{"not before its retention ends", Retention{EventsDays: 10, BodiesDays: 10}, []string{"20260310", "20260311", "20260320", "20260321"}, []string{"20260310", "20260311", "20260320", "20260321"}},
		{"bodies earlier", Retention{BodiesDays: 1}, []string{"20260310", "20260311", "20260320", "20260321"}, []string{"20260320", "20260321"}},
		{"bodies with their events", Retention{EventsDays: 1}, []string{"20260320", "20260321"}, []string{"20260320", "20260321"}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			f := setUp(t)
			f.keep(Retention{})
			f.settle(f.db, f.plan(f.leasedEvents(1)[0]))
			f.clock.Advance(10 * day)
			for range 2 {
				f.keep(c.keep)
				same(t, "events", f.days("event"), c.events)
				same(t, "actions", f.days("event_action"), c.events)
				same(t, "bodies", f.days("event_payload"), c.bodies)
			}
		})
	}
}

// Maintenance runs every ten minutes.
func TestAKeptPartitionIsLoggedOnce(t *testing.T) {
	f := setUp(t)
	var log strings.Builder
	f.db.log = slog.New(slog.NewTextHandler(&log, nil))
	f.keep(Retention{})
	f.publishTo(1, f.insertSubscription(func(s *eventhook.Subscription) { s.Status = eventhook.SubscriptionPaused }))
	f.clock.Advance(3 * day)
	for range 3 {
		f.keep(Retention{DeliveriesDays: 1})
	}
	same(t, "messages", strings.Count(log.String(), "delivery_20260310"), 1)
}

func TestRetentionIncludesTheDefaultPartition(t *testing.T) {
	f := setUp(t)
	f.settle(f.db, f.plan(f.leasedEvents(1)[0]))
	f.clock.Advance(10 * day)
	f.keep(Retention{EventsDays: 1})
	same(t, "events", f.count("event", "true"), 0)
	same(t, "days", f.days("event"), []string{"20260320", "20260321"})
}

func TestRetentionKeepsOpenWork(t *testing.T) {
	f := setUp(t)
	f.keep(Retention{})
	failed := f.leasedEvents(1)[0]
	f.settle(f.db, f.plan(failed, failedAction("not yet"), f.executionAction(eventhook.Task, "")))
	f.clock.Advance(10 * day)
	old := Retention{EventsDays: 1, BodiesDays: 1}
	has := func(table string) bool { return slices.Contains(f.days(table), "20260310") }
	f.keep(old)
	for _, p := range partitioned {
		same(t, p.table+" with a retry", has(p.table), true)
	}
	f.settle(f.db, f.plan(f.claimEvents(f.db, 1)[0]))
	f.keep(old)
	same(t, "events without open work", has("event"), false)
	same(t, "actions without open work", has("event_action"), false)
	same(t, "bodies that a task reads", has("event_payload"), true)

	x := f.claimWork(f.db, f.query())[0]
	f.complete(f.db, x, nil)
	f.keep(old)
	same(t, "bodies without open work", has("event_payload"), false)
}

// A published event that refers to the payload of its source's event is delivered, so
// the payload is kept while a delivery is open.
func TestRetentionKeepsThePayloadOfPublishedEvents(t *testing.T) {
	f := setUp(t)
	f.keep(Retention{})
	s := f.insertSubscription()
	made := f.publishAction("payment.made", "", `{}`, s)
	f.accept(f.db, f.arrival(f.event(), made))
	same(t, "payloads", f.rowsByPartition("event_payload"), map[string]int{"20260310": 1})
	f.clock.Advance(10 * day)
	f.keep(Retention{EventsDays: 1, BodiesDays: 1, DeliveriesDays: 1})
	for _, table := range []string{"event", "event_payload", "delivery"} {
		same(t, table+" while its delivery is open", slices.Contains(f.days(table), "20260310"), true)
	}
	d := f.claimDeliveries(f.db, 1, s)[0]
	same(t, "its body", string(d.Event.Body), `{}`)
	f.settleDeliveries(f.db, f.settlement(d, eventhook.DeliverySuccess))
	f.keep(Retention{EventsDays: 1, BodiesDays: 1, DeliveriesDays: 1})
	for _, table := range []string{"event", "event_payload", "delivery"} {
		same(t, table+" then", slices.Contains(f.days(table), "20260310"), false)
	}
}

// An event that waits for its deliveries is not due itself.
func TestRetentionKeepsEventsWithOpenDeliveries(t *testing.T) {
	f := setUp(t)
	f.keep(Retention{})
	a := f.arrival(f.event(), requestAction(`{"made":1}`))
	f.accept(f.db, a)
	f.clock.Advance(10 * day)
	old := Retention{EventsDays: 1, BodiesDays: 1, DeliveriesDays: 1}
	f.keep(old)
	d := f.claimInOrder([]*eventhook.Delivery{a.Plan.Actions[0].Effect.Request.Delivery})[0]
	same(t, "its body", string(d.Body), `{"made":1}`)
	f.settleDeliveries(f.db, f.settlement(d, eventhook.DeliverySuccess))
	same(t, "the event", f.storedEvent(a.Event).Status, eventhook.EventDelivered)
	f.keep(old)
	same(t, "events then", slices.Contains(f.days("event"), "20260310"), false)
}

// The event becomes due again after the first check for open work and before the lock that
// dropping takes.
func TestRetentionKeepsConcurrentlyRetriedEvents(t *testing.T) {
	f := setUp(t)
	f.keep(Retention{})
	e := f.leasedEvents(1)[0]
	f.settle(f.db, f.plan(e))
	f.clock.Advance(10 * day)
	f.keep(Retention{})
	f.db.lockWait = patient
	tx, err := f.other.work.Begin(t.Context())
	f.must(err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, err = tx.Exec(t.Context(), `UPDATE eventhook.event SET status = 'pending', due_at = $1`, f.clock.Now())
	f.must(err)
	kept := make(chan error, 1)
	go func() { kept <- f.db.MaintainPartitions(t.Context(), 0, Retention{EventsDays: 1}) }()
	f.waitForBlocked(1)
	f.must(tx.Commit(t.Context()))
	f.must(next(t, kept))
	same(t, "claimed after that", len(f.claimEvents(f.db, 10)), 1)
	same(t, "its action partition", slices.Contains(f.days("event_action"), "20260310"), true)
}

func TestTwoInstancesMaintainPartitions(t *testing.T) {
	f := setUp(t)
	for range 8 {
		f.leasedEvents(2)
		f.clock.Advance(2 * day)
		var errs [2]error
		concurrently(
			func() { errs[0] = f.db.MaintainPartitions(t.Context(), 3, Retention{EventsDays: 5}) },
			func() { errs[1] = f.other.MaintainPartitions(t.Context(), 3, Retention{EventsDays: 5}) })
		f.must(errs[0])
		f.must(errs[1])
	}
	same(t, "events", f.count("event", "true"), 16)
	same(t, "strays", f.count("event_default", "true")+f.count("event_payload_default", "true"), 0)
}

// A locked table does not prevent the partitions of other tables.
func TestMaintainPartitionsContinuesAfterAFailure(t *testing.T) {
	f := setUp(t)
	f.leasedEvents(1)
	tx, err := f.other.work.Begin(t.Context())
	f.must(err)
	_, err = tx.Exec(t.Context(), `SELECT FROM eventhook.event_default`)
	f.must(err)
	f.db.lockWait = time.Millisecond
	if err := f.db.MaintainPartitions(t.Context(), 0, Retention{}); err == nil {
		t.Error("no error about the partition that it could not create")
	}
	f.must(tx.Rollback(t.Context()))
	f.db.lockWait = lockWait
	same(t, "events", f.days("event"), []string{})
	same(t, "bodies", f.days("event_payload"), []string{"20260310"})
	f.keep(Retention{})
	same(t, "events then", f.rowsByPartition("event"), map[string]int{"20260310": 1})
}

func TestPartitionsCoverTheirDay(t *testing.T) {
	f := setUp(t)
	f.keep(Retention{})
	for _, c := range []struct {
		at   time.Duration
		want string
	}{
		{-12*time.Hour - time.Millisecond, "default"},
		{-12 * time.Hour, "20260310"},
		{12*time.Hour - time.Millisecond, "20260310"},
		{12 * time.Hour, "20260311"},
	} {
		e := f.event(func(e *eventhook.Event) { e.ID = eventhook.NewID[eventhook.Event](noon.Add(c.at)) })
		f.must(f.db.Accept(t.Context(), arrivals(e)))
		got := queryValue[string](f, `SELECT c.relname FROM eventhook.event e JOIN pg_class c ON c.oid = e.tableoid WHERE id = $1`, [16]byte(e.ID))
		same(t, c.at.String(), got, "event_"+c.want)
	}
}

func TestRetentionKeepsOpenDeliveriesAndTheirBodies(t *testing.T) {
	f := setUp(t)
	f.keep(Retention{})
	s := f.insertSubscription()
	list := f.claimedDeliveries(2, s)
	f.settleDeliveries(f.db, f.settlement(list[0], eventhook.DeliveryDead), f.settlement(list[1], eventhook.DeliverySuccess))
	r := Retention{EventsDays: 30, BodiesDays: 20, DeliveriesDays: 14}
	had := func(table string) bool { return slices.Contains(f.days(table), "20260310") }
	f.clock.Advance(14 * day)
	f.keep(r)
	same(t, "the last day that is kept", had("delivery"), true)
	f.restart(eventhook.DeliverySelection{IDs: deliveryIDs(list[0])})
	f.clock.Advance(7 * day)
	f.keep(Retention{EventsDays: 14, BodiesDays: 14, DeliveriesDays: 14})
	same(t, "while one is open: deliveries, bodies and events", []bool{had("delivery"), had("event_payload"), had("event")}, []bool{true, true, true})
	f.settleDeliveries(f.db, f.settlement(f.claimDeliveries(f.db, 1, s)[0], eventhook.DeliverySuccess))
	f.keep(r)
	same(t, "when all have ended", []bool{had("delivery"), had("event_payload"), had("event")}, []bool{false, false, true})
	same(t, "restarted after that", len(f.restart(eventhook.DeliverySelection{IDs: deliveryIDs(list...)})), 0)
}
