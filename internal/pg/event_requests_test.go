package pg

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/outbound"
)

// token returns the lease token of a row.
func (f *fixture) token(table string, id [16]byte) int64 {
	f.Helper()
	return queryValue[int64](f, `SELECT lease_token FROM eventhook.`+table+` WHERE id = $1`, id)
}

// settleRequest claims and settles the delivery of a request.
func (f *fixture) settleRequest(d *eventhook.Delivery, status eventhook.DeliveryStatus) {
	f.Helper()
	f.settleDeliveries(f.db, f.settlement(f.claimInOrder([]*eventhook.Delivery{d})[0], status))
}

// statuses returns the statuses of an event's actions in order.
func (f *fixture) statuses(e *eventhook.Event) (list []eventhook.ActionStatus) {
	f.Helper()
	for _, a := range f.actions(e) {
		list = append(list, a.Status)
	}
	return list
}

func TestAnEventThatWaitsForItsRequestsIsNotClaimed(t *testing.T) {
	f := setUp(t)
	e := f.leasedEvents(1)[0]
	s := f.plan(e, f.executionAction(eventhook.Task, ""), requestAction(`{"n":1}`))
	f.settle(f.db, s)
	got := f.storedEvent(e)
	same(t, "the event", []any{got.Status, got.ProcessedAt}, []any{eventhook.EventProcessing, (*time.Time)(nil)})
	unsettled, err := f.db.SettleEvents(t.Context(), []*effects.Settlement{s}) // as after a commit whose result was lost
	f.must(err)
	same(t, "settled again", []any{len(unsettled), s.IsStale}, []any{1, false})
	f.must(f.db.ReleaseEvents(t.Context(), []*eventhook.Event{e}))
	f.clock.Advance(day)
	same(t, "claimed", len(f.claimEvents(f.other, 10)), 0)
	same(t, "executions", f.count("execution", "true"), 1)
	same(t, "reprocessed", len(f.reprocess(f.db, eventhook.EventSelection{IDs: ids(e)})), 0)
	same(t, "actions", f.statuses(e), []eventhook.ActionStatus{eventhook.ActionSuccess, eventhook.ActionPending})

	f.settleRequest(s.Actions[1].Effect.Request.Delivery, eventhook.DeliverySuccess)
	same(t, "event at the end", f.storedEvent(e).Status, eventhook.EventDelivered)
	actions := f.actions(e)
	same(t, "its actions", f.statuses(e), []eventhook.ActionStatus{eventhook.ActionSuccess, eventhook.ActionSuccess})
	same(t, "completion times", []time.Time{actions[0].CompletedAt.UTC(), actions[1].CompletedAt.UTC()}, []time.Time{noon, noon.Add(day)})
}

// The engine of a workflow already had one with the id.
func TestARequestThatChangedNothingIsSkipped(t *testing.T) {
	f := setUp(t)
	e := f.leasedEvents(1)[0]
	workflow, promise := requestAction(""), requestAction("")
	workflow.TargetType, promise.TargetType = eventhook.TargetWorkflow, eventhook.TargetPromise
	s := f.plan(e, workflow, promise, requestAction(""))
	f.settle(f.db, s)
	settled := func(i, code int, status eventhook.DeliveryStatus) {
		d := f.claimInOrder([]*eventhook.Delivery{s.Actions[i].Effect.Request.Delivery})[0]
		f.settleDeliveries(f.db, f.settlement(d, status, func(s *outbound.DeliverySettlement) { s.Attempt.StatusCode = code }))
	}
	settled(0, eventhook.StatusExisted, eventhook.DeliverySuccess)
	settled(1, 0, eventhook.DeliverySuccess)
	settled(2, eventhook.StatusExisted, eventhook.DeliverySuccess) // 208 Already Reported of HTTP
	same(t, "event", f.storedEvent(e).Status, eventhook.EventDelivered)
	same(t, "actions", f.statuses(e), []eventhook.ActionStatus{eventhook.ActionSkipped, eventhook.ActionSuccess, eventhook.ActionSuccess})
}

func TestARetryKeepsTheActionsOfEarlierTries(t *testing.T) {
	f := setUp(t)
	e := f.leasedEvents(1)[0]
	first := f.plan(e, f.executionAction(eventhook.Task, ""), failedAction("not yet"), requestAction(""), requestAction(""), requestAction(""))
	f.settle(f.db, first)
	same(t, "the event", f.storedEvent(e).Status, eventhook.EventFailed)
	task := f.actions(e)[0].ExecutionID
	f.settleRequest(first.Actions[2].Effect.Request.Delivery, eventhook.DeliverySuccess)
	f.settleRequest(first.Actions[3].Effect.Request.Delivery, eventhook.DeliveryDead)
	same(t, "the event is still retried", f.storedEvent(e).Status, eventhook.EventFailed)
	f.clock.Advance(10 * time.Second)
	again := f.claimEvents(f.other, 1)[0]
	second := f.plan(again, f.executionAction(eventhook.Task, ""), f.executionAction(eventhook.Workflow, ""), requestAction(""), requestAction(""), requestAction(""))
	same(t, "planned again", len(second.Actions), 2)
	same(t, "open requests", second.OpenRequests, 1)
	f.settle(f.other, second)
	got := f.storedEvent(e)
	same(t, "event after the retry", []any{got.Status, got.LastError}, []any{eventhook.EventProcessing, ""})
	const done, open = eventhook.ActionSuccess, eventhook.ActionPending
	same(t, "its actions", f.statuses(e), []eventhook.ActionStatus{done, done, done, open, open})
	actions := f.actions(e)
	same(t, "the task", []any{actions[0].ExecutionID, actions[0].CompletedAt.UTC(), actions[0].Attempts}, []any{task, noon, 1})
	same(t, "the workflow", []any{actions[1].CompletedAt.UTC(), actions[1].Attempts, actions[1].ErrorMessage}, []any{noon.Add(10 * time.Second), 2, ""})
	same(t, "executions", f.count("execution", "true"), 2)
	f.settleRequest(first.Actions[3].Effect.Request.Delivery, eventhook.DeliverySuccess)
	f.settleRequest(first.Actions[4].Effect.Request.Delivery, eventhook.DeliverySuccess)
	same(t, "event at the end", f.storedEvent(e).Status, eventhook.EventDelivered)
}

// The deliveries end while the event is planned again, so its settle waits for no delivery.
func TestARequestThatEndsBeforeItsEventIsSettledEndsTheEvent(t *testing.T) {
	for _, c := range []struct {
		claim   string
		planned eventhook.DeliveryStatus // when the event was planned again
		before  func(f *fixture, d *eventhook.Delivery)
		status  eventhook.EventStatus
	}{
		{"an open request succeeds", eventhook.DeliveryPending, func(f *fixture, d *eventhook.Delivery) { f.settleRequest(d, eventhook.DeliverySuccess) }, eventhook.EventDelivered},
		{"an open request becomes dead", eventhook.DeliveryPending, func(f *fixture, d *eventhook.Delivery) { f.settleRequest(d, eventhook.DeliveryDead) }, eventhook.EventDead},
		{"a dead request is replayed and succeeds", eventhook.DeliveryDead, func(f *fixture, d *eventhook.Delivery) {
			same(f, "replayed", len(f.replay(eventhook.DeliverySelection{IDs: []eventhook.DeliveryID{d.ID}})), 1)
			f.settleRequest(d, eventhook.DeliverySuccess)
		}, eventhook.EventDelivered},
		{"a dead request is replayed and open", eventhook.DeliveryDead, func(f *fixture, d *eventhook.Delivery) {
			same(f, "replayed", len(f.replay(eventhook.DeliverySelection{IDs: []eventhook.DeliveryID{d.ID}})), 1)
		}, eventhook.EventProcessing},
	} {
		t.Run(c.claim, func(t *testing.T) {
			f := setUp(t)
			f.exec(`UPDATE eventhook.route SET targets = '[{"type":"http","url":"https://internal.example/"}]'`)
			e := f.leasedEvents(1)[0]
			first := f.plan(e, requestAction(""), failedAction("not yet"))
			f.settle(f.db, first)
			d := first.Actions[0].Effect.Request.Delivery
			if c.planned == eventhook.DeliveryDead {
				f.settleRequest(d, eventhook.DeliveryDead)
			}
			f.clock.Advance(10 * time.Second)
			again := f.plan(f.claimEvents(f.db, 1)[0], requestAction(""), f.executionAction(eventhook.Task, ""))
			c.before(f, d)
			f.settle(f.db, again)
			same(t, "the event", f.storedEvent(e).Status, c.status)
		})
	}
}

func TestReprocessingRestartsADeadRequestOnce(t *testing.T) {
	for _, status := range []eventhook.DeliveryStatus{eventhook.DeliveryDead, eventhook.DeliveryPending, eventhook.DeliverySuccess} {
		t.Run(string(status), func(t *testing.T) {
			f := setUp(t)
			e := f.leasedEvents(1)[0]
			first := f.plan(e, requestAction(`{"n":1}`), requestAction(""))
			f.settle(f.db, first)
			d := first.Actions[0].Effect.Request.Delivery
			if status != eventhook.DeliveryPending {
				f.settleRequest(d, status)
			}
			f.settleRequest(first.Actions[1].Effect.Request.Delivery, eventhook.DeliveryDead) // so that the event is dead
			before, _ := f.delivery(d.ID)
			token := f.token("delivery", d.ID)
			f.clock.Advance(time.Minute)
			same(t, "reprocessed", f.reprocess(f.db, eventhook.EventSelection{IDs: ids(e)}), ids(e))
			f.settle(f.db, f.plan(f.claimEvents(f.db, 1)[0], requestAction(`{"n":2}`), requestAction("")))
			got, attempts := f.delivery(d.ID)
			restarted := queryValue[*time.Time](f, `SELECT restarted_at FROM eventhook.delivery WHERE id = $1`, [16]byte(d.ID))
			body := queryValue[string](f, `SELECT convert_from(body, 'UTF8') FROM eventhook.event_payload WHERE event_id = $1`, [16]byte(d.ID))
			if status == eventhook.DeliveryDead {
				same(t, "the delivery", []any{got.Status, got.RetryCount, got.CompletedAt, f.token("delivery", d.ID)}, []any{eventhook.DeliveryPending, 0, (*time.Time)(nil), token + 1})
				same(t, "restarted", restarted != nil && restarted.Equal(f.clock.Now()), true)
				same(t, "its body", body, `{"n":2}`)
				same(t, "its history", len(attempts), 1)
			} else {
				same(t, "the delivery", got, before)
				same(t, "its token", f.token("delivery", d.ID), token)
				same(t, "its body", body, `{"n":1}`)
				same(t, "restarted", restarted, (*time.Time)(nil))
			}
			same(t, "deliveries", f.count("delivery", "true"), 2)
			same(t, "the event", f.storedEvent(e).Status, eventhook.EventProcessing)
			if status != eventhook.DeliverySuccess {
				f.settleRequest(d, eventhook.DeliverySuccess)
			}
			f.settleRequest(first.Actions[1].Effect.Request.Delivery, eventhook.DeliverySuccess)
			same(t, "event at the end", f.storedEvent(e).Status, eventhook.EventDelivered)
		})
	}
}

// Deliveries may have a shorter retention than events.
func TestARequestWithoutItsDelivery(t *testing.T) {
	f := setUp(t)
	events := f.leasedEvents(2)
	for i, status := range []eventhook.DeliveryStatus{eventhook.DeliverySuccess, eventhook.DeliveryDead} {
		s := f.plan(events[i], requestAction(""))
		f.settle(f.db, s)
		f.settleRequest(s.Actions[0].Effect.Request.Delivery, status) // the only due delivery
	}
	f.exec(`CREATE TABLE eventhook.kept AS SELECT * FROM eventhook.delivery`)
	f.exec(`DELETE FROM eventhook.delivery`)
	same(t, "request of a delivered event", f.actions(events[0])[0].Status, eventhook.ActionSuccess)
	got := f.actions(events[1])[0]
	same(t, "request of a dead event", []any{got.Status, got.ErrorMessage}, []any{eventhook.ActionFailed, "its delivery is past its retention"})
	f.exec(`INSERT INTO eventhook.delivery SELECT * FROM eventhook.kept; DROP TABLE eventhook.kept`, pgx.QueryExecModeSimpleProtocol)
}
