package pg

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/internal/payload"
)

// The actions of an event are a column of its row, a JSON array with an object for
// each: an action that succeeded at once is written with its event, and needs no row
// and no index entry of its own. An object has
//
//	r  the route's id, in unpadded URL-safe base64
//	n  the route's name; r and n are left out if both are equal to the action before
//	i  the index of the target; left out: 0
//	t  the type of the target
//	s  the status; left out: success. The status of a request is that of its delivery
//	m  the id of the execution, promise or event that was created, as r
//	e  the error
//	a  the attempts; left out: 1
//	c  when it was settled, in Unix microseconds; left out: the event's processed_at.
//	   That does not change any more if the event was delivered without a request.
//
// Events of earlier versions have rows of event_action instead. The column of such an
// event is NULL until the event is settled again.
type actionRecord struct {
	Route    string `json:"r"`
	Name     string `json:"n"`
	Index    int    `json:"i"`
	Type     string `json:"t"`
	Status   string `json:"s"`
	Made     string `json:"m"`
	Error    string `json:"e"`
	Attempts int    `json:"a"`
	At       int64  `json:"c"`
}

// requestStatus is the stored status of a request, whose actual status is that of its
// delivery.
const requestStatus = "request"

var idEncoding = base64.RawURLEncoding

// appendActions appends the actions of a concluded settlement and of earlier tries. It
// appends nothing if there are no actions.
func appendActions(b []byte, s *effects.Settlement, now time.Time) []byte {
	if len(s.Prior) == 0 && len(s.Actions) == 0 {
		return b
	}
	isFinal := s.Status == eventhook.EventDelivered && !hasRequest(s)
	settledAt := int64(0)
	if !isFinal {
		settledAt = now.UnixMicro()
	}
	retried := retriedActions(s)
	var before *eventhook.Action
	add := func(a *eventhook.Action, at int64) { b, before = appendAction(b, before, a, at), a }
	b = append(b, '[')
	for i := range s.Prior {
		a := &s.Prior[i]
		at := now
		if a.CompletedAt != nil {
			at = *a.CompletedAt
		}
		if retry := retried[actionPlace{a.RouteID, a.TargetIndex}]; retry != nil {
			add(retry, settledAt)
		} else {
			add(a, at.UnixMicro())
		}
	}
	for i := range s.Actions {
		a := &s.Actions[i].Action
		if retried[actionPlace{a.RouteID, a.TargetIndex}] == nil {
			add(a, settledAt)
		}
	}
	return append(b, ']')
}

// hasRequest reports whether a settlement or an earlier try has a request. Such an event
// may be processed again.
func hasRequest(s *effects.Settlement) bool {
	return slices.ContainsFunc(s.Prior, func(a eventhook.Action) bool { return a.IsRequest }) ||
		slices.ContainsFunc(s.Actions, func(a effects.PlannedAction) bool { return a.IsRequest })
}

// actionPlace is a target of a route.
type actionPlace struct {
	route eventhook.RouteID
	index int
}

// retriedActions returns the actions of a settlement that an earlier try also had.
// appendActions writes them in the positions of that try.
func retriedActions(s *effects.Settlement) map[actionPlace]*eventhook.Action {
	if len(s.Prior) == 0 {
		return nil
	}
	prior := make(map[actionPlace]bool, len(s.Prior))
	for i := range s.Prior {
		prior[actionPlace{s.Prior[i].RouteID, s.Prior[i].TargetIndex}] = true
	}
	retried := make(map[actionPlace]*eventhook.Action, len(s.Actions))
	for i := range s.Actions {
		a := &s.Actions[i].Action
		if at := (actionPlace{a.RouteID, a.TargetIndex}); prior[at] {
			retried[at] = a
		}
	}
	return retried
}

// appendAction appends an action. before is the action before it, nil for the first.
func appendAction(b []byte, before, a *eventhook.Action, at int64) []byte {
	if before != nil {
		b = append(b, ',')
	}
	b = append(b, '{')
	if before == nil || before.RouteID != a.RouteID || before.RouteName != a.RouteName {
		b = idEncoding.AppendEncode(append(b, `"r":"`...), a.RouteID[:])
		b = append(payload.AppendJSONString(append(b, `","n":`...), a.RouteName), ',')
	}
	if a.TargetIndex != 0 {
		b = append(strconv.AppendInt(append(b, `"i":`...), int64(a.TargetIndex), 10), ',')
	}
	b = payload.AppendJSONString(append(b, `"t":`...), a.TargetType)
	switch {
	case a.IsRequest:
		b = append(b, `,"s":"`+requestStatus+`"`...)
	case a.Status != eventhook.ActionSuccess:
		b = payload.AppendJSONString(append(b, `,"s":`...), string(a.Status))
	}
	if id := createdID(a); id != ([16]byte{}) {
		b = append(idEncoding.AppendEncode(append(b, `,"m":"`...), id[:]), '"')
	}
	if a.ErrorMessage != "" && !a.IsRequest {
		b = payload.AppendJSONString(append(b, `,"e":`...), eventhook.SanitizeText(a.ErrorMessage))
	}
	if a.Attempts > 1 && !a.IsRequest {
		b = strconv.AppendInt(append(b, `,"a":`...), int64(a.Attempts), 10)
	}
	if at != 0 {
		b = strconv.AppendInt(append(b, `,"c":`...), at, 10)
	}
	return append(b, '}')
}

// createdID returns the id of the execution, promise or event that an action created, or
// the zero id.
func createdID(a *eventhook.Action) [16]byte {
	switch {
	case !a.ExecutionID.IsZero():
		return a.ExecutionID
	case !a.PromiseID.IsZero():
		return a.PromiseID
	}
	return a.PublishedEventID
}

// readActions decodes the actions of an event. processed is its processed_at.
func readActions(event eventhook.EventID, raw []byte, processed *time.Time) ([]eventhook.Action, error) {
	var records []actionRecord
	if err := json.Unmarshal(raw, &records); err != nil {
		return nil, fmt.Errorf("read the actions of %s: %w", event, err)
	}
	list := make([]eventhook.Action, len(records))
	for i, r := range records {
		var route, made [16]byte
		if r.Route == "" && i > 0 {
			r.Route, r.Name = records[i-1].Route, records[i-1].Name
			records[i] = r
		}
		if n, err := idEncoding.Decode(route[:], []byte(r.Route)); err != nil || n != len(route) {
			return nil, fmt.Errorf("read the actions of %s: route %q is not an id", event, r.Route)
		}
		if _, err := idEncoding.Decode(made[:], []byte(r.Made)); err != nil || len(r.Made) > idEncoding.EncodedLen(len(made)) {
			return nil, fmt.Errorf("read the actions of %s: %q is not an id", event, r.Made)
		}
		list[i] = actionOf(event, r, route, made)
		at := processed
		if r.At != 0 {
			at = new(time.UnixMicro(r.At).UTC())
		}
		if list[i].CompletedAt = at; at != nil {
			list[i].StartedAt = *at
		}
	}
	return list, nil
}

func actionOf(event eventhook.EventID, r actionRecord, route, made [16]byte) eventhook.Action {
	a := eventhook.Action{
		ID: eventhook.ActionIDOf(event, route, r.Index), EventID: event, RouteID: route, RouteName: r.Name, TargetIndex: r.Index,
		TargetType: r.Type, Status: eventhook.ActionStatus(r.Status), Attempts: max(r.Attempts, 1), ErrorMessage: r.Error,
	}
	switch r.Status {
	case "":
		a.Status = eventhook.ActionSuccess
	case requestStatus:
		a.Status, a.IsRequest, a.Attempts = eventhook.ActionPending, true, 0
	}
	switch r.Type {
	case "promise":
		a.PromiseID = made
	case "publish":
		a.PublishedEventID = made
	default:
		a.ExecutionID = made
	}
	return a
}

// readActionsSQL reads the actions of events. Primary key, one partition each.
const readActionsSQL = `
SELECT e.id, e.actions, e.processed_at, e.status = 'delivered' FROM unnest($1::uuid[], $2::uuid[]) AS u (tenant_id, id)
JOIN eventhook.event e ON e.tenant_id = u.tenant_id AND e.id = u.id WHERE e.actions IS NOT NULL`

// readLegacyActionsSQL reads the actions that earlier versions wrote, except requests that
// had not ended. Primary key, one partition each.
const readLegacyActionsSQL = `
SELECT a.id, a.event_id, a.route_id, a.route_name, a.target_index, a.target_type, a.status, a.attempts,
    a.execution_id, a.promise_id, a.published_event_id, coalesce(a.error_message, ''), a.started_at, a.completed_at
FROM unnest($1::uuid[]) AS u (id) JOIN eventhook.event_action a ON a.event_id = u.id
WHERE a.status <> 'pending' ORDER BY a.event_id, a.started_at, a.route_id, a.target_index`

// readRequestsSQL reads the status of deliveries to targets of routes. The ids of an
// event's deliveries are adjacent. Primary key, one partition each. Without OFFSET 0, PostgreSQL, which
// does not know how many ids the list has, reads all deliveries of a partition once.
const readRequestsSQL = `
SELECT d.event_id, d.route_id, d.target_index, d.status, d.attempts, coalesce(d.last_error, ''), d.completed_at,
    coalesce(d.status_code, 0)
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[]) AS u (tenant_id, id, first_id, last_id)
CROSS JOIN LATERAL (
    SELECT * FROM eventhook.delivery d WHERE d.tenant_id = u.tenant_id AND d.id >= u.first_id AND d.id <= u.last_id OFFSET 0) d
WHERE d.event_id = u.id AND d.route_id IS NOT NULL`

// EventActions returns the actions of events, in the order in which the routes of an event
// created them. The status of a request is that of its delivery.
func (db *DB) EventActions(ctx context.Context, events []*eventhook.Event) (map[eventhook.EventID][]eventhook.Action, error) {
	all, err := db.collectActions(ctx, events)
	return all, translate("read actions", err)
}

func (db *DB) collectActions(ctx context.Context, events []*eventhook.Event) (map[eventhook.EventID][]eventhook.Action, error) {
	var tenants, ids, firstIDs, lastIDs [][16]byte
	for _, e := range events {
		from, until := eventhook.DeliveryIDRange(e.ID)
		tenants, ids, firstIDs, lastIDs = append(tenants, e.TenantID), append(ids, e.ID), append(firstIDs, from), append(lastIDs, until)
	}
	all := make(map[eventhook.EventID][]eventhook.Action, len(events))
	rows, err := db.work.Query(ctx, readLegacyActionsSQL, ids)
	if err != nil {
		return nil, err
	}
	legacy, err := pgx.CollectRows(rows, scanLegacyAction)
	if err != nil {
		return nil, err
	}
	for _, a := range legacy {
		all[a.EventID] = append(all[a.EventID], a)
	}
	var id eventhook.EventID
	var raw []byte
	var processed *time.Time
	var isDelivered bool
	if rows, err = db.work.Query(ctx, readActionsSQL, tenants, ids); err != nil {
		return nil, err
	}
	if _, err = pgx.ForEachRow(rows, []any{(*[16]byte)(&id), &raw, &processed, &isDelivered}, func() error {
		var err error
		all[id], err = readActions(id, raw, processed) // includes actions that an earlier version wrote
		setRequestDefaults(all[id], processed, isDelivered)
		return err
	}); err != nil {
		return nil, err
	}
	rows, err = db.work.Query(ctx, readRequestsSQL, tenants, ids, firstIDs, lastIDs)
	if err != nil {
		return nil, err
	}
	requests, err := pgx.CollectRows(rows, scanRequest)
	for _, r := range requests {
		for i := range all[r.EventID] {
			if a := &all[r.EventID][i]; a.IsRequest && a.RouteID == r.RouteID && a.TargetIndex == r.TargetIndex {
				a.Status, a.Attempts, a.ErrorMessage, a.CompletedAt = r.statusOf(a.TargetType), r.Attempts, r.ErrorMessage, r.CompletedAt
			}
		}
	}
	return all, err
}

// setRequestDefaults sets the status that the requests of an event have if their
// deliveries are past their retention. If the event is delivered, all requests were sent.
// Any other event sends them again when it is reprocessed.
func setRequestDefaults(list []eventhook.Action, processed *time.Time, isDelivered bool) {
	for i := range list {
		switch a := &list[i]; {
		case !a.IsRequest:
		case isDelivered:
			a.Status, a.CompletedAt = eventhook.ActionSuccess, processed
		default:
			a.Status, a.ErrorMessage = eventhook.ActionFailed, "its delivery is past its retention"
		}
	}
}

// requestRow is the action of a request, with the status code of its delivery.
type requestRow struct {
	eventhook.Action
	statusCode int
}

// statusOf returns the status of the action of a target of a type.
func (r *requestRow) statusOf(targetType string) eventhook.ActionStatus {
	if r.Status == eventhook.ActionSuccess && r.statusCode == eventhook.StatusExisted && targetType != eventhook.TargetHTTP {
		return eventhook.ActionSkipped
	}
	return r.Status
}

func scanRequest(r pgx.CollectableRow) (a requestRow, err error) {
	var status string
	err = r.Scan((*[16]byte)(&a.EventID), (*[16]byte)(&a.RouteID), &a.TargetIndex, &status, &a.Attempts, &a.ErrorMessage, &a.CompletedAt,
		&a.statusCode)
	switch eventhook.DeliveryStatus(status) {
	case eventhook.DeliverySuccess:
		a.Status, a.ErrorMessage = eventhook.ActionSuccess, ""
	case eventhook.DeliveryDead:
		a.Status = eventhook.ActionFailed
	default:
		a.Status = eventhook.ActionPending
	}
	return a, err
}

func scanLegacyAction(r pgx.CollectableRow) (a eventhook.Action, err error) {
	var status string
	var execution, promise, published *[16]byte
	err = r.Scan((*[16]byte)(&a.ID), (*[16]byte)(&a.EventID), (*[16]byte)(&a.RouteID), &a.RouteName, &a.TargetIndex, &a.TargetType,
		&status, &a.Attempts, &execution, &promise, &published, &a.ErrorMessage, &a.StartedAt, &a.CompletedAt)
	a.Status = eventhook.ActionStatus(status)
	if execution != nil {
		a.ExecutionID = *execution
	}
	if promise != nil {
		a.PromiseID = *promise
	}
	if published != nil {
		a.PublishedEventID = *published
	}
	return a, err
}
