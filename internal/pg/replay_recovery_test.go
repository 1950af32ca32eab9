package pg

import (
	"log/slog"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/cpushare"
	"github.com/eventhook/eventhook/outbound"
	"github.com/eventhook/eventhook/outbound/replay"
)

// replayWorker returns a worker of replays on db.
func (f *fixture) replayWorker(db *DB) *replay.Worker {
	limiter := cpushare.New(cpushare.DefaultConfig(), nil, f.clock.Now)
	return &replay.Worker{Store: db, CPULimiter: limiter, Retention: 14 * day, Log: slog.New(slog.DiscardHandler), Now: f.clock.Now}
}

// replaySteps lets a worker do all steps that are due now.
func (f *fixture) replaySteps(w *replay.Worker) {
	f.Helper()
	for range 1000 {
		worked, _, err := w.Step(f.Context())
		f.must(err)
		if !worked {
			return
		}
	}
	f.Fatal("a replay does not stop to be due")
}

// recovery inserts the recovery of an outage that ends now.
func (f *fixture) recovery(of *eventhook.Subscription, since time.Time) (id eventhook.ReplayID) {
	f.Helper()
	now := f.clock.Now()
	id = eventhook.NewID[eventhook.Replay](now)
	f.exec(`INSERT INTO eventhook.replay (id, tenant_id, subscription_id, kind, since, until, due_at, created_at)
		VALUES ($1, $2, $3, 'recovery', $4, $5, $5, $5)`, [16]byte(id), [16]byte(f.tenant), [16]byte(of.ID), since, now)
	return id
}

// dead publishes n events and makes their deliveries dead now.
func (f *fixture) dead(n int, to *eventhook.Subscription) []*eventhook.Delivery {
	f.Helper()
	list := f.claimedDeliveries(n, to)
	for _, d := range list {
		f.settleDeliveries(f.db, f.settlement(d, eventhook.DeliveryDead, func(s *outbound.DeliverySettlement) { s.DeadInRow = 0 }))
	}
	return list
}

func (f *fixture) replayStatus(id eventhook.ReplayID) (status string, queued, sent, failed int) {
	f.Helper()
	row := f.db.work.QueryRow(f.Context(), `SELECT status, queued, sent, failed FROM eventhook.replay WHERE id = $1`, [16]byte(id))
	f.must(row.Scan(&status, &queued, &sent, &failed))
	return status, queued, sent, failed
}

func (f *fixture) wantReplay(id eventhook.ReplayID, want ...any) {
	f.Helper()
	status, queued, sent, failed := f.replayStatus(id)
	same(f, "the replay's status, queued, sent and failed", []any{status, queued, sent, failed}, want)
}

func TestARecoveryQueuesWhatAnOutageKilled(t *testing.T) {
	f := setUp(t)
	s := f.insertSubscription()
	f.dead(1, s) // before the outage
	f.clock.Advance(time.Minute)
	early := f.claimedDeliveries(2, s)
	f.clock.Advance(time.Minute)
	since := f.clock.Now()
	for _, d := range early { // these events are older than the outage
		f.settleDeliveries(f.db, f.settlement(d, eventhook.DeliveryDead))
	}
	late := f.dead(2, s)
	f.clock.Advance(time.Hour)
	id := f.recovery(s, since)
	w := f.replayWorker(f.other)
	f.replaySteps(w)
	f.wantReplay(id, "running", 4, 0, 0)
	claimed := f.claimDeliveries(f.db, 10, s)
	same(t, "claimed", len(claimed), 4)
	for i, d := range append(early, late...) {
		got, _ := f.delivery(d.ID)
		same(t, "delivery", []any{got.Status, got.RetryCount, got.RestartedAt.UTC()}, []any{eventhook.DeliveryAcquired, 0, f.clock.Now()})
		if i == 0 {
			f.settleDeliveries(f.db, f.settlement(claimOf(claimed, d.ID), eventhook.DeliveryDead, func(s *outbound.DeliverySettlement) { s.DeadInRow = 0 }))
			continue
		}
		f.settleDeliveries(f.db, f.settlement(claimOf(claimed, d.ID), eventhook.DeliverySuccess))
	}
	f.clock.Advance(time.Minute)
	f.replaySteps(w)
	f.wantReplay(id, "completed", 4, 3, 1)
	same(t, "audit entries", len(f.audit(eventhook.AuditFilter{Action: "subscription.recovered"})), 1)
}

func claimOf(list []*eventhook.Delivery, id eventhook.DeliveryID) *eventhook.Delivery {
	for _, d := range list {
		if d.ID == id {
			return d
		}
	}
	return nil
}

// The earliest recovered deliveries are claimed first, and before newer ones that wait.
func TestRecoveredDeliveriesAreClaimedInTheOrderOfTheirEvents(t *testing.T) {
	f := setUp(t)
	s := f.insertSubscription()
	list := f.dead(3, s)
	f.publishTo(1, s)
	f.clock.Advance(time.Hour)
	f.recovery(s, list[0].EventID.Time())
	f.replaySteps(f.replayWorker(f.db))
	for _, d := range list {
		same(t, "claimed next", f.claimDeliveries(f.db, 1, s)[0].ID, d.ID)
	}
}

func TestADeliveryIsRecoveredThreeTimes(t *testing.T) {
	f := setUp(t)
	s := f.insertSubscription()
	since := f.clock.Now()
	f.dead(1, s)
	for i, want := range []int{1, 1, 1, 0} {
		f.clock.Advance(time.Minute)
		id := f.recovery(s, since)
		w := f.replayWorker(f.db)
		f.replaySteps(w)
		for _, d := range f.claimDeliveries(f.db, 9, s) {
			f.settleDeliveries(f.db, f.settlement(d, eventhook.DeliveryDead))
		}
		f.clock.Advance(time.Minute)
		f.replaySteps(w)
		if n := f.count("replay", "id = $1 AND queued = 1", [16]byte(id)); n != want {
			t.Errorf("recovery %d queued %d deliveries, want %d", i+1, n, want)
		}
	}
}

// A receiver that fails only for one instance ends an outage every minute. Nothing was missed.
func TestARecoveryThatFindsNothingLeavesNothing(t *testing.T) {
	f := setUp(t)
	s := f.insertSubscription()
	list := f.claimedDeliveries(10, s)
	w := f.replayWorker(f.db)
	for i := range 5 {
		f.settleDeliveries(f.db, f.settlement(list[2*i], eventhook.DeliveryFailed, circuitOpen(f.clock.Now())))
		f.settleDeliveries(f.other, f.settlement(list[2*i+1], eventhook.DeliverySuccess))
		same(t, "recoveries", f.recoveries(s), 1)
		f.clock.Advance(time.Minute)
		f.replaySteps(w)
		same(t, "replays", f.count("replay", "true"), 0)
	}
	same(t, "audit entries", len(f.audit(eventhook.AuditFilter{Action: "subscription.recovered"})), 0)
	same(t, "events", f.count("event", "event_type LIKE 'webhook.recover%'"), 0)
	same(t, "rows of the outage", f.outage(s), "dead:0")
}

func TestARecoveryWaitsAndEndsWithItsSubscription(t *testing.T) {
	f := setUp(t)
	s := f.subscription()
	since := f.clock.Now()
	f.dead(1, &s)
	f.clock.Advance(time.Minute)
	id := f.recovery(&s, since)
	w := f.replayWorker(f.db)
	for _, c := range []struct{ claim, change, undo string }{
		{"paused", `UPDATE eventhook.subscription SET status = 'paused' WHERE id = $1`, `UPDATE eventhook.subscription SET status = 'active' WHERE id = $1`},
		{"disabled", `UPDATE eventhook.subscription SET status = 'disabled' WHERE id = $1`, `UPDATE eventhook.subscription SET status = 'active' WHERE id = $1`},
		{"failing again", `INSERT INTO eventhook.subscription_health (subscription_id, failing_since) VALUES ($1, now())
			ON CONFLICT (subscription_id) DO UPDATE SET failing_since = now()`,
			`UPDATE eventhook.subscription_health SET failing_since = NULL WHERE subscription_id = $1`},
	} {
		f.exec(c.change, [16]byte(s.ID))
		f.clock.Advance(time.Minute)
		f.replaySteps(w)
		if status, queued, _, _ := f.replayStatus(id); status != "running" || queued != 0 {
			t.Errorf("%s: got a %s recovery with %d queued deliveries, want a running one without", c.claim, status, queued)
		}
		f.exec(c.undo, [16]byte(s.ID))
	}
	f.exec(`UPDATE eventhook.subscription SET settings = '{"recovery":{"enabled":false}}' WHERE id = $1`, [16]byte(s.ID))
	f.clock.Advance(time.Minute)
	f.replaySteps(w)
	f.wantReplay(id, "cancelled", 0, 0, 0)
	f.exec(`UPDATE eventhook.subscription SET settings = '{}' WHERE id = $1`, [16]byte(s.ID))
	f.recovery(&s, since)
	f.must(f.db.DeleteSubscription(t.Context(), operator, f.tenant, s.ID, 0))
	f.replaySteps(w)
	same(t, "replays of a deleted subscription", f.count("replay", "true"), 0)
}

// Attempts of a second instance began in the outage. They end after its recovery, which found nothing.
func TestADeliveryThatDiesAfterItsOutageIsRecovered(t *testing.T) {
	f := setUp(t)
	s := f.insertSubscription()
	list := f.claimedDeliveries(5, s)
	began := func(at time.Time) func(*outbound.DeliverySettlement) {
		return func(s *outbound.DeliverySettlement) { s.Attempt.StartedAt = at }
	}
	inOutage := f.clock.Now()
	f.settleDeliveries(f.db, f.settlement(list[0], eventhook.DeliveryFailed, circuitOpen(inOutage)))
	f.clock.Advance(time.Second)
	f.settleDeliveries(f.db, f.settlement(list[1], eventhook.DeliverySuccess))
	w := f.replayWorker(f.db)
	f.replaySteps(w)
	f.clock.Advance(time.Second)
	f.replaySteps(w)
	same(t, "recoveries", f.count("replay", "true"), 0)

	f.clock.Advance(time.Minute)
	f.settleDeliveries(f.other, f.settlement(list[2], eventhook.DeliveryDead))
	same(t, "recoveries after an attempt that began later", f.recoveries(s), 0)
	f.settleDeliveries(f.other, f.settlement(list[3], eventhook.DeliveryDead, began(inOutage)))
	f.settleDeliveries(f.db, f.settlement(list[4], eventhook.DeliveryDead, began(inOutage)))
	same(t, "recoveries of two deliveries", f.recoveries(s), 1)
	f.clock.Advance(10 * time.Second)
	f.replaySteps(w)
	same(t, "sent", f.deliver(*s, eventhook.DeliverySuccess) >= 2, true)
	f.clock.Advance(time.Minute)
	f.replaySteps(w)
	for _, d := range list[3:] {
		got, _ := f.delivery(d.ID)
		same(t, "a delivery that died late", got.Status, eventhook.DeliverySuccess)
	}
	same(t, "running recoveries", f.recoveries(s), 0)
	same(t, "events", f.count("event", "event_type = 'webhook.recovered'"), 1)
}

// A recovery that begins while a settlement relies on it would not find the delivery.
func TestARecoveryBeginsAfterTheLateDeliveriesThatWaitForIt(t *testing.T) {
	f := setUp(t)
	s := f.insertSubscription()
	list := f.claimedDeliveries(2, s)
	f.settleDeliveries(f.db, f.settlement(list[0], eventhook.DeliveryFailed, circuitOpen(f.clock.Now())))
	f.settleDeliveries(f.db, f.settlement(list[1], eventhook.DeliverySuccess))
	tx, err := f.other.work.Begin(t.Context())
	f.must(err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	f.must(recoverLate(t.Context(), tx, []eventhook.SubscriptionID{s.ID}, f.clock.Now()))
	for _, want := range []bool{false, true} {
		job, _, err := f.db.LeaseReplay(t.Context(), time.Minute)
		f.must(err)
		same(t, "leased", job != nil, want)
		f.must(tx.Commit(t.Context()))
		tx, err = f.other.work.Begin(t.Context())
		f.must(err)
	}
	same(t, "recoveries", f.recoveries(s), 1)
}

// A settlement of a late delivery locks the subscription before its recoveries. If the closing of
// the tenant ended these first, the two could deadlock.
func TestClosingLocksReplaysAfterSubscriptions(t *testing.T) {
	f := setUp(t)
	s := f.insertSubscription()
	id := f.recovery(s, f.clock.Now())
	f.exec(`INSERT INTO eventhook.subscription_health (subscription_id, dead_in_row, outage_ended_at) VALUES ($1, 0, $2)`, [16]byte(s.ID), f.clock.Now())
	tx, err := f.other.work.Begin(t.Context())
	f.must(err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, err = tx.Exec(t.Context(), `SELECT FROM eventhook.subscription WHERE id = $1 FOR NO KEY UPDATE`, [16]byte(s.ID))
	f.must(err)
	closed := make(chan error, 1)
	go func() {
		_, err := f.db.CloseTenant(t.Context(), operator, "acme")
		closed <- err
	}()
	f.waitForBlocked(1)
	_, err = tx.Exec(t.Context(), `SET LOCAL lock_timeout = '200ms'`)
	f.must(err)
	f.must(recoverLate(t.Context(), tx, []eventhook.SubscriptionID{s.ID}, f.clock.Now()))
	f.must(tx.Rollback(t.Context()))
	f.must(<-closed)
	f.wantReplay(id, "cancelled", 0, 0, 0)
}
