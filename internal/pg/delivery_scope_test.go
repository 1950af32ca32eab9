package pg

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
)

// publishScoped publishes an event with a scope in JSON, "" for none, to subscriptions, and returns the
// delivery to the first one.
func (f *fixture) publishScoped(scope string, to ...*eventhook.Subscription) eventhook.DeliveryID {
	f.Helper()
	f.clock.Advance(time.Millisecond)
	p := f.newPublication("", to...)
	p.Event.Envelope = &eventhook.Envelope{Scope: []byte(scope)}
	f.publish(f.db, p)
	return p.Deliveries[0].ID
}

// ofScope lists all deliveries that match a filter, page by page.
func (f *fixture) ofScope(filter eventhook.DeliveryFilter) []eventhook.DeliveryID {
	f.Helper()
	ids := []eventhook.DeliveryID{}
	for {
		found, err := f.db.ScanDeliveries(f.Context(), f.tenant, filter)
		f.must(err)
		for _, d := range found.Deliveries {
			ids = append(ids, d.ID)
		}
		if filter.Before = found.Next; filter.Before.IsZero() {
			return ids
		}
	}
}

// settleAs settles the claimed deliveries of a subscription.
func (f *fixture) settleAs(status eventhook.DeliveryStatus, of *eventhook.Subscription) {
	f.Helper()
	const all = 1000
	for _, d := range f.claimDeliveries(f.db, all, of) {
		f.settleDeliveries(f.db, f.settlement(d, status, func(s *outbound.DeliverySettlement) {
			s.DueAt,
				s.DeadInRow = noon.Add(30*day), all
		}))
	}
}

func TestDeliveriesAreListedByTheScopeOfTheirEvents(t *testing.T) {
	f := setUp(t)
	f.keep(Retention{})
	s, other := f.insertSubscription(), f.insertSubscription()
	foreign := []string{"", "null", `"customer-42"`, `"customer-42/eu"`, `"customer-"`, `"Customer-4"`,
		`{"project":"customer-4"}`, `["customer-4"]`, "4", `"customer-4 "`, `"x/customer-4"`}
	var want []eventhook.DeliveryID // newest first
	for _, status := range []eventhook.DeliveryStatus{eventhook.DeliverySuccess, eventhook.DeliveryDead,
		eventhook.DeliveryFailed, eventhook.DeliveryPending} {
		for _, scope := range append(foreign, `"customer-4"`, `"customer-4/eu"`) {
			id := f.publishScoped(scope, s, other)
			if !slices.Contains(foreign, scope) {
				want = append([]eventhook.DeliveryID{id}, want...)
			}
		}
		if status != eventhook.DeliveryPending {
			f.settleAs(status, s)
		}
	}
	e := f.leasedEvents(1)[0] // of a source, which publishes an event whose envelope is in its row
	f.clock.Advance(time.Second)
	published := f.publishAction("payment.made", "", "1", s)
	published.Effect.Publication.Envelope = &eventhook.Envelope{Scope: []byte(`"customer-4"`)}
	f.settle(f.db, f.plan(e, published))
	want = append([]eventhook.DeliveryID{published.Effect.Publication.Deliveries[0].ID}, want...)

	of := eventhook.DeliveryFilter{SubscriptionID: s.ID, Scope: "customer-4", Limit: 3}
	same(t, "of the scope", f.ofScope(of), want)
	for i, status := range []eventhook.DeliveryStatus{eventhook.DeliverySuccess, eventhook.DeliveryDead,
		eventhook.DeliveryFailed} {
		of.Status = status
		at := len(want) - 2*(i+1)
		same(t, string(status), f.ofScope(of), want[at:at+2])
	}
	of.Status = eventhook.DeliveryPending
	same(t, "pending", f.ofScope(of), want[:3])
	of.Status, of.EventType = "", "payment.*"
	same(t, "of the scope and a type", f.ofScope(of), want)
	of.EventType = "refund.*"
	same(t, "of the scope and another type", f.ofScope(of), []eventhook.DeliveryID{})
	of.EventType, of.EventID = "", f.eventOf(want[3])
	same(t, "of an event", f.ofScope(of), want[3:4])
	of.Scope = "customer-42"
	same(t, "of an event of another scope", f.ofScope(of), []eventhook.DeliveryID{})
	of.EventID, of.Scope = eventhook.EventID{}, "4"
	same(t, "a number is no scope", f.ofScope(of), []eventhook.DeliveryID{})
	of.Scope = "customer-4"
	f.exec(`DELETE FROM eventhook.event_payload`)
	same(t, "without the payloads", f.ofScope(of), want[:1])
}

func (f *fixture) eventOf(id eventhook.DeliveryID) eventhook.EventID {
	f.Helper()
	d, _ := f.delivery(id)
	return d.EventID
}

// A subscription with many deliveries of other scopes costs a budget, not a read of all.
func TestAListOfAScopeEndsWithItsBudget(t *testing.T) {
	f := setUp(t)
	f.keep(Retention{})
	s := f.insertSubscription()
	own := f.publishScoped(`"customer-4"`, s)
	f.clock.Advance(time.Second)
	const foreign = 3000 // of events that do not exist
	f.insertDueDeliveries(s, foreign)
	read := func(limits scanLimits, before eventhook.DeliveryID) (found eventhook.DeliveryScan) {
		t.Helper()
		filter := eventhook.DeliveryFilter{SubscriptionID: s.ID, Scope: "customer-4", Limit: 2, Before: before}
		f.must(f.db.list(t.Context(), func(ctx context.Context, lists *listPool) (err error) {
			found, err = lists.scanDeliveries(ctx, f.tenant, filter, scan{scanLimits: limits, limit: 2, now: f.clock.Now})
			return err
		}))
		return found
	}
	limits := scanLimits{step: 500, rows: 1000, time: time.Minute}
	pages, found := 1, read(limits, eventhook.DeliveryID{})
	for ; !found.Next.IsZero() && len(found.Deliveries) == 0; pages++ {
		found = read(limits, found.Next)
	}
	if len(found.Deliveries) != 1 || found.Deliveries[0].ID != own || pages < 3 || pages > 5 {
		t.Errorf("found %v after %d pages, want the delivery %s after 3 to 5", found.Deliveries, pages, own)
	}
	same(t, "at once", read(listScan, eventhook.DeliveryID{}).Deliveries[0].ID, own)
}

// Most deliveries of a subscription are of its scope, so that a page examines few of them. If the newest
// are not, the steps grow.
func TestAPageOfAScopeReadsFewRows(t *testing.T) {
	f := setUp(t)
	f.keep(Retention{})
	s := f.insertSubscription()
	for range 50 {
		f.publishScoped(`"customer-4"`, s)
	}
	filter := eventhook.DeliveryFilter{SubscriptionID: s.ID, Scope: "customer-4", Limit: 5}
	sql, args, limit := deliveryScanSQL(f.tenant, filter)
	from, before := deliveryBounds(filter)
	read := func() (steps []int) {
		t.Helper()
		run := scan{scanLimits: listScan, limit: filter.Limit, first: scopedRows * filter.Limit, now: f.clock.Now}
		run.read = func(ctx context.Context, from, before [16]byte, rows int) (scanStep, error) {
			args["from"], args["before"], args[limit] = from, before, rows
			step, err := f.db.lists.readScanStep(ctx, sql, args)
			steps = append(steps, step.examined)
			return step, err
		}
		out, err := run.run(t.Context(), from, before)
		f.must(err)
		same(t, "found", len(out.rows), 5)
		return steps
	}
	same(t, "examined", read(), []int{10})
	f.clock.Advance(time.Second)
	f.insertDueDeliveries(s, 3000)
	same(t, "examined below many of other scopes", read(), []int{10, 80, 640, 2320})
}

// The list of a scope reads the index of the list without one, and then primary keys.
func TestEachListOfAScopeHasItsIndex(t *testing.T) {
	f := setUp(t)
	s := eventhook.SubscriptionID(f.tenant)
	explain := func(filter eventhook.DeliveryFilter) string {
		t.Helper()
		tx, err := f.db.lists.Begin(t.Context())
		f.must(err)
		defer func() { _ = tx.Rollback(t.Context()) }()
		_, err = tx.Exec(t.Context(), `SET LOCAL plan_cache_mode = force_generic_plan`)
		f.must(err)
		sql, args, limit := deliveryScanSQL(f.tenant, filter)
		from, before := deliveryBounds(filter)
		args["from"], args["before"], args[limit] = [16]byte(from), [16]byte(before), 100
		rows, err := tx.Query(t.Context(), `EXPLAIN `+sql, pgx.QueryExecModeCacheDescribe, args)
		f.must(err)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		f.must(err)
		return strings.Join(lines, "\n")
	}
	check := func(state string) {
		t.Helper()
		for status, want := range map[eventhook.DeliveryStatus][]string{
			"": {deliveryDestination}, "success": {deliveryDestination}, "dead": {deliveryDestinationStatus}, "failed": {deliveryDestinationStatus},
			"pending": {deliveryDue, deliveryDestination, primaryKey}, "acquired": {deliveryDue, deliveryDestination,
				primaryKey},
		} {
			plan := explain(eventhook.DeliveryFilter{SubscriptionID: s, Status: status, Scope: "customer-4", Limit: 50})
			if got := deliveryIndexes(plan); !slices.Equal(got, want) || wholeTable.MatchString(plan) {
				t.Errorf("%s, %q: reads %v, want %v and no whole table:\n%s", state, status, got, want, plan)
			}
		}
	}
	f.inTableStates(check, `UPDATE eventhook.delivery SET destination_id = gen_random_uuid(), status = CASE WHEN due_at IS NULL THEN 'dead' ELSE status END, last_error = CASE WHEN due_at IS NULL THEN 'x' END`)
}

// scoped returns a subscription with a scope_filter.
func (f *fixture) scoped(scope ...string) eventhook.Subscription {
	f.Helper()
	return f.subscription(func(s *eventhook.Subscription) { s.ScopeFilter = scope })
}

// narrow changes the scope_filter.
func (f *fixture) narrow(s eventhook.Subscription, scope ...string) eventhook.Subscription {
	f.Helper()
	changed, err := f.changeSubscription(operator, s, 0, func(s *eventhook.Subscription) { s.ScopeFilter = scope })
	f.must(err)
	return changed
}

func TestTheTimeOfANarrowerScopeIsStored(t *testing.T) {
	f := setUp(t)
	at := func(s eventhook.Subscription) time.Time {
		t.Helper()
		stored := f.storedSubscription(s.ID)
		if stored.NarrowedAt == nil {
			return time.Time{}
		}
		return stored.NarrowedAt.UTC()
	}
	s := f.scoped("a", "b")
	same(t, "new", at(s), time.Time{})
	f.clock.Advance(time.Hour)
	f.narrow(s, "a", "b", "c")
	same(t, "wider", at(s), time.Time{})
	f.narrow(s, "a")
	narrowed := f.clock.Now()
	same(t, "narrower", at(s), narrowed)
	f.clock.Advance(time.Hour)
	_, err := f.changeSubscription(operator, s, 0, func(s *eventhook.Subscription) { s.Name = "renamed" })
	f.must(err)
	same(t, "renamed", at(s), narrowed)
}

func TestTheStatisticsOfACustomerBeginWithItsScope(t *testing.T) {
	f := setUp(t)
	s := f.scoped("customer-42", "customer-4")
	count := func() {
		f.must(f.db.AddSubscriptionCounts(t.Context(), 1, []eventhook.SubscriptionCount{{SubscriptionID: s.ID,
			At: f.clock.Now().Truncate(eventhook.SourceCountSpan), Delivered: 5, Dead: 2}}))
	}
	stats := func(scope string) eventhook.SubscriptionStats {
		t.Helper()
		got, err := f.db.CustomerStats(t.Context(), f.storedSubscription(s.ID), scope)
		f.must(err)
		return got
	}
	count()
	f.publishScoped(`"customer-42"`, &s)
	f.publishScoped(`"customer-4"`, &s)
	same(t, "of a subscription that had no other scope",
		[]int64{stats("customer-4").DeliveredLast24h, int64(stats("customer-4").Waiting)}, []int64{5, 2})
	f.narrow(s, "customer-4")
	got := stats("customer-4")
	same(t, "after the change", []int64{got.DeliveredLast24h, got.DeadLastHour, int64(got.Waiting)}, []int64{0, 0, 1})
	f.clock.Advance(eventhook.SourceCountSpan)
	count()
	f.publishScoped(`"customer-4"`, &s)
	got = stats("customer-4")
	same(t, "later", []int64{got.DeliveredLast24h, got.DeadLastHour, int64(got.Waiting)}, []int64{5, 2, 2})
	whole, err := f.db.SubscriptionStats(t.Context(), f.tenant, s.ID)
	f.must(err)
	same(t, "of the tenant", []int64{whole.DeliveredLast24h, int64(whole.Waiting)}, []int64{10, 3})
}

func TestTheMissedDeliveriesOfACustomer(t *testing.T) {
	f := setUp(t)
	s := f.scoped("*")
	for _, scope := range []string{`"customer-42"`, `"customer-4"`} {
		f.publishScoped(scope, &s)
	}
	for _, d := range f.claimDeliveries(f.db, 1, &s) {
		f.settleDeliveries(f.db, f.settlement(d, eventhook.DeliveryDead, limit(9),
			func(s *outbound.DeliverySettlement) { s.FailingSince, s.CircuitOpen = f.clock.Now(), true }))
	}
	f.narrow(s, "customer-4")
	missed := func(scope string) int64 {
		t.Helper()
		o, err := f.db.SubscriptionOutage(t.Context(), f.storedSubscription(s.ID), scope)
		f.must(err)
		return int64(o.Missed)
	}
	same(t, "of the tenant and of each customer", []int64{missed(""), missed("customer-4"), missed("customer-42"),
		missed("customer")}, []int64{2, 1, 1, 0})
}

func TestReplaysOfBeforeATimeAreNotListed(t *testing.T) {
	f := setUp(t)
	s := f.subscription()
	create := func(kind eventhook.ReplayKind, since time.Time) eventhook.ReplayID {
		t.Helper()
		id := eventhook.NewID[eventhook.Replay](f.clock.Now())
		f.exec(`INSERT INTO eventhook.replay (id, tenant_id, subscription_id, kind, since, until, statuses, event_types, missing, estimated, created_at, status, finished_at)
			VALUES ($1, $2, $3, $4, $5, $6, '{dead}', '{}', false, 0, $6, 'completed', $6)`, [16]byte(id), [16]byte(f.tenant), [16]byte(s.ID), string(kind), since, f.clock.Now())
		return id
	}
	create(eventhook.ReplayRequested, noon)
	f.clock.Advance(time.Hour)
	narrowed := f.clock.Now()
	f.clock.Advance(time.Minute)
	want := []eventhook.ReplayID{create(eventhook.ReplayRequested, noon)}
	create(eventhook.ReplayRecovery, noon)
	f.clock.Advance(time.Minute)
	want = append([]eventhook.ReplayID{create(eventhook.ReplayRecovery, narrowed.Add(time.Second))}, want...)
	for since, n := range map[time.Time]int{{}: 4, narrowed: 2} {
		filter := eventhook.ReplayFilter{SubscriptionID: s.ID, CreatedAfter: since, Limit: 10}
		list, err := f.db.Replays(t.Context(), f.tenant, filter)
		f.must(err)
		var got []eventhook.ReplayID
		for _, r := range list {
			if got = append(got, r.ID); !filter.Includes(r) {
				t.Errorf("lists %s, which the filter does not include", r.ID)
			}
		}
		same(t, fmt.Sprintf("since %s", since), len(got), n)
		if n == len(want) {
			same(t, "since the change", got, want)
		}
	}
}

func TestACustomerCreatesFewSubscriptions(t *testing.T) {
	f := setUp(t)
	of := eventhook.Customer{Scope: "customer-4", MaxEndpoints: 3}
	f.scoped("customer-4/eu")
	f.scoped("customer-42")
	f.scoped("customer-4", "customer-42")
	create := func() error {
		_, err := f.db.CreateCustomerSubscription(t.Context(), operator,
			f.newSubscription(func(s *eventhook.Subscription) { s.ScopeFilter = []string{"customer-4"} }), of)
		return err
	}
	var group sync.WaitGroup
	var created atomic.Int64
	for range 8 {
		group.Go(func() {
			if err := create(); err == nil {
				created.Add(1)
			}
		})
	}
	group.Wait()
	same(t, "created at once", created.Load(), int64(2))
	wantKind(t, "one more", create(), eventhook.KindConflict)
	same(t, "stored", f.count("subscription", "settings->'scope_filter' = '[\"customer-4\"]'"), 2)
	of.MaxEndpoints = 4
	f.must(create())
}
