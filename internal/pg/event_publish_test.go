package pg

import (
	"errors"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
	"github.com/eventhook/eventhook/outbound/publishtest"
)

func TestThePublishStoreConforms(t *testing.T) {
	publishtest.Check(t, func(t *testing.T) publishtest.Store {
		f := setUp(t)
		one, two := f.insertSubscription(), f.insertSubscription()
		return publishtest.Store{PublishStore: f.db, Tenant: f.tenant, Other: f.secondTenant(), Rejected: "\x00", Now: f.clock.Now,
			Subscriptions: []eventhook.SubscriptionID{one.ID, two.ID},
			Generation: func(of eventhook.TenantID) int64 {
				generation, _, err := f.other.TenantSubscriptions(t.Context(), of)
				f.must(err)
				return generation
			},
			Change: func() { f.exec(`UPDATE eventhook.subscription SET status = 'paused'`) },
			Deliveries: func(of eventhook.EventID) int {
				id := [16]byte(of)
				if f.count("event", "id = $1", id) == 0 {
					return -1
				}
				return f.count("delivery", "event_id = $1", id)
			}}
	})
}

func TestPublishStoresTheEventWithItsDeliveries(t *testing.T) {
	f := setUp(t)
	f.keep(Retention{})
	now, waits := f.insertSubscription(), f.insertSubscription()
	p := f.newPublication("k", now, waits)
	p.Event.CorrelationID, p.Event.SourceIP = "order-7", "192.0.2.1"
	p.Event.Headers = []byte("Content-Type: application/json")
	p.Event.Envelope = &eventhook.Envelope{Category: "money", Metadata: []byte(`{"n": 1.50, "s": "` + "\xff" + `"}`)}
	p.Deliveries[0].Lease.Until = f.clock.Now().Add(lease)
	nobodys := f.newPublication("")
	f.publish(f.db, p, nobodys)
	same(t, "counts", []int{p.Count, nobodys.Count}, []int{2, 0})
	same(t, "stale", []bool{p.IsStale, nobodys.IsStale}, []bool{false, false})
	same(t, "states", []eventhook.EventStatus{p.Event.Status, nobodys.Event.Status}, []eventhook.EventStatus{eventhook.EventDelivered, eventhook.EventDelivered})
	got, at := f.storedEvent(p.Event), f.clock.Now()
	got.ProcessedAt = &at
	same(t, "the event", got, eventhook.Event{
		ID: p.Event.ID, TenantID: f.tenant, Origin: eventhook.OriginAPI, Status: eventhook.EventDelivered, EventType: "payment.made",
		ContentType: "application/json", IdempotencyKey: "k", BodySize: 16, SourceIP: "192.0.2.1", CorrelationID: "order-7",
		TraceID: strings.ReplaceAll(p.Event.ID.String(), "-", ""), ProcessedAt: &at,
	})
	same(t, "delivery fields", []any{p.Deliveries[0].Status, p.Deliveries[0].Lease.Token, p.Deliveries[1].Status, p.Deliveries[1].EventType},
		[]any{eventhook.DeliveryAcquired, int64(1), eventhook.DeliveryPending, "payment.made"})
	same(t, "stored", f.counts(`SELECT status || lease_token, count(*) FROM eventhook.delivery GROUP BY 1`), map[string]int{"acquired1": 1, "pending0": 1})
	same(t, "due at once", len(f.claimDeliveries(f.other, 9, now, waits)), 1)
	f.clock.Advance(lease)
	same(t, "due when the leases have run out", len(f.claimDeliveries(f.other, 9, now, waits)), 2)
	f.clock.Advance(-lease)
	same(t, "due events", f.count("event", "due_at IS NOT NULL"), 0)
	same(t, "the envelope", queryValue[string](f, `SELECT envelope->'metadata'->>'n' FROM eventhook.event_payload WHERE event_id = $1`, [16]byte(p.Event.ID)), "1.50")
	same(t, "partitions of the deliveries", f.rowsByPartition("delivery"), map[string]int{"20260310": 2})
}

func TestAKeyIsPublishedOnce(t *testing.T) {
	f := setUp(t)
	s := f.insertSubscription()
	first, other, twice := f.newPublication("k", s, f.insertSubscription()), f.newPublication("l", s), f.newPublication("l", s)
	first.Generation, other.Generation, twice.Generation = f.generation(), f.generation(), f.generation()
	f.publish(f.db, first, other, twice)
	again := f.newPublication("k", s)
	f.publish(f.other, again, f.newPublication("", s))
	for _, c := range []struct {
		claim string
		of    *outbound.PublishItem
		first *outbound.PublishItem
		count int
	}{
		{"in one batch", twice, other, 1},
		{"later, by another instance", again, first, 2},
	} {
		same(t, c.claim, []any{c.of.Event.Status, c.of.Event.DuplicateOf, c.of.Count}, []any{eventhook.EventDuplicate, c.first.Event.ID, c.count})
	}
	same(t, "events", f.count("event", "origin = 'api'"), 3)
	same(t, "payloads", f.count("event_payload", "true"), 3)
	same(t, "deliveries", f.count("delivery", "true"), 4)
	stranger := f.newPublication("k")
	stranger.Event.TenantID, stranger.Generation = f.secondTenant(), 0
	f.publish(f.db, stranger)
	same(t, "another tenant's", stranger.Event.Status, eventhook.EventDelivered)
	f.clock.Advance(keyTTL)
	later := f.newPublication("k", s)
	f.publish(f.db, later)
	same(t, "after the key expired", later.Event.Status, eventhook.EventDelivered)
}

func TestConcurrentPublishesOfOneKeyStoreOneOriginal(t *testing.T) {
	const instances, each = 4, 25
	f := setUp(t)
	s := f.insertSubscription()
	var mu sync.Mutex
	stored := 0
	var acts []func()
	for i := range instances {
		acts = append(acts, func() {
			for range each {
				p := f.newPublication("k", s)
				if err := []*DB{f.db, f.other}[i%2].Publish(t.Context(), []*outbound.PublishItem{p}); err != nil {
					t.Error(err)
				}
				mu.Lock()
				if p.Event.Status == eventhook.EventDelivered {
					stored++
				} else if p.Count != 1 {
					t.Errorf("a duplicate counts %d deliveries of the first, want 1", p.Count)
				}
				mu.Unlock()
			}
		})
	}
	concurrently(acts...)
	same(t, "stored", []int{stored, f.count("event", "true"), f.count("delivery", "true")}, []int{1, 1, 1})
}

func TestAStaleEventIsNotStored(t *testing.T) {
	const ofAPI = "origin = 'api'"
	f := setUp(t)
	s := f.insertSubscription()
	stale, fresh, keyed := f.newPublication("k", s), f.newPublication("", s), f.newPublication("k", s)
	stale.Generation--
	nobodys := f.newPublication("k")
	nobodys.Event.TenantID, nobodys.Generation = f.secondTenant(), 7
	f.publish(f.db, stale, fresh, keyed, nobodys)
	same(t, "stale", []bool{stale.IsStale, fresh.IsStale, keyed.IsStale, nobodys.IsStale}, []bool{true, false, false, true})
	same(t, "the key belongs to the first event that is not stale", keyed.Event.Status, eventhook.EventDelivered)
	same(t, "stored", []int{f.count("event", ofAPI), f.count("event_payload", "event_id IN (SELECT id FROM eventhook.event WHERE "+ofAPI+")"), f.count("delivery", "true"), f.count("idempotency_key", "true")}, []int{2, 2, 2, 1})
	stale.Generation++
	f.publish(f.db, stale)
	same(t, "matched again", []any{stale.IsStale, stale.Event.Status}, []any{false, eventhook.EventDuplicate})
	for _, change := range []string{`UPDATE eventhook.subscription SET status = 'paused'`, `DELETE FROM eventhook.subscription`} {
		p := f.newPublication("", s)
		f.exec(change)
		f.publish(f.db, p)
		same(t, "after "+change, p.IsStale, true)
	}
	same(t, "stored events, payloads and deliveries", []int{f.count("event", ofAPI), f.count("event_payload", "event_id IN (SELECT id FROM eventhook.event WHERE "+ofAPI+")"), f.count("delivery", "true")}, []int{2, 2, 2})
}

// TestPublishMissesNoSubscription creates subscriptions while other goroutines publish. Each
// event has a delivery for every subscription that existed when its publish began.
func TestPublishMissesNoSubscription(t *testing.T) {
	const publishers, rounds = 3, 40
	f := setUp(t)
	var known sync.Map // generation → its subscriptions
	match := func() (int64, []*eventhook.Subscription) {
		tx, err := f.db.work.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
		f.must(err)
		defer func() { _ = tx.Rollback(t.Context()) }()
		var generation int64
		f.must(tx.QueryRow(t.Context(), `SELECT coalesce((SELECT generation FROM eventhook.tenant_generation WHERE tenant_id = $1), 0)`, [16]byte(f.tenant)).Scan(&generation))
		rows, err := tx.Query(t.Context(), `SELECT id FROM eventhook.subscription WHERE tenant_id = $1`, [16]byte(f.tenant))
		f.must(err)
		list, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (*eventhook.Subscription, error) {
			s := &eventhook.Subscription{}
			return s, r.Scan((*[16]byte)(&s.ID))
		})
		f.must(err)
		return generation, list
	}
	var mu sync.Mutex
	after := map[eventhook.EventID]int{} // number of subscriptions when its publish began
	acts := []func(){func() {
		for range rounds {
			f.insertSubscription()
		}
	}}
	for range publishers {
		acts = append(acts, func() {
			generation, list := match()
			known.Store(generation, list)
			for range rounds {
				there := f.count("subscription", "true")
				p := f.newPublication("", list...)
				p.Generation = generation
				f.publish(f.db, p)
				for p.IsStale {
					generation, list = match()
					p = f.newPublication("", list...)
					p.Generation = generation
					f.publish(f.db, p)
				}
				mu.Lock()
				after[p.Event.ID] = there
				mu.Unlock()
			}
		})
	}
	concurrently(acts...)
	for id, there := range after {
		if n := f.count("delivery", "event_id = $1", [16]byte(id)); n < there {
			t.Errorf("an event has %d deliveries, and %d subscriptions existed when its publish began", n, there)
		}
	}
}

func TestARefusedEventDoesNotAffectOtherPublishedEvents(t *testing.T) {
	f := setUp(t)
	s := f.insertSubscription()
	good, bad, also := f.newPublication("a", s), f.newPublication("b", s), f.newPublication("c", s)
	bad.Event.EventType = "\x00"
	f.publish(f.db, good, bad, also)
	same(t, "states", []eventhook.EventStatus{good.Event.Status, bad.Event.Status, also.Event.Status},
		[]eventhook.EventStatus{eventhook.EventDelivered, "", eventhook.EventDelivered})
	same(t, "deliveries", f.count("delivery", "true"), 2)
}

func TestPublishIsOneTransaction(t *testing.T) {
	f := setUp(t)
	s := f.insertSubscription()
	var batch []*outbound.PublishItem
	for range 100 {
		batch = append(batch, f.newPublication("", s))
	}
	f.publish(f.db, batch...)
	same(t, "transactions", queryValue[int](f, `SELECT count(DISTINCT x) FROM (SELECT xmin::text AS x FROM eventhook.event
		UNION ALL SELECT xmin::text FROM eventhook.event_payload UNION ALL SELECT xmin::text FROM eventhook.delivery) w`), 1)
}

func TestWatchersAreNotifiedOfEventsOfTheAPI(t *testing.T) {
	f := setUp(t)
	f.db.feed.addRemote(f.tenant, f.clock.Now().Add(time.Minute))
	p := f.newPublication("")
	f.publish(f.db, p)
	if notices := strings.Join(f.db.feed.takeNotices(), "\n"); !strings.Contains(notices, p.Event.ID.String()) {
		t.Errorf("notified of %q, want %s", notices, p.Event.ID)
	}
}

var lookupsOfPublish = regexp.MustCompile(`Seq Scan on|Hash Join|Join Filter`)

func TestPublishReadsNoWholeTable(t *testing.T) {
	f := setUp(t)
	conn, err := f.db.accept.Acquire(t.Context())
	f.must(err)
	defer conn.Release()
	plan := explain(f, conn.Conn(), publishSQL.sql, len(publishSQL.params))
	if bad := lookupsOfPublish.FindString(plan); bad != "" {
		t.Errorf("%s in\n%s", bad, plan)
	}
	if n := strings.Count(plan, "hashed SubPlan"); n < 3 {
		t.Errorf("%d of 3 lookups of stored events use a hash table:\n%s", n, plan)
	}
}

func TestPublishWithoutADatabase(t *testing.T) {
	unreachable, err := pgxpool.New(t.Context(), "host="+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer unreachable.Close()
	err = (&DB{accept: unreachable}).Publish(t.Context(), []*outbound.PublishItem{{}})
	if eventhook.KindOf(err) != eventhook.KindUnavailable {
		t.Errorf("got %v, want an error of KindUnavailable", err)
	}
}

func TestACancelledPublishStoresNothing(t *testing.T) {
	f := setUp(t)
	err := f.db.Publish(cancelled(t), []*outbound.PublishItem{f.newPublication("")})
	if err == nil || errors.Is(err, eventhook.ErrStalePlan) {
		t.Errorf("got %v, want an error", err)
	}
	same(t, "stored", f.count("event", "origin = 'api'"), 0)
}
