package pg

import (
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

func ageEvent(t *testing.T, db *DB) (time.Duration, error) {
	t.Helper()
	s, err := db.EventQueue(t.Context())
	return s.Age, err
}

func ageExecution(t *testing.T, db *DB) (time.Duration, error) {
	t.Helper()
	s, err := db.ExecutionQueue(t.Context())
	return s.Age, err
}

func ageDelivery(t *testing.T, db *DB) (time.Duration, error) {
	t.Helper()
	s, err := db.DeliveryQueue(t.Context(), eventhook.BlockedDestinations{})
	return s.Age, err
}

// deliveryState is an eventhook.QueueState of deliveries that can be compared.
func deliveryState(f *fixture, blocked eventhook.BlockedDestinations) (age time.Duration, depth int, parked map[eventhook.ParkReason]int) {
	f.Helper()
	s, err := f.db.DeliveryQueue(f.Context(), blocked)
	f.must(err)
	return s.Age, s.Depth, s.Parked
}

func TestWorkThatWaitsForAReceiverOrAPersonIsParked(t *testing.T) {
	f := setUp(t)
	status := func(status string) func(*eventhook.Subscription) {
		return func(s *eventhook.Subscription) { s.Status = eventhook.SubscriptionStatus(status) }
	}
	active, dead, slow, failing := f.insertSubscription(), f.insertSubscription(), f.insertSubscription(), f.insertSubscription()
	paused, disabled, agent := f.insertSubscription(status("paused")), f.insertSubscription(), f.insertSubscription()
	for _, s := range []*eventhook.Subscription{dead, slow, failing, paused, disabled, agent} {
		f.publishTo(3, s)
	}
	f.exec(`UPDATE eventhook.subscription SET settings = '{"target_labels": ["env:prod"]}' WHERE id = $1`, [16]byte(agent.ID))
	f.exec(`UPDATE eventhook.subscription SET status = 'disabled', disabled_by = 'user' WHERE id = $1`, [16]byte(disabled.ID))
	f.exec(`INSERT INTO eventhook.subscription_health (subscription_id, failing_since, circuit_opened_at, next_probe_at) VALUES ($1, $2, $2, $2)`,
		[16]byte(failing.ID), f.clock.Now())
	blocked := eventhook.BlockedDestinations{Open: []eventhook.DestinationID{eventhook.DestinationID(dead.ID)},
		Limited: []eventhook.DestinationID{eventhook.DestinationID(slow.ID)}}
	parked := map[eventhook.ParkReason]int{"breaker": 6, "limit": 3, "paused": 3, "held": 3, "agent": 3}
	f.clock.Advance(time.Hour)
	age, depth, got := deliveryState(f, blocked)
	same(t, "age without a delivery to an active subscription", age, time.Duration(0))
	same(t, "depth", depth, 0)
	same(t, "parked", got, parked)

	f.publishTo(2, active)
	f.clock.Advance(time.Minute)
	age, depth, got = deliveryState(f, blocked)
	same(t, "age is of the active subscription", age.Truncate(time.Second), time.Minute)
	same(t, "its depth", depth, 2)
	same(t, "parked as before", got, parked)
	f.claimDeliveries(f.db, 9, active)
	age, depth, _ = deliveryState(f, blocked)
	same(t, "age when all are leased", age, time.Duration(0))
	same(t, "depth when all are leased", depth, 0)
	age, depth, _ = deliveryState(f, eventhook.BlockedDestinations{})
	same(t, "age for an instance whose breakers are closed", age >= time.Hour, true)
	same(t, "its depth", depth, 6)
}

func TestWorkThatWaitsForAnAgentIsParked(t *testing.T) {
	f := setUp(t)
	f.eventWithRequests(2)
	f.exec(`UPDATE eventhook.route SET targets = jsonb_set(targets, '{1,target_labels}', '["env:prod"]') WHERE id = $1`, [16]byte(f.route.ID))
	f.clock.Advance(time.Hour)
	_, depth, parked := deliveryState(f, eventhook.BlockedDestinations{})
	same(t, "depth without the request of the agent", depth, 1)
	same(t, "parked", parked, map[eventhook.ParkReason]int{"agent": 1})
}

func TestTheDeliveryQueueHasSeveralPagesOfDestinations(t *testing.T) {
	f := setUp(t)
	const subscriptions = destinationsPerCount + 5
	s := f.insertSubscription()
	f.publishTo(1, s)
	f.exec(`INSERT INTO eventhook.subscription (id, tenant_id, name, event_types, settings, secrets, created_at, updated_at)
		SELECT gen_random_uuid(), tenant_id, name, event_types, settings, secrets, created_at, updated_at FROM eventhook.subscription, generate_series(2, $1) n`, subscriptions)
	f.exec(`INSERT INTO eventhook.delivery (id, tenant_id, destination_id, event_id, event_type, status, due_at)
		SELECT (substr(d.id::text, 1, 24) || substr(md5(s.id::text), 1, 12))::uuid, d.tenant_id, s.id, d.event_id, d.event_type, 'pending', d.due_at
		FROM eventhook.delivery d, eventhook.subscription s WHERE s.id <> d.destination_id`)
	f.clock.Advance(time.Second)
	_, depth, _ := deliveryState(f, eventhook.BlockedDestinations{})
	same(t, "depth", depth, subscriptions)
}

func TestDepthsOfEventsAndExecutions(t *testing.T) {
	f := setUp(t)
	f.must(f.db.Accept(t.Context(), arrivals(f.event(), f.event(), f.event())))
	f.clock.Advance(time.Second)
	s, err := f.db.EventQueue(t.Context())
	f.must(err)
	same(t, "events", s.Depth, 3)
	suspended := f.runningExecution(eventhook.Workflow)
	f.must(f.db.Suspend(t.Context(), suspended, eventhook.Suspension{Await: []eventhook.PromiseID{f.promise("k").ID}}))
	for _, e := range f.claimEvents(f.db, 2) {
		f.settle(f.db, f.plan(e, f.executionAction(eventhook.Workflow, "")))
	}
	f.clock.Advance(time.Second)
	s, err = f.db.ExecutionQueue(t.Context())
	f.must(err)
	same(t, "executions", s, eventhook.QueueState{Age: time.Second, Depth: 2, Parked: map[eventhook.ParkReason]int{"suspended": 1}})
}
