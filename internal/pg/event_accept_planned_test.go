package pg

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
)

// arrival returns a leased event with a plan.
func (f *fixture) arrival(e *eventhook.Event, actions ...effects.PlannedAction) *effects.Arrival {
	f.Helper()
	f.withLease(e)
	return &effects.Arrival{Event: e, Plan: f.plan(e, actions...)}
}

// accept stores a batch on db.
func (f *fixture) accept(db *DB, batch ...*effects.Arrival) {
	f.Helper()
	f.must(db.Accept(f.Context(), batch))
}

// requestAction returns an action that sends a request to a target of the route. body may be "".
func requestAction(body string) effects.PlannedAction {
	r := &effects.Request{}
	if body != "" {
		r.Body = []byte(body)
	}
	return effects.PlannedAction{Action: eventhook.Action{TargetType: "http"}, Effect: effects.Effect{Request: r}}
}

// allEffects returns actions with every kind of effect that is stored with a new event. The
// subscription gets a leased delivery and a due one.
func (f *fixture) allEffects(to *eventhook.Subscription) []effects.PlannedAction {
	f.Helper()
	same, other := f.publishAction("payment.made", "", `{}`, to), f.publishAction("payment.seen", "", `{"other":1}`, to)
	same.Effect.Publication.Envelope = &eventhook.Envelope{Source: "crm"}
	same.Effect.Publication.Deliveries[0].Lease.Until = f.clock.Now().Add(lease)
	task := f.executionAction(eventhook.Task, "", func(x *eventhook.Execution) { x.Input = []byte(`{"a":1}`) })
	return []effects.PlannedAction{task, f.executionAction(eventhook.Workflow, "taken"), same, other, requestAction(""), requestAction(`{"made":1}`)}
}

// transactions counts the transactions that wrote rows of events and keys.
func (f *fixture) transactions() int {
	f.Helper()
	return queryValue[int](f, `SELECT count(DISTINCT x) FROM (SELECT xmin::text FROM eventhook.event UNION ALL SELECT xmin::text FROM eventhook.event_payload
		UNION ALL SELECT xmin::text FROM eventhook.execution UNION ALL SELECT xmin::text FROM eventhook.delivery
		UNION ALL SELECT xmin::text FROM eventhook.idempotency_key) AS u (x)`)
}

// rows counts the rows of the tables that Accept writes.
func (f *fixture) rows() map[string]int {
	f.Helper()
	n := map[string]int{}
	for _, table := range []string{"event", "event_payload", "execution", "delivery", "idempotency_key"} {
		n[table] = f.count(table, "true")
	}
	return n
}

func TestAcceptStoresAnEventWithItsEffects(t *testing.T) {
	f := setUp(t)
	s := f.insertSubscription()
	deliveries, workers := f.db.DeliveriesWake(), f.db.WorkWake(f.tenant, "ci")
	a := f.arrival(f.event(withKey("k")), f.allEffects(s)...)
	unrouted, routed := f.arrival(f.event()), f.arrival(f.event(), f.executionAction(eventhook.Task, ""))
	plain := &effects.Arrival{Event: f.event(f.withLease)}
	f.accept(f.db, a, unrouted, routed, plain)

	same(t, "transactions", f.transactions(), 1)
	same(t, "rows", f.rows(), map[string]int{"event": 6, "event_payload": 6, "execution": 3, "delivery": 4, "idempotency_key": 2})
	for _, c := range []struct {
		claim  string
		of     *effects.Arrival
		status eventhook.EventStatus
		isDue  bool
	}{
		{"an event with requests waits for them", a, eventhook.EventProcessing, false},
		{"an event that no route matches", unrouted, eventhook.EventUnrouted, false},
		{"an event whose effects are stored", routed, eventhook.EventDelivered, false},
		{"an event without a plan", plain, eventhook.EventProcessing, true},
	} {
		got := f.storedEvent(c.of.Event)
		same(t, c.claim, []eventhook.EventStatus{c.of.Event.Status, got.Status}, []eventhook.EventStatus{c.status, c.status})
		same(t, c.claim+": due", f.count("event", "id = $1 AND due_at IS NOT NULL", [16]byte(got.ID)) == 1, c.isDue)
		same(t, c.claim+": processed", []bool{c.of.Event.ProcessedAt != nil, got.ProcessedAt != nil}, []bool{c.status != eventhook.EventProcessing, c.status != eventhook.EventProcessing})
		same(t, c.claim+": leased", !c.of.Event.Lease.Until.IsZero(), c.isDue)
		same(t, c.claim+": planned", c.of.IsPlanned(), c.of != plain)
	}
	same(t, "claimable", len(f.claimEvents(f.other, 10)), 0)
	wantClosed(t, "the dispatcher hears of requests", deliveries)
	wantClosed(t, "workers hear of executions", workers)

	p := []*effects.Publication{a.Plan.Actions[2].Effect.Publication, a.Plan.Actions[3].Effect.Publication}
	same(t, "the same data refers to the source's event", f.storedEvent(&eventhook.Event{ID: p[0].ID, TenantID: f.tenant}).PayloadOf, a.Event.ID)
	same(t, "other data is stored", f.storedEvent(&eventhook.Event{ID: p[1].ID, TenantID: f.tenant}).PayloadOf, eventhook.EventID{})
	same(t, "body of a request", queryValue[string](f, `SELECT convert_from(body, 'UTF8') FROM eventhook.event_payload WHERE event_id = $1`,
		[16]byte(a.Plan.Actions[5].Effect.Request.Delivery.ID)), `{"made":1}`)
	leased, _ := f.delivery(p[0].Deliveries[0].ID)
	due, _ := f.delivery(p[1].Deliveries[0].ID)
	request, _ := f.delivery(a.Plan.Actions[5].Effect.Request.Delivery.ID)
	same(t, "states", []eventhook.DeliveryStatus{leased.Status, due.Status, request.Status},
		[]eventhook.DeliveryStatus{eventhook.DeliveryAcquired, eventhook.DeliveryPending, eventhook.DeliveryPending})
	same(t, "event, route and target of the request", []any{request.EventID, request.RouteID, request.TargetIndex}, []any{a.Event.ID, f.route.ID, 5})
	same(t, "token of the leased delivery", p[0].Deliveries[0].Lease.Token, int64(1))
	var status []eventhook.ActionStatus
	for _, a := range f.actions(a.Event) {
		status = append(status, a.Status)
	}
	const done, open = eventhook.ActionSuccess, eventhook.ActionPending
	same(t, "actions", status, []eventhook.ActionStatus{done, done, done, done, open, open})
}

func TestAPublishedEventHasTheTraceOfItsCause(t *testing.T) {
	const senderTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	f := setUp(t)
	s := f.insertSubscription()
	without, with := f.event(), f.event(func(e *eventhook.Event) { e.TraceID = senderTrace })
	want := map[eventhook.EventID]string{}
	for _, e := range []*eventhook.Event{without, with} {
		shared, other := f.publishAction("shared", "", string(e.Body), s), f.publishAction("other", "", `{"other":true}`, s)
		want[shared.Effect.Publication.ID], want[other.Effect.Publication.ID] = e.Trace(), e.Trace()
		f.accept(f.db, f.arrival(e, shared, other))
	}
	same(t, "trace of the sender", with.Trace(), senderTrace)
	for id, trace := range want {
		same(t, "trace in the API", f.storedEvent(&eventhook.Event{ID: id, TenantID: f.tenant}).TraceID, trace)
	}
	f.clock.Advance(2 * lease)
	list := f.claimDeliveries(f.db, 10, s)
	same(t, "deliveries", len(list), 4)
	for _, d := range list {
		same(t, "trace in a delivery", d.Event.Trace(), want[d.EventID])
	}
}

func TestAPublishedEventAfterMidnightHasItsOwnPayload(t *testing.T) {
	f := setUp(t)
	f.clock.Advance(12*time.Hour - time.Millisecond)
	e := f.event()
	f.clock.Advance(2 * time.Millisecond)
	made := f.publishAction("payment.made", "", `{}`)
	f.accept(f.db, f.arrival(e, made))
	same(t, "payload_of", f.storedEvent(&eventhook.Event{ID: made.Effect.Publication.ID, TenantID: f.tenant}).PayloadOf, eventhook.EventID{})
	same(t, "payloads", f.count("event_payload", "true"), 2)
}

// The effects fail after the events were stored, with an error that no event caused.
func TestAnErrorStoresNothingOfABatch(t *testing.T) {
	f := setUp(t)
	s := f.insertSubscription()
	f.exec(`CREATE FUNCTION eventhook.broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'broken' USING ERRCODE = 'internal_error'; END $$`)
	f.exec(`CREATE TRIGGER broken BEFORE INSERT ON eventhook.delivery_default FOR EACH ROW EXECUTE FUNCTION eventhook.broken()`)
	batch := []*effects.Arrival{f.arrival(f.event(withKey("k")), f.allEffects(s)...), {Event: f.event(f.withLease)}}
	for range 2 {
		if err := f.db.Accept(t.Context(), batch); err == nil {
			t.Fatal("got no error")
		}
		same(t, "rows", f.rows(), map[string]int{"event": 0, "event_payload": 0, "execution": 0, "delivery": 0, "idempotency_key": 0})
		for _, a := range batch {
			same(t, "the event is as it was", []any{a.Event.Status, a.Event.Lease.Until}, []any{eventhook.EventStatus(""), noon.Add(lease)})
		}
	}
	f.exec(`DROP TRIGGER broken ON eventhook.delivery_default; DROP FUNCTION eventhook.broken`, pgx.QueryExecModeSimpleProtocol)
	f.accept(f.db, batch...)
	same(t, "the same batch later", batch[0].IsPlanned(), true)
}

// written returns the rows of an event and its effects, without ids.
func (f *fixture) written(e *eventhook.Event) map[string]any {
	f.Helper()
	list := func(sql string) []string {
		rows, err := f.db.work.Query(f.Context(), sql, [16]byte(e.ID), e.ID.String())
		f.must(err)
		all, err := pgx.CollectRows(rows, pgx.RowTo[string])
		f.must(err)
		return all
	}
	actions := f.actions(e)
	var made []bool
	for i := range actions {
		a := &actions[i]
		made = append(made, a.ExecutionID.IsZero(), a.PublishedEventID.IsZero())
		a.ID, a.EventID, a.ExecutionID, a.PublishedEventID = eventhook.ActionID{}, eventhook.EventID{}, eventhook.ExecutionID{}, eventhook.EventID{}
	}
	const events = `(SELECT $1::uuid AS id UNION ALL SELECT id FROM eventhook.event WHERE correlation_id = $2)`
	return map[string]any{
		"actions": actions, "made": made,
		"event":      list(`SELECT (to_jsonb(e) - 'id' - 'actions')::text FROM eventhook.event e WHERE id = $1 AND $2 <> ''`),
		"published":  list(`SELECT (to_jsonb(e) - 'id' - 'correlation_id' || jsonb_build_object('payload_of', payload_of = $1))::text FROM eventhook.event e WHERE correlation_id = $2 ORDER BY event_type`),
		"executions": list(`SELECT (to_jsonb(x) - 'id' - 'event_id' - 'idempotency_key')::text FROM eventhook.execution x WHERE event_id = $1 AND $2 <> '' ORDER BY type, id`),
		"deliveries": list(`SELECT (to_jsonb(d) - 'id' - 'event_id')::text FROM eventhook.delivery d WHERE event_id IN ` + events + ` ORDER BY route_id, target_index, event_type`),
		"payloads": list(`SELECT (to_jsonb(p) - 'event_id')::text FROM eventhook.event_payload p WHERE event_id IN ` + events + `
			OR event_id IN (SELECT id FROM eventhook.delivery WHERE event_id = $1) ORDER BY 1`),
	}
}

func TestAcceptAndSettleStoreTheSameRows(t *testing.T) {
	for _, c := range []struct {
		claim string
		plan  func(*fixture, *eventhook.Subscription) []effects.PlannedAction
	}{
		{"no route matched", func(*fixture, *eventhook.Subscription) []effects.PlannedAction { return nil }},
		{"all actions succeed at once", func(f *fixture, s *eventhook.Subscription) []effects.PlannedAction { return f.allEffects(s)[:4] }},
		{"open requests", func(f *fixture, s *eventhook.Subscription) []effects.PlannedAction { return f.allEffects(s) }},
		{"only keys that are taken", func(f *fixture, _ *eventhook.Subscription) []effects.PlannedAction {
			return []effects.PlannedAction{f.executionAction(eventhook.Workflow, "taken"), f.publishAction("payment.made", "taken", `{}`)}
		}},
		{"a large event", func(f *fixture, _ *eventhook.Subscription) (list []effects.PlannedAction) {
			prefix := eventhook.NewID[eventhook.Event](f.clock.Now()).String() // the two events have different keys
			for i := range 50 {
				list = append(list, f.executionAction(eventhook.Task, fmt.Sprint(prefix, i%40)))
			}
			return list
		}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			f := setUp(t)
			s := f.insertSubscription()
			f.settle(f.db, f.plan(f.leasedEvents(1)[0], f.executionAction(eventhook.Workflow, "taken"), f.publishAction("payment.made", "taken", `{}`)))
			event := func() *eventhook.Event {
				return f.event(withKey("k"), f.withLease, func(e *eventhook.Event) { e.TraceID, e.RequestID = "4bf92f3577b34da6a3ce929d0e0e4736", "req-1" })
			}
			arrived, settled := event(), event()
			f.accept(f.db, f.arrival(arrived, c.plan(f, s)...))
			f.exec(`DELETE FROM eventhook.idempotency_key WHERE key <> 'taken'`)
			f.accept(f.db, arrivals(settled)...)
			f.settle(f.db, f.plan(settled, c.plan(f, s)...))
			same(t, "what Accept stored (+) and a settle (-)", f.written(arrived), f.written(settled))
		})
	}
}

func TestADuplicateHasNoEffect(t *testing.T) {
	hashed := func(key, hash string) func(*fixture) *eventhook.Event {
		return func(f *fixture) *eventhook.Event {
			return f.event(withKey(key), func(e *eventhook.Event) { e.SignedHash = hash })
		}
	}
	for _, c := range []struct {
		claim        string
		first, again func(*fixture) *eventhook.Event
		isTogether   bool
	}{
		{"in one batch", hashed("k", ""), hashed("k", ""), true},
		{"in a later batch", hashed("k", ""), hashed("k", ""), false},
		{"the same signed bytes in one batch", hashed("k", "h"), hashed("other", "h"), true},
		{"the same signed bytes later", hashed("k", "h"), hashed("other", "h"), false},
	} {
		t.Run(c.claim, func(t *testing.T) {
			f := setUp(t)
			first := f.arrival(c.first(f), f.executionAction(eventhook.Task, "one"))
			again := f.arrival(c.again(f), f.executionAction(eventhook.Task, "two"), f.publishAction("a", "", `{}`), requestAction(`{}`))
			if c.isTogether {
				f.accept(f.db, first, again)
			} else {
				f.accept(f.db, first)
				f.accept(f.other, again)
			}
			wantDuplicate(t, "the second", again.Event, first.Event)
			same(t, "planned", []bool{first.IsPlanned(), again.IsPlanned(), again.Plan.IsStale}, []bool{true, false, false})
			same(t, "executions, deliveries, published", []int{f.count("execution", "true"), f.count("delivery", "true"), f.count("event", "origin = 'route'")}, []int{1, 0, 0})
			same(t, "its actions", len(f.actions(again.Event)), 0)
			same(t, "its target's key", f.count("idempotency_key", "scope = 'task/build' AND key = 'two'"), 0)
			third := f.arrival(f.event(), f.executionAction(eventhook.Task, "two"))
			f.accept(f.db, third)
			same(t, "the duplicate claimed no target key", f.actions(third.Event)[0].Status, eventhook.ActionSuccess)
		})
	}
}

func TestAnActionWhoseKeyIsTakenIsSkipped(t *testing.T) {
	f := setUp(t)
	accept := func(actions ...effects.PlannedAction) *eventhook.Event {
		a := f.arrival(f.event(), actions...)
		f.accept(f.db, a)
		same(t, "the event", f.storedEvent(a.Event).Status, eventhook.EventDelivered)
		return a.Event
	}
	wantSkipped := func(claim string, got, first eventhook.Action) {
		t.Helper()
		if got.Status != eventhook.ActionSkipped || got.ExecutionID != first.ExecutionID || got.PublishedEventID != first.PublishedEventID {
			t.Errorf("%s: got %+v, want it skipped for %+v", claim, got, first)
		}
	}
	first := f.actions(accept(f.executionAction(eventhook.Task, "k"), f.publishAction("a", "k", `{}`)))
	second := f.actions(accept(f.executionAction(eventhook.Task, ""), f.publishAction("a", "k", `{}`), f.executionAction(eventhook.Task, "k")))
	same(t, "an action without a key in the same batch", second[0].Status, eventhook.ActionSuccess)
	wantSkipped("a publication that was made before", second[1], first[1])
	wantSkipped("a task that was made before", second[2], first[0])

	twice := f.actions(accept(f.executionAction(eventhook.Task, "l"), f.executionAction(eventhook.Task, "l")))
	wantSkipped("twice of one event", twice[1], twice[0])
	x, y := f.arrival(f.event(), f.executionAction(eventhook.Task, "m")), f.arrival(f.event(), f.executionAction(eventhook.Task, "m"))
	f.accept(f.db, x, y)
	wantSkipped("twice in a batch", f.actions(y.Event)[0], f.actions(x.Event)[0])

	f.clock.Advance(eventhook.TargetKeyTTL)
	same(t, "after the key expired", f.actions(accept(f.executionAction(eventhook.Task, "k")))[0].Status, eventhook.ActionSuccess)
	same(t, "executions", f.count("execution", "true"), 5)
	same(t, "published", f.count("event", "origin = 'route'"), 1)
}

func TestConcurrentBatchesClaimEachTargetKeyOnce(t *testing.T) {
	f := setUp(t)
	for round := range 10 {
		var batches [2][]*effects.Arrival
		for i := range 16 {
			key := fmt.Sprintf("%d/%d", round, i)
			for b := range batches {
				batches[b] = append(batches[b], f.arrival(f.event(), f.executionAction(eventhook.Task, key)))
			}
		}
		slices.Reverse(batches[1])
		concurrently(func() { f.accept(f.db, batches[0]...) }, func() { f.accept(f.other, batches[1]...) })
		for _, a := range slices.Concat(batches[0], batches[1]) {
			if a.IsPlanRefused { // a batch that waits too long for the other leaves its plans to the processor
				f.settle(f.db, a.Plan)
			}
		}
	}
	same(t, "executions", f.count("execution", "true"), 160)
	same(t, "delivered", f.count("event", "status = 'delivered'"), 320)
}
