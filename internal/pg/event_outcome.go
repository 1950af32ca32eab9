package pg

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// executionStatesSQL and promiseStatesSQL read the states of effects. Primary keys.
const (
	executionStatesSQL = `SELECT id, status, coalesce(error, '') FROM eventhook.execution WHERE id = ANY($1) AND tenant_id = $2`
	promiseStatesSQL   = `SELECT id, status, coalesce(error, '') FROM eventhook.promise WHERE id = ANY($1) AND tenant_id = $2`
)

// deliveryStatesSQL counts the open and the dead deliveries of events. A delivery of a
// route counts as dead only in the current routing: see concludeEventsSQL. The ids of an
// event's deliveries are adjacent. Primary keys.
const deliveryStatesSQL = `
SELECT u.id, s.open > 0, s.ids, s.errors
FROM unnest($2::uuid[], $3::uuid[], $4::uuid[]) AS u (id, first_id, last_id)
JOIN eventhook.event e ON e.tenant_id = $1 AND e.id = u.id
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE d.status NOT IN ('success', 'dead')) AS open,
        (array_agg(d.id ORDER BY d.id) FILTER (WHERE d.status = 'dead'))[:$5] AS ids,
        (array_agg(coalesce(d.last_error, '') ORDER BY d.id) FILTER (WHERE d.status = 'dead'))[:$5] AS errors
    FROM eventhook.delivery d
    WHERE d.tenant_id = $1 AND d.id >= u.first_id AND d.id <= u.last_id AND (d.event_id = u.id) IS TRUE AND d.status <> 'success'
      AND d.destination_id <> ALL(` + operatorSubscriptions + `) AND (d.route_id IS NULL OR d.status <> 'dead' OR d.completed_at >= coalesce(e.rerouted_at, '-infinity'))
) s`

// EventOutcome returns the outcome of an event with these actions. The routes of an event
// publish events that have no routes themselves, so that it looks at the deliveries of the
// event and of those that its actions published.
func (db *DB) EventOutcome(ctx context.Context, e *eventhook.Event, actions []eventhook.Action) (eventhook.EventOutcome, error) {
	o := eventhook.EventOutcome{Outcome: eventhook.OutcomeSucceeded, Executions: map[eventhook.ExecutionID]eventhook.ExecutionStatus{},
		Promises: map[eventhook.PromiseID]eventhook.PromiseStatus{}, Published: map[eventhook.EventID]eventhook.Outcome{}}
	var effects outcomeEffects
	effects.add(e, actions)
	err := db.readOutcome(ctx, e, &o, &effects)
	if err == nil {
		addEventOutcome(&o, e, actions)
	}
	return o, translate("read the outcome of an event", err)
}

// outcomeEffects are the effects of an event. An action that was skipped refers to the
// effect of another event, whose state does not belong to the outcome.
type outcomeEffects struct {
	executions, promises, events [][16]byte
	isOwn                        map[[16]byte]bool
}

func (x *outcomeEffects) add(e *eventhook.Event, actions []eventhook.Action) {
	x.isOwn = map[[16]byte]bool{}
	x.events = [][16]byte{e.ID}
	for _, a := range actions {
		id := createdID(&a)
		if id == ([16]byte{}) {
			continue
		}
		switch isOwn := a.Status != eventhook.ActionSkipped; {
		case !a.ExecutionID.IsZero():
			x.executions, x.isOwn[id] = append(x.executions, id), isOwn
		case !a.PromiseID.IsZero():
			x.promises, x.isOwn[id] = append(x.promises, id), isOwn
		case isOwn:
			x.events, x.isOwn[id] = append(x.events, id), true
		}
	}
}

func (db *DB) readOutcome(ctx context.Context, e *eventhook.Event, o *eventhook.EventOutcome, of *outcomeEffects) error {
	err := db.readStates(ctx, executionStatesSQL, e.TenantID, of.executions, func(id [16]byte, status, text string) {
		o.Executions[id] = eventhook.ExecutionStatus(status)
		switch s := eventhook.ExecutionStatus(status); {
		case !of.isOwn[id], s == eventhook.ExecutionCompleted, s == eventhook.ExecutionCancelled:
		case s == eventhook.ExecutionDead:
			o.Fail(eventhook.Failure{Type: eventhook.FailedExecution, ID: eventhook.ExecutionID(id).String(), EventID: e.ID,
				Status: status, Error: text})
		default:
			o.Wait()
		}
	})
	if err != nil {
		return err
	}
	err = db.readStates(ctx, promiseStatesSQL, e.TenantID, of.promises, func(id [16]byte, status, text string) {
		o.Promises[id] = eventhook.PromiseStatus(status)
		switch s := eventhook.PromiseStatus(status); {
		case !of.isOwn[id], s == eventhook.PromiseResolved:
		case s == eventhook.PromisePending:
			o.Wait()
		default:
			o.Fail(eventhook.Failure{Type: eventhook.FailedPromise, ID: eventhook.PromiseID(id).String(), EventID: e.ID,
				Status: status, Error: text})
		}
	})
	if err != nil {
		return err
	}
	return db.readDeliveryStates(ctx, e, o, of.events)
}

// readStates calls add for each row with one of the ids.
func (db *DB) readStates(ctx context.Context, sql string, tenant eventhook.TenantID, ids [][16]byte,
	add func(id [16]byte, status, text string)) error {
	if len(ids) == 0 {
		return nil
	}
	rows, err := db.lists.Query(ctx, sql, ids, [16]byte(tenant))
	if err != nil {
		return err
	}
	var id [16]byte
	var status, text string
	_, err = pgx.ForEachRow(rows, []any{&id, &status, &text}, func() error {
		add(id, status, text)
		return nil
	})
	return err
}

func (db *DB) readDeliveryStates(ctx context.Context, e *eventhook.Event, o *eventhook.EventOutcome, events [][16]byte) error {
	var firstIDs, lastIDs [][16]byte
	for _, id := range events {
		first, last := eventhook.DeliveryIDRange(id)
		firstIDs, lastIDs = append(firstIDs, first), append(lastIDs, last)
	}
	rows, err := db.lists.Query(ctx, deliveryStatesSQL, [16]byte(e.TenantID), events, firstIDs, lastIDs, eventhook.MaxFailures)
	if err != nil {
		return err
	}
	var id [16]byte
	var isOpen bool
	var dead [][16]byte
	var texts []string
	_, err = pgx.ForEachRow(rows, []any{&id, &isOpen, &dead, &texts}, func() error {
		of := eventhook.OutcomeSucceeded
		if isOpen {
			of = eventhook.OutcomeInProgress
			o.Wait()
		}
		for i, delivery := range dead {
			of = eventhook.OutcomeFailed
			o.Fail(eventhook.Failure{Type: eventhook.FailedDelivery, ID: eventhook.DeliveryID(delivery).String(), EventID: id,
				Status: string(eventhook.DeliveryDead), Error: texts[i]})
		}
		if id != e.ID {
			o.Published[id] = of
		}
		return nil
	})
	return err
}

// addEventOutcome adds the state of the event itself, and its actions that failed without
// an effect.
func addEventOutcome(o *eventhook.EventOutcome, e *eventhook.Event, actions []eventhook.Action) {
	switch e.Status {
	case eventhook.EventPending, eventhook.EventProcessing, eventhook.EventFailed:
		o.Wait()
	case eventhook.EventDead:
		for _, a := range actions {
			if a.Status == eventhook.ActionFailed && !a.IsRequest {
				o.Fail(eventhook.Failure{Type: eventhook.FailedAction, ID: a.ID.String(), EventID: e.ID, Status: string(a.Status),
					Error: a.ErrorMessage})
			}
		}
		if len(o.Failures) == 0 {
			o.Fail(eventhook.Failure{Type: eventhook.FailedEvent, ID: e.ID.String(), EventID: e.ID, Status: string(e.Status),
				Error: e.LastError})
		}
	default: // final, and not failed
	}
}
