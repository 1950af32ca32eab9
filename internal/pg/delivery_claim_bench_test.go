package pg

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/bench/measure"
	"github.com/eventhook/eventhook/bench/seed"
	"github.com/eventhook/eventhook/internal/pgembed"
	"github.com/eventhook/eventhook/internal/pgtest"
	"github.com/eventhook/eventhook/outbound"
)

const (
	benchClaim     = 100             // deliveries in one claim
	benchClaimed   = 25 * benchClaim // deliveries in one measurement
	benchOtherSubs = 10              // subscriptions beside the measured one
	maxClaimCost   = 1.25            // cost with a full database over the cost with an empty one
)

// BenchmarkClaimDeliveries finds, claims and settles deliveries as a dispatcher does,
// in a database with BENCH_SETTLED settled and BENCH_DUE due deliveries, and in an
// empty one. Half of the due deliveries have the measured subscription.
func BenchmarkClaimDeliveries(b *testing.B) {
	settled, due := measure.Size(b, "BENCH_SETTLED", 11_000), measure.Size(b, "BENCH_DUE", 20_000)
	empty, full := newClaimFixture(b), newClaimFixture(b)
	full.seed(settled, due)
	empty.measure()
	full.measure()
	type costs struct{ empty, full float64 }
	var rounds []costs
	for b.Loop() {
		rounds = append(rounds, costs{empty.measure(), full.measure()})
	}
	b.ReportMetric(measure.Median(rounds, func(c costs) float64 { return c.empty }), "µs/delivery_empty")
	b.ReportMetric(measure.Median(rounds, func(c costs) float64 { return c.full }), "µs/delivery_full")
	measure.AtMost(fmt.Sprintf("claim and settle with %d settled and %d due / none", settled, due),
		measure.Median(rounds, func(c costs) float64 { return c.full / c.empty }), maxClaimCost).Report(b, "slower_than_empty")
}

// claimFixture is a durable database whose deliveries only the benchmark claims.
type claimFixture struct {
	*testing.B
	conn   *pgx.Conn
	db     *DB
	tenant eventhook.TenantID
	subs   []eventhook.SubscriptionID // ordered by id; the first is measured
	head   time.Time                  // measured deliveries are due since then, all others later
}

func newClaimFixture(b *testing.B) *claimFixture {
	b.Helper()
	dsn := pgtest.NewServer(b).DSN(pgembed.Database)
	f := &claimFixture{B: b, db: openAt(b, dsn), tenant: eventhook.NewID[eventhook.Tenant](time.Now()), head: time.Now().Add(-time.Hour)}
	var err error
	f.conn, err = pgx.Connect(b.Context(), dsn)
	f.must(err)
	f.exec(`INSERT INTO eventhook.tenant (id, slug, name) VALUES ($1, 'bench', 'bench')`, [16]byte(f.tenant))
	for i := range benchOtherSubs + 1 {
		id := eventhook.NewID[eventhook.Subscription](time.Now().Add(time.Duration(i) * time.Millisecond))
		f.exec(`INSERT INTO eventhook.subscription (id, tenant_id, name, status, event_types, settings, secrets, created_at, updated_at)
			VALUES ($1, $2, 'bench', 'active', '{*}', '{}', '', now(), now())`, [16]byte(id), [16]byte(f.tenant))
		f.exec(`INSERT INTO eventhook.subscription_health (subscription_id) VALUES ($1)`, [16]byte(id))
		f.subs = append(f.subs, id)
	}
	return f
}

func (f *claimFixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *claimFixture) exec(sql string, args ...any) {
	f.Helper()
	_, err := f.conn.Exec(f.Context(), sql, args...)
	f.must(err)
}

func (f *claimFixture) insert(list ...seed.Deliveries) {
	f.Helper()
	f.must(seed.InsertDeliveries(f.Context(), f.conn, f.tenant, "bench.created", make([]byte, 1024), list...))
}

// seed inserts settled deliveries, evenly to all subscriptions, and due deliveries,
// half of them to the measured subscription.
func (f *claimFixture) seed(settled, due int) {
	f.Helper()
	var list []seed.Deliveries
	for i, id := range f.subs {
		done := seed.DueBacklog(id, settled/len(f.subs))
		done.IsDue = false
		open := seed.DueBacklog(id, due/2/benchOtherSubs)
		if i == 0 {
			open = seed.DueBacklog(id, due/2)
		}
		list = append(list, done, open)
	}
	f.insert(list...)
}

// measure inserts deliveries that became due before all others, each with an event
// of its own, and returns the microseconds to claim and settle one of them.
func (f *claimFixture) measure() float64 {
	f.Helper()
	f.insert(seed.Deliveries{Subscription: f.subs[0], Events: benchClaimed, PerEvent: 1, IsDue: true, At: f.head})
	start := time.Now()
	for range benchClaimed / benchClaim {
		f.dispatch()
	}
	return float64(time.Since(start).Microseconds()) / benchClaimed
}

// dispatch finds the due destinations, claims from the measured one, and settles.
func (f *claimFixture) dispatch() {
	f.Helper()
	const destinations = 100
	measured := eventhook.DestinationID(f.subs[0])
	found, err := f.db.DueDestinations(f.Context(), eventhook.DestinationID{}, destinations)
	f.must(err)
	if len(found) == 0 || found[0].DestinationID != measured {
		f.Fatalf("found %d destinations, want the measured one first", len(found))
	}
	list, err := f.db.ClaimDeliveries(f.Context(), []outbound.Claim{{DestinationID: measured, Max: benchClaim, Lease: lease}})
	f.must(err)
	if len(list) != benchClaim {
		f.Fatalf("claimed %d deliveries, want %d", len(list), benchClaim)
	}
	batch := make([]*outbound.DeliverySettlement, len(list))
	for i, d := range list {
		batch[i] = &outbound.DeliverySettlement{Delivery: d, Status: eventhook.DeliverySuccess, DeadInRow: eventhook.DefaultDisableAfterFailures,
			Attempt: &eventhook.Attempt{StartedAt: time.Now(), Duration: time.Millisecond, StatusCode: 200}}
	}
	lost, err := f.db.SettleDeliveries(f.Context(), batch)
	f.must(err)
	if len(lost) > 0 {
		f.Fatalf("%d leases were lost, want none", len(lost))
	}
}
