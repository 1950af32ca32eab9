package pg

import (
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
)

// outage describes the stored outage of a subscription in one line.
func (f *fixture) outage(s *eventhook.Subscription) string {
	f.Helper()
	return queryValue[string](f, `SELECT coalesce((SELECT concat_ws(' ', 'dead:' || dead_in_row, 'since:' || ($2 - failing_since), 'opened:' || ($2 - circuit_opened_at),
		CASE WHEN is_held THEN 'held' END, 'probe:' || (next_probe_at - $2)) FROM eventhook.subscription_health WHERE subscription_id = $1), '')`, [16]byte(s.ID), f.clock.Now())
}

// recoveries returns how many recoveries of a subscription are running.
func (f *fixture) recoveries(s *eventhook.Subscription) int {
	f.Helper()
	return f.count("replay", "subscription_id = $1 AND kind = 'recovery' AND status = 'running' AND due_at IS NOT NULL", [16]byte(s.ID))
}

func circuitOpen(since time.Time) func(*outbound.DeliverySettlement) {
	return func(s *outbound.DeliverySettlement) { s.FailingSince, s.CircuitOpen = since, true }
}

func TestAnOutageBeginsWithAnOpenCircuitAndEndsWithASuccess(t *testing.T) {
	f := setUp(t)
	s := f.insertSubscription()
	list := f.claimedDeliveries(5, s)
	since := f.clock.Now()
	f.clock.Advance(time.Second)
	f.settleDeliveries(f.db, f.settlement(list[0], eventhook.DeliveryFailed, func(s *outbound.DeliverySettlement) { s.FailingSince = since }))
	same(t, "one failure", f.outage(s), "")
	f.settleDeliveries(f.db, f.settlement(list[1], eventhook.DeliveryFailed, circuitOpen(since)))
	same(t, "the circuit opened", f.outage(s), "dead:0 since:00:00:01 opened:00:00:00 probe:00:01:00")
	f.clock.Advance(time.Second)
	f.settleDeliveries(f.other, f.settlement(list[2], eventhook.DeliveryDead, circuitOpen(since.Add(time.Second))))
	same(t, "another instance's circuit opened", f.outage(s), "dead:1 since:00:00:02 opened:00:00:01 probe:00:00:59")
	same(t, "recoveries during the outage", f.recoveries(s), 0)
	f.settleDeliveries(f.other, f.settlement(list[3], eventhook.DeliverySuccess))
	same(t, "a success", f.outage(s), "dead:0")
	same(t, "recoveries", f.recoveries(s), 1)
	from := queryValue[time.Time](f, `SELECT since FROM eventhook.replay WHERE until = $1 AND due_at = $1`, f.clock.Now())
	same(t, "the recovery begins", since.Sub(from), 10*time.Second)
	f.settleDeliveries(f.db, f.settlement(list[4], eventhook.DeliverySuccess))
	same(t, "recoveries after a second success", f.recoveries(s), 1)
}

// The success and dead deliveries are in one batch, which takes the longer path.
func TestASuccessAmongDeadDeliveriesEndsAnOutage(t *testing.T) {
	f := setUp(t)
	s, other := f.insertSubscription(), f.insertSubscription()
	list, ofOther := f.claimedDeliveries(3, s), f.claimedDeliveries(2, other)
	f.settleDeliveries(f.db, f.settlement(list[0], eventhook.DeliveryFailed, circuitOpen(f.clock.Now())), f.settlement(ofOther[0], eventhook.DeliveryFailed, circuitOpen(f.clock.Now())))
	f.settleDeliveries(f.db, f.settlement(list[1], eventhook.DeliveryDead), f.settlement(list[2], eventhook.DeliverySuccess), f.settlement(ofOther[1], eventhook.DeliverySuccess))
	same(t, "the outages", []string{f.outage(s), f.outage(other)}, []string{"dead:0", "dead:0"})
	same(t, "the recoveries", []int{f.recoveries(s), f.recoveries(other)}, []int{1, 1})
}

func TestAnOutageOfASubscriptionWithoutRecoveryIsNotRecovered(t *testing.T) {
	f := setUp(t)
	s := f.insertSubscription()
	f.exec(`UPDATE eventhook.subscription SET settings = '{"recovery": {"enabled": false}}'`)
	list := f.claimedDeliveries(2, s)
	f.settleDeliveries(f.db, f.settlement(list[0], eventhook.DeliveryFailed, circuitOpen(f.clock.Now())))
	f.settleDeliveries(f.db, f.settlement(list[1], eventhook.DeliverySuccess))
	same(t, "the outage", f.outage(s), "dead:0")
	same(t, "the recoveries", f.recoveries(s), 0)
}

func TestFailuresThatDisableBeginAnOutage(t *testing.T) {
	f := setUp(t)
	stored := f.subscription()
	s := &stored
	list := f.claimedDeliveries(5, s)
	since := f.clock.Now().Add(-time.Minute)
	f.settleDeliveries(f.db, f.settlement(list[0], eventhook.DeliveryDead, limit(2), func(s *outbound.DeliverySettlement) { s.FailingSince = since }))
	same(t, "one is dead", f.outage(s), "dead:1")
	f.settleDeliveries(f.other, f.settlement(list[1], eventhook.DeliveryDead, limit(2)))
	same(t, "disabled", f.outage(s), "dead:2 since:00:01:00 opened:00:00:00 held probe:00:01:00")
	got := f.storedSubscription(s.ID)
	same(t, "it", []any{got.Status, got.DisabledBy, got.HoldsDeliveries()}, []any{eventhook.SubscriptionDisabled, eventhook.DisabledByFailures, true})

	f.settleDeliveries(f.db, f.settlement(list[2], eventhook.DeliverySuccess))
	same(t, "a late success makes the probe due", f.outage(s), "dead:0 since:00:01:00 opened:00:00:00 held probe:00:00:00")
	same(t, "recoveries", f.recoveries(s), 0)

	f.settleDeliveries(f.db, f.settlement(list[3], eventhook.DeliveryDead, func(s *outbound.DeliverySettlement) { s.Disable = "gone" }))
	same(t, "after a 410", f.outage(s), "dead:1 since:00:01:00 opened:00:00:00")
	got = f.storedSubscription(s.ID)
	same(t, "its cause", []any{got.DisabledBy, got.DisabledReason, got.HoldsDeliveries()}, []any{eventhook.DisabledByGone, "gone", false})

	_, err := f.changeSubscription(operator, *s, 0, func(s *eventhook.Subscription) { s.Status = eventhook.SubscriptionActive })
	f.must(err)
	same(t, "enabled", f.outage(s), "dead:0 since:00:01:00 opened:00:00:00 probe:00:00:00")
	same(t, "held deliveries count from", f.storedSubscription(s.ID).RecoveredAt.Equal(f.clock.Now()), true)
	wake := f.db.ReplaysWake()
	f.settleDeliveries(f.db, f.settlement(list[4], eventhook.DeliverySuccess))
	same(t, "recoveries after a success", f.recoveries(s), 1)
	select {
	case <-wake:
	default:
		t.Error("the recovery did not wake the workers of replays")
	}
}

func limit(n int) func(*outbound.DeliverySettlement) {
	return func(s *outbound.DeliverySettlement) { s.DeadInRow = n }
}

func TestADeliveryThatAnOutageHasHeldIsNotTooOld(t *testing.T) {
	f := setUp(t)
	stored, disabled := f.subscription(), f.subscription(func(s *eventhook.Subscription) { s.Recovery.Enabled = new(false) })
	stale := func(s *outbound.DeliverySettlement) { s.IsStale, s.Attempt = true, nil }
	list, other := f.claimedDeliveries(4, &stored), f.claimedDeliveries(1, &disabled)
	f.settleDeliveries(f.db, f.settlement(list[0], eventhook.DeliveryFailed, circuitOpen(f.clock.Now())))
	f.clock.Advance(30 * time.Hour)
	f.settleDeliveries(f.db, f.settlement(list[1], eventhook.DeliveryDead, stale), f.settlement(other[0], eventhook.DeliveryDead, stale))
	d, _ := f.delivery(list[1].ID)
	same(t, "during the outage", []any{d.Status, d.RestartedAt.Equal(f.clock.Now())}, []any{eventhook.DeliveryPending, true})
	d, _ = f.delivery(other[0].ID)
	same(t, "without recovery", d.Status, eventhook.DeliveryDead)
	f.settleDeliveries(f.db, f.settlement(list[2], eventhook.DeliverySuccess))
	end := f.clock.Now()
	f.clock.Advance(time.Hour)
	again := f.claimDeliveries(f.db, 1, &stored)
	f.settleDeliveries(f.db, f.settlement(list[3], eventhook.DeliveryDead, stale), f.settlement(again[0], eventhook.DeliveryDead, stale))
	d, _ = f.delivery(list[3].ID)
	same(t, "after the outage", []any{d.Status, d.RestartedAt.Equal(end)}, []any{eventhook.DeliveryPending, true})
	d, _ = f.delivery(again[0].ID)
	same(t, "renewed before", d.Status, eventhook.DeliveryDead)
	f.clock.Advance(42 * time.Hour)
	f.settleDeliveries(f.db, f.settlement(f.claimDeliveries(f.db, 1, &stored)[0], eventhook.DeliveryDead, stale))
	d, _ = f.delivery(list[3].ID)
	same(t, "older than recovery.max_age_hours", d.Status, eventhook.DeliveryDead)
}

func TestHeldDeliveriesExpireAfterTheAgeOfTheirRecovery(t *testing.T) {
	o := newOutage(t)
	for _, c := range []struct {
		after time.Duration
		want  eventhook.DeliveryStatus
	}{{50 * time.Hour, eventhook.DeliveryPending}, {23 * time.Hour, eventhook.DeliveryDead}} {
		o.clock.Advance(c.after)
		_, err := o.db.ExpireDeliveries(t.Context(), day)
		o.must(err)
		d, _ := o.delivery(o.list[2].ID)
		same(t, "after "+c.after.String(), d.Status, c.want)
	}
}

// A change of a subscription locks the subscription before its outage. If a settlement of a dead
// delivery locked the outage first, the two could deadlock.
func TestASettlementLocksOutagesAfterSubscriptions(t *testing.T) {
	f := setUp(t)
	s := f.insertSubscription()
	d := f.claimedDeliveries(1, s)[0]
	tx, err := f.other.work.Begin(t.Context())
	f.must(err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, err = tx.Exec(t.Context(), `SELECT FROM eventhook.subscription WHERE id = $1 FOR NO KEY UPDATE`, [16]byte(s.ID))
	f.must(err)
	ended := make(chan error, 1)
	go func() {
		_, err := f.db.SettleDeliveries(t.Context(), []*outbound.DeliverySettlement{f.settlement(d, eventhook.DeliveryDead, circuitOpen(f.clock.Now()))})
		ended <- err
	}()
	f.waitForBlocked(1)
	_, err = tx.Exec(t.Context(), `SET LOCAL lock_timeout = '200ms'`)
	f.must(err)
	_, err = tx.Exec(t.Context(), `INSERT INTO eventhook.subscription_health (subscription_id, dead_in_row) VALUES ($1, 0)`, [16]byte(s.ID))
	f.must(err)
	f.must(tx.Rollback(t.Context()))
	f.must(<-ended)
	same(t, "the outage", f.outage(s), "dead:1 since:00:00:00 opened:00:00:00 probe:00:01:00")
}

// A held delivery that recovery has released counts its age from then on.
func TestTheAgeOfAHeldDeliveryCountsFromItsRelease(t *testing.T) {
	o := newOutage(t)
	o.exec(`UPDATE eventhook.delivery SET restarted_at = $2 WHERE id = $1`, [16]byte(o.list[2].ID), o.clock.Now().Add(60*time.Hour))
	o.clock.Advance(75 * time.Hour)
	_, err := o.db.ExpireDeliveries(t.Context(), day)
	o.must(err)
	for i, want := range map[int]eventhook.DeliveryStatus{2: eventhook.DeliveryPending, 3: eventhook.DeliveryDead} {
		d, _ := o.delivery(o.list[i].ID)
		same(t, "delivery", d.Status, want)
	}
}
