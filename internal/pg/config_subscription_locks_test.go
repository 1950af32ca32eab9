package pg

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
)

// TestConcurrentSubscriptionChangesDoNotDeadlock changes the same subscriptions concurrently
// in all possible ways. A deadlock would fail one of the changes.
func TestConcurrentSubscriptionChangesDoNotDeadlock(t *testing.T) {
	const rounds, n = 15, 6
	f := setUp(t)
	config := func(round int) eventhook.TenantConfig {
		c := acme()
		for i := range n {
			i = (i + round) % n // in another order each time
			c.Subscriptions = append(c.Subscriptions, fileSubscription(fmt.Sprint(i), func(s *eventhook.Subscription) {
				s.EventTypes, s.MaxInFlight, s.Status = []string{"webhook.*"}, round+1, eventhook.SubscriptionActive
			}))
		}
		return c
	}
	f.apply(config(0))
	list, err := f.db.Subscriptions(t.Context(), f.tenant, eventhook.SubscriptionFilter{Limit: n})
	f.must(err)
	wrong := make(chan error, 5*rounds)
	each := func(act func(round int) error) func() {
		return func() {
			for round := range rounds {
				if err := act(round); err != nil {
					wrong <- err
				}
			}
		}
	}
	// As a settle of dead deliveries does.
	failing := func(db *DB) func(int) error {
		return func(int) error {
			return db.inTx(t.Context(), "count", func(tx pgx.Tx) error {
				counts := map[eventhook.SubscriptionID]*deadCount{}
				for _, s := range list {
					counts[s.ID] = &deadCount{beforeSuccess: 1, limit: 1}
				}
				if _, err := lockSubscriptions(t.Context(), tx, counts); err != nil {
					return err
				}
				reasons, _, err := addDead(t.Context(), tx, counts)
				if err != nil {
					return err
				}
				_, _, err = db.disableSubscriptions(t.Context(), tx, reasons)
				return err
			})
		}
	}
	concurrently(each(failing(f.db)), each(failing(f.other)),
		each(func(round int) error {
			_, err := f.other.ApplyTenant(t.Context(), operator, config(round), ApplyOptions{Prune: true})
			return err
		}),
		each(func(round int) error {
			_, err := f.changeSubscription(operator, list[round%n], 0, func(s *eventhook.Subscription) { s.Status = eventhook.SubscriptionActive })
			return err
		}),
		each(func(int) error {
			s, err := f.other.CreateSubscription(t.Context(), operator, f.newSubscription())
			if err != nil {
				return err
			}
			if err = f.db.DeleteSubscription(t.Context(), operator, f.tenant, s.ID, 0); eventhook.KindOf(err) == eventhook.KindNotFound {
				return nil // pruned
			}
			return err
		}))
	close(wrong)
	for err := range wrong {
		t.Error(err)
	}
	same(t, "subscriptions that the configuration names", f.count("subscription", "name <> 'billing'"), n)
}

// A deletion waits for the settlement that ends an outage, while another settlement, which begins
// the next one, has locked the subscription and waits for the deletion. PostgreSQL ends one of the
// transactions.
func TestDeletingASubscriptionSurvivesADeadlock(t *testing.T) {
	f := setUp(t)
	s := f.insertSubscription()
	d := f.claimedDeliveries(1, s)[0]
	f.exec(`INSERT INTO eventhook.subscription_health (subscription_id, dead_in_row) VALUES ($1, 0)`, [16]byte(s.ID))
	f.exec(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET deadlock_timeout = ''50ms''', current_database()); END $$`)
	first := f.open(func(*Options) {}) // its sessions look for deadlocks before those of f.db
	tx, err := f.other.work.Begin(t.Context())
	f.must(err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, err = tx.Exec(t.Context(), `SELECT FROM eventhook.subscription_health FOR UPDATE`)
	f.must(err)
	deleted, settled := make(chan error, 1), make(chan error, 1)
	go func() { deleted <- first.DeleteSubscription(t.Context(), operator, f.tenant, s.ID, 0) }()
	f.waitForBlocked(1)
	go func() {
		_, err := f.db.SettleDeliveries(t.Context(), []*outbound.DeliverySettlement{f.settlement(d, eventhook.DeliveryFailed, circuitOpen(f.clock.Now()))})
		settled <- err
	}()
	f.waitForBlocked(2)
	f.must(tx.Commit(t.Context()))
	f.must(<-deleted)
	f.must(<-settled)
	same(t, "subscriptions", f.count("subscription", "true"), 0)
	same(t, "health", f.count("subscription_health", "true"), 0)
	same(t, "audit entries", len(f.audit(eventhook.AuditFilter{Action: "webhook.deleted"})), 1)
}

func TestParseConfigChange(t *testing.T) {
	s, tenant := eventhook.NewID[eventhook.Subscription](noon), eventhook.NewID[eventhook.Tenant](noon)
	for payload, want := range map[string]ConfigChange{
		fmt.Sprintf("subscription %s %s", s, tenant): {SubscriptionID: s, TenantID: tenant},
		fmt.Sprintf("tenant %s acme", tenant):        {TenantID: tenant, TenantSlug: "acme"},
		fmt.Sprintf("subscription %s acme", s):       {},
		fmt.Sprintf("subscription acme %s", tenant):  {},
		fmt.Sprintf("subscription %s", s):            {},
		fmt.Sprintf("agent %s %s", s, tenant):        {},
	} {
		got, err := parseConfigChange(payload)
		same(t, payload, got, want)
		same(t, payload+" is understood", err == nil, want != ConfigChange{})
	}
}
