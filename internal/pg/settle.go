package pg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
)

// claimKeysSQL claims keys in their order (no deadlock) and answers what each
// stands for: the row that was to be made, or one made before. A key past its
// time is claimed anew. $6 is now. Primary key.
const claimKeysSQL = `
INSERT INTO eventhook.idempotency_key AS k (tenant_id, scope, key, made, expires_at)
SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::uuid[], $5::timestamptz[]) AS u (tenant_id, scope, key, made, expires_at)
ORDER BY tenant_id, key COLLATE "C", scope COLLATE "C"
ON CONFLICT (tenant_id, scope, key) DO UPDATE
    SET made = CASE WHEN k.expires_at <= $6 THEN excluded.made ELSE k.made END,
        expires_at = CASE WHEN k.expires_at <= $6 THEN excluded.expires_at ELSE k.expires_at END
RETURNING tenant_id, scope, key, made`

const insertExecutionsSQL = `
INSERT INTO eventhook.execution (id, tenant_id, event_id, due_at, created_at, max_attempts, input_size, type, status, queue, kind, idempotency_key, input)
SELECT id, tenant_id, event_id, $4::timestamptz, $4::timestamptz, max_attempts, input_size, type, 'pending', queue, kind, key, convert_from(input, 'UTF8')::json
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $5::int4[], $6::text[], $7::text[], $8::text[], $9::text[], $10::bytea[], $11::int4[])
    AS u (id, tenant_id, event_id, max_attempts, type, queue, kind, key, input, input_size)`

// insertExecutionsOnceSQL is for events that stay leased: when the answer to
// their settle is lost, it is repeated under the same token.
const insertExecutionsOnceSQL = insertExecutionsSQL + `
ON CONFLICT DO NOTHING`

// upsertActionsSQL writes the actions of a try. One that an earlier try left
// failed is written over, by what the route is now; one that succeeded stays.
// A pending one has not ended, and what it waits for is no attempt yet; that it
// still waits is not written again.
const upsertActionsSQL = `
INSERT INTO eventhook.event_action AS a (event_id, route_id, target_index, id, route_name, target_type, status, attempts,
    execution_id, promise_id, published_event_id, error_message, started_at, completed_at)
SELECT event_id, route_id, target_index, id, route_name, target_type, status, CASE status WHEN 'pending' THEN 0 ELSE 1 END,
    execution_id, promise_id, published_event_id, error_message, $12::timestamptz, CASE status WHEN 'pending' THEN NULL ELSE $12::timestamptz END
FROM unnest($1::uuid[], $2::uuid[], $3::int2[], $4::uuid[], $5::text[], $6::text[], $7::text[], $8::uuid[], $9::uuid[], $10::uuid[], $11::text[])
    AS u (event_id, route_id, target_index, id, route_name, target_type, status, execution_id, promise_id, published_event_id, error_message)
ON CONFLICT (event_id, route_id, target_index) DO UPDATE
    SET route_name = excluded.route_name, target_type = excluded.target_type, status = excluded.status, attempts = a.attempts + excluded.attempts, execution_id = excluded.execution_id,
        promise_id = excluded.promise_id, published_event_id = excluded.published_event_id, error_message = excluded.error_message, completed_at = excluded.completed_at
    WHERE a.status NOT IN ('success', 'skipped') AND NOT (a.status = 'pending' AND excluded.status = 'pending')`

// settleEventsSQL demands each event's lease token, so that an instance that
// wakes up late changes nothing. Whatever is written, the lease was of use, and
// no lease before it counts as lost any more. One that stays in processing keeps what was
// said of its earlier tries. Primary key lookups, one partition each.
const settleEventsSQL = `
UPDATE eventhook.event e
SET status = u.status, due_at = u.due_at, retry_count = u.retry_count, lost_leases = 0,
    last_error = CASE u.status WHEN 'processing' THEN e.last_error ELSE u.last_error END,
    processed_at = CASE u.status WHEN 'processing' THEN e.processed_at ELSE $8::timestamptz END
FROM unnest($1::uuid[], $2::uuid[], $3::int8[], $4::text[], $5::timestamptz[], $6::int4[], $7::text[])
    AS u (id, tenant_id, lease_token, status, due_at, retry_count, last_error)
WHERE e.tenant_id = u.tenant_id AND e.id = u.id AND e.lease_token = u.lease_token AND e.status = 'processing'
RETURNING e.id`

// settleColumns are the parameters of the statements of a settle.
type settleColumns struct{ keys, executions, generations, publications, actions, events *columns }

func newSettleColumns() *settleColumns {
	return &settleColumns{
		keys:         newColumns(uuidOID, textOID, textOID, uuidOID, timeOID, 0),
		executions:   newColumns(uuidOID, uuidOID, uuidOID, 0, int4OID, textOID, textOID, textOID, textOID, byteaOID, int4OID),
		generations:  newColumns(uuidOID),
		publications: newColumns(publicationOIDs...),
		actions:      newColumns(uuidOID, uuidOID, int2OID, uuidOID, textOID, textOID, textOID, uuidOID, uuidOID, uuidOID, textOID, 0),
		events:       newColumns(uuidOID, uuidOID, int8OID, textOID, timeOID, int4OID, textOID, 0),
	}
}

// SettleEvents carries out the effects of a batch of leased events, records
// their actions and ends their leases, in one transaction: all of it happens,
// once, or nothing does. Each settlement is concluded afterwards. One with calls
// that are still to be made stays leased, by the same token, until its
// HoldUntil. Events whose lease was lost are left alone and returned; nothing of
// them is written. One that would make what the database refuses is dead, with
// all its actions failed, and costs no other event anything; the rest of the
// batch is then settled in several transactions.
//
// What is published is stored with its deliveries. When one was matched against
// subscriptions that have changed since, the error is ErrStaleSubscriptions;
// match all of the batch again and settle it again. Nothing was written, but for
// such a batch that is settled in parts: of those, what was settled is lost then.
func (db *DB) SettleEvents(ctx context.Context, batch []*effects.Settlement) (lost []*effects.Settlement, err error) {
	for len(batch) > 0 {
		held, err := db.trySettle(ctx, batch)
		if hasCode(err, codeDeadlock, codeSerialization) {
			db.log.Warn("settling a batch again", "error", err)
			continue
		}
		if isDataError(err) {
			more, err := db.settleParts(ctx, batch, err)
			return append(lost, more...), err
		}
		if err != nil {
			return nil, fmt.Errorf("settle events: %w", err)
		}
		if held == nil {
			return lost, nil
		}
		kept := batch[:0:0]
		for _, s := range batch {
			if held[s.Event.ID] {
				kept = append(kept, s)
			} else {
				lost = append(lost, s)
			}
		}
		batch = kept
	}
	return lost, nil
}

var errNoAnswer = errors.New("the database answered nothing")

// settleParts is the way out when the database refused a batch for what one
// event would have made: it goes again in halves, down to the event that is to
// blame. One that is alone goes once more, since a partition attached meanwhile
// refuses a row that was on its way to the default partition; then what it was
// to make is given up.
func (db *DB) settleParts(ctx context.Context, batch []*effects.Settlement, refusal error) (lost []*effects.Settlement, err error) {
	if len(batch) > 1 {
		half := len(batch) / 2
		first, err := db.SettleEvents(ctx, batch[:half])
		if err != nil {
			return nil, err
		}
		second, err := db.SettleEvents(ctx, batch[half:])
		return append(first, second...), err
	}
	held, err := db.trySettle(ctx, batch)
	if isDataError(err) {
		db.log.Error("the database refused what an event was to make", "event", batch[0].Event.ID, "error", refusal)
		for i := range batch[0].Actions {
			if a := &batch[0].Actions[i]; isOpen(a) {
				a.Failure, a.Permanent = "the database refused what this event was to make", true
			}
		}
		held, err = db.trySettle(ctx, batch)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("settle events: %w", err)
	case held != nil:
		return batch, nil
	}
	return nil, nil
}

// trySettle returns nil when it committed, else the events whose lease still
// held when it rolled back.
func (db *DB) trySettle(ctx context.Context, batch []*effects.Settlement) (held map[eventhook.EventID]bool, err error) {
	now := db.now()
	c := db.settleBufs.Get().(*settleColumns) //nolint:forcetypeassert // the pool holds nothing else
	defer db.settleBufs.Put(c)
	errRollback := fmt.Errorf("a lease was lost")
	var woken []string
	err = pgx.BeginFunc(ctx, db.work, func(tx pgx.Tx) error {
		made, err := db.claimTargetKeys(ctx, tx, c.keys, batch, now)
		if err != nil {
			return err
		}
		settled, topics, err := settlePromises(ctx, tx, promiseOutcomes(batch), now)
		if err != nil {
			return err
		}
		woken = topics
		for _, s := range batch {
			concludeActions(s, made, settled)
			s.Conclude(now)
		}
		// Events first: a lost lease must be seen even if what it would have
		// made exists, as after a commit whose answer did not arrive.
		b := &pgconn.Batch{}
		queueEvents(b, c.events, batch, now)
		publishes := queueGenerations(b, c.generations, batch)
		queueExecutions(b, c.executions, batch, now)
		if err := queuePublications(b, c.publications, batch, now); err != nil {
			return err
		}
		queueActions(b, c.actions, batch, now)
		results, err := tx.Conn().PgConn().ExecBatch(ctx, b).ReadAll()
		if len(results) == 0 || results[0].Err != nil {
			return cmp.Or(err, errNoAnswer)
		}
		rows := results[0].Rows
		if len(rows) == len(batch) {
			if err == nil && publishes && isStale(batch, results[1].Rows) {
				return eventhook.ErrStaleSubscriptions
			}
			return err
		}
		held = make(map[eventhook.EventID]bool, len(rows))
		for _, row := range rows {
			held[eventhook.EventID(row[0])] = true
		}
		return errRollback
	})
	if err == errRollback { //nolint:errorlint // our own, unwrapped
		return held, nil
	}
	if err == nil {
		db.wakeWorkers(batch, woken)
		db.tellSettled(batch)
	}
	return nil, err
}

// isOpen reports whether an action is to be done: it has not failed already,
// and no earlier settle has written it.
func isOpen(a *effects.PlannedAction) bool { return a.Failure == "" && !a.IsSettled }

// targetKey is a key in the scope of what it makes.
type targetKey struct {
	tenant eventhook.TenantID
	scope  string
	key    string
}

// keyOf is the key of what an action makes, if it has one: unique among those
// of its kind, so that one event may make several kinds of things by the same
// key, and two sources the same thing once.
func keyOf(s *effects.Settlement, a *effects.PlannedAction) (k targetKey, ok bool) {
	switch x, p := a.Effect.Execution, a.Effect.Publication; {
	case x != nil && x.IdempotencyKey != "":
		return targetKey{x.TenantID, string(x.Type) + "/" + x.Kind, x.IdempotencyKey}, true
	case p != nil && p.IdempotencyKey != "":
		return targetKey{s.Event.TenantID, "publish/" + p.EventType, p.IdempotencyKey}, true
	}
	return k, false
}

// idOf is the id of what an action makes, if that is an execution or an event.
func idOf(a *effects.PlannedAction) (id [16]byte) {
	switch {
	case a.Effect.Execution != nil:
		return a.Effect.Execution.ID
	case a.Effect.Publication != nil:
		return a.Effect.Publication.ID
	}
	return id
}

// claimTargetKeys answers what each key stands for: the first that had it.
func (db *DB) claimTargetKeys(ctx context.Context, tx pgx.Tx, c *columns, batch []*effects.Settlement, now time.Time) (map[targetKey][16]byte, error) {
	made := map[targetKey][16]byte{}
	c.reset()
	for _, s := range batch {
		for i := range s.Actions {
			a := &s.Actions[i]
			k, ok := keyOf(s, a)
			if !ok || !isOpen(a) {
				continue
			}
			if _, twice := made[k]; twice {
				continue
			}
			makes := idOf(a)
			made[k] = makes
			c.uuid(0, k.tenant)
			c.text(1, k.scope)
			c.text(2, k.key)
			c.uuid(3, makes)
			c.time(4, now.Add(eventhook.TargetKeyTTL))
		}
	}
	if c.rows() == 0 {
		return made, nil
	}
	params := c.encoded()
	params[5] = scalarTime(now)
	result := tx.Conn().PgConn().ExecPrepared(ctx, "claim_keys", params, c.formats, binaryResults).Read()
	if result.Err != nil {
		return nil, result.Err
	}
	for _, row := range result.Rows {
		made[targetKey{eventhook.TenantID(row[0]), string(row[1]), string(row[2])}] = [16]byte(row[3])
	}
	return made, nil
}

// concludeActions gives each action its state from what the database answered,
// but for those that an earlier settle has concluded.
func concludeActions(s *effects.Settlement, made map[targetKey][16]byte, settled promiseResults) {
	for i := range s.Actions {
		a := &s.Actions[i]
		if a.IsSettled {
			continue
		}
		a.Status, a.ErrorMessage = eventhook.ActionSuccess, ""
		if a.Failure != "" {
			a.Status, a.ErrorMessage = eventhook.ActionFailed, a.Failure
			continue
		}
		makes := idOf(a)
		if k, ok := keyOf(s, a); ok && made[k] != makes {
			a.Status, makes = eventhook.ActionSkipped, made[k]
		}
		switch {
		case a.Effect.Execution != nil:
			a.ExecutionID = makes
		case a.Effect.Publication != nil:
			a.PublishedEventID = makes
		case a.Effect.Promise != nil:
			concludePromise(a, settled[a.Effect.Promise])
		case a.Effect.Call != nil && !a.IsCalled:
			a.Status = eventhook.ActionPending
		}
	}
}

func queueExecutions(b *pgconn.Batch, c *columns, batch []*effects.Settlement, now time.Time) {
	c.reset()
	for _, s := range batch {
		for i := range s.Actions {
			a := &s.Actions[i]
			x := a.Effect.Execution
			if x == nil || a.Status != eventhook.ActionSuccess || a.IsSettled {
				continue
			}
			c.uuid(0, x.ID)
			c.uuid(1, x.TenantID)
			c.uuid(2, x.EventID)
			c.int4(4, x.MaxAttempts)
			c.text(5, string(x.Type))
			c.text(6, x.Queue)
			c.text(7, x.Kind)
			c.optional(8, x.IdempotencyKey)
			c.optionalBytes(9, x.Input)
			c.int4(10, inputSize(x, s.Event))
		}
	}
	statement := "insert_executions"
	if slices.ContainsFunc(batch, isHeld) {
		statement = "insert_executions_once"
	}
	queue(b, statement, c, 3, now)
}

// inputSize is the bytes of an execution's input: its own, or its event's body.
func inputSize(x *eventhook.Execution, e *eventhook.Event) int {
	if x.Input != nil {
		return len(x.Input)
	}
	return e.BodySize
}

func queueActions(b *pgconn.Batch, c *columns, batch []*effects.Settlement, now time.Time) {
	c.reset()
	for _, s := range batch {
		for i := range s.Actions {
			a := &s.Actions[i]
			if a.IsSettled {
				continue
			}
			c.uuid(0, a.EventID)
			c.uuid(1, a.RouteID)
			c.int2(2, a.TargetIndex)
			c.uuid(3, a.ID)
			c.text(4, a.RouteName)
			c.text(5, a.TargetType)
			c.text(6, string(a.Status))
			c.uuid(7, a.ExecutionID)
			c.uuid(8, a.PromiseID)
			c.uuid(9, a.PublishedEventID)
			c.optional(10, eventhook.Text(a.ErrorMessage))
		}
	}
	queue(b, "upsert_actions", c, 11, now)
}

func queueEvents(b *pgconn.Batch, c *columns, batch []*effects.Settlement, now time.Time) {
	c.reset()
	// One order for all, so that two settles wait for each other at worst.
	slices.SortFunc(batch, func(x, y *effects.Settlement) int {
		return cmp.Compare(string(x.Event.ID[:]), string(y.Event.ID[:]))
	})
	for _, s := range batch {
		e := s.Event
		c.uuid(0, e.ID)
		c.uuid(1, e.TenantID)
		c.int8(2, e.Lease.Token)
		c.text(3, string(s.Status))
		c.time(4, dueAt(s))
		c.int4(5, s.RetryCount)
		c.optional(6, eventhook.Text(s.LastError))
	}
	queue(b, "settle_events", c, 7, now)
}

// isHeld reports whether an event stays leased for its calls.
func isHeld(s *effects.Settlement) bool { return s.Status == eventhook.EventProcessing }

// dueAt is when an event is owed again: at its retry, or when the lease ends
// under which its calls are made.
func dueAt(s *effects.Settlement) time.Time {
	switch {
	case !isHeld(s):
		return s.NextRetryAt
	case s.HoldUntil.IsZero():
		return s.Event.Lease.Until // an event in processing is always owed
	}
	return s.HoldUntil
}

// queue adds a statement to the batch if it has rows; its parameter nowParam
// is the one moment of the whole act, not an array.
func queue(b *pgconn.Batch, statement string, c *columns, nowParam int, now time.Time) {
	if c.rows() == 0 {
		return
	}
	params := c.encoded()
	params[nowParam] = scalarTime(now)
	b.ExecPrepared(statement, params, c.formats, binaryResults)
}
