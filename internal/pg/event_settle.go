package pg

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/route"
)

var _ route.Queue = (*DB)(nil)

// settleEventsSQL updates events whose lease token is current, so that an instance whose
// lease was lost changes nothing. An event that waits for its requests (processing, due_at
// NULL) has been settled. Settling an event resets its count of lost leases. Primary key
// lookups, one partition each.
var settleEventsSQL = newStatement("settle_events", `
UPDATE eventhook.event e
SET status = events.status, due_at = events.due_at, retry_count = events.retry_count, lost_leases = 0, last_error = events.last_error,
    processed_at = CASE events.status WHEN 'processing' THEN e.processed_at ELSE @now::timestamptz END,
    actions = coalesce(events.actions::json, e.actions)
FROM @events(id uuid, tenant_id uuid, lease_token int8, status text, due_at timestamptz, retry_count int4, last_error text, actions text)
WHERE e.tenant_id = events.tenant_id AND e.id = events.id AND e.lease_token = events.lease_token
  AND e.status = 'processing' AND e.due_at IS NOT NULL
RETURNING e.id`)

var (
	settleEventID         = settleEventsSQL.uuid("events.id")
	settleEventTenant     = settleEventsSQL.uuid("events.tenant_id")
	settleEventToken      = settleEventsSQL.int8("events.lease_token")
	settleEventStatus     = settleEventsSQL.text("events.status")
	settleEventDueAt      = settleEventsSQL.time("events.due_at")
	settleEventRetryCount = settleEventsSQL.int4("events.retry_count")
	settleEventError      = settleEventsSQL.text("events.last_error")
	settleEventActions    = settleEventsSQL.text("events.actions")
	settleEventNow        = settleEventsSQL.moment("now")
)

// generationsSQL reads the generations of tenants' configurations, 0 for a tenant that has no
// generation yet. Primary key.
var generationsSQL = newStatement("generations", `
SELECT tenants.id, coalesce(g.generation, 0) + `+operatorGeneration+` FROM @tenants(id uuid) LEFT JOIN eventhook.tenant_generation g ON g.tenant_id = tenants.id`)

var generationTenant = generationsSQL.uuid("tenants.id")

// settleColumns are the parameters of the statements of a settle.
type settleColumns struct {
	events, generations, waiting *columns
	effectColumns
}

func newSettleColumns(instance eventhook.InstanceID) *settleColumns {
	return &settleColumns{
		events:        newColumns(settleEventsSQL),
		generations:   newColumns(generationsSQL),
		waiting:       newColumns(concludeEventsSQL),
		effectColumns: newEffectColumns(instance),
	}
}

// SettleEvents stores the effects of a batch of leased events, records their actions and
// ends their leases, in one transaction. It concludes each settlement, which sets its
// results, and sorts the batch.
// SettleEvents returns the settlements of which nothing was written, because the lease
// was lost, or because the tenant's configuration has changed since the event was planned
// (IsStale). If the database refuses the effects of an event, the event becomes dead with
// all its actions failed, and the rest of the batch is settled in several transactions.
func (db *DB) SettleEvents(ctx context.Context, batch []*effects.Settlement) (unsettled []*effects.Settlement, err error) {
	for len(batch) > 0 {
		refused, err := db.trySettle(ctx, batch)
		if hasCode(err, codeDeadlock, codeSerialization) {
			db.log.Warn("retrying a batch of settlements after a conflict with another transaction", "error", err)
			continue
		}
		if isDataError(err) {
			more, err := db.settleParts(ctx, batch, err)
			return append(unsettled, more...), err
		}
		if err != nil {
			return nil, fmt.Errorf("settle events: %w", err)
		}
		if len(refused) == 0 {
			return unsettled, nil
		}
		unsettled = append(unsettled, refused...)
		batch = slices.DeleteFunc(slices.Clone(batch), func(s *effects.Settlement) bool { return slices.Contains(refused, s) })
	}
	return unsettled, nil
}

var errNoAnswer = errors.New("the database returned no result")

// settleParts handles a batch that the database refused because of one event. It
// settles the halves separately, down to that event. A single event is tried once more:
// while a partition is attached, the database refuses a row for the default partition that
// belongs to the new one. If the event is refused again, all its actions fail permanently.
func (db *DB) settleParts(ctx context.Context, batch []*effects.Settlement, refusal error) (unsettled []*effects.Settlement, err error) {
	if len(batch) > 1 {
		half := len(batch) / 2
		first, err := db.SettleEvents(ctx, batch[:half])
		if err != nil {
			return nil, err
		}
		second, err := db.SettleEvents(ctx, batch[half:])
		return append(first, second...), err
	}
	unsettled, err = db.trySettle(ctx, batch)
	if isDataError(err) {
		db.log.Error("the database refused the effects of an event", "event", batch[0].Event.ID, "trace_id", batch[0].Event.Trace(),
			"error", refusal)
		for i := range batch[0].Actions {
			if a := &batch[0].Actions[i]; a.Failure == "" {
				a.Failure, a.Permanent = "the database refused the effect of this action", true
			}
		}
		unsettled, err = db.trySettle(ctx, batch)
	}
	if err != nil {
		return nil, fmt.Errorf("settle events: %w", err)
	}
	return unsettled, nil
}

// trySettle settles a batch in one transaction. If a lease was lost or a plan is stale,
// it writes nothing and returns these settlements; the rest of the batch can be tried
// again.
func (db *DB) trySettle(ctx context.Context, batch []*effects.Settlement) (unsettled []*effects.Settlement, err error) {
	now := db.now()
	c := db.settleBufs.Get().(*settleColumns) //nolint:forcetypeassert // the pool holds nothing else
	defer db.settleBufs.Put(c)
	var topics []string
	err = db.inTxIf(ctx, func(tx pgx.Tx) (commit bool, err error) {
		claimed, err := c.claimKeys(ctx, tx, batch, now)
		if err != nil {
			return false, err
		}
		settled, promiseTopics, err := settlePromises(ctx, tx, outcomesOf(batch), now)
		if err != nil {
			return false, err
		}
		topics = promiseTopics
		for _, s := range batch {
			concludeActions(s, claimed, settled)
			s.Conclude(now)
		}
		b, ordered := c.statements(batch, now)
		results, err := tx.Conn().PgConn().ExecBatch(ctx, b).ReadAll()
		const events, generations = 0, 1
		if len(results) <= generations || results[events].Err != nil || results[generations].Err != nil {
			return false, cmp.Or(err, errNoAnswer)
		}
		setStale(batch, results[generations].Rows)
		unsettled = unsettledOf(batch, results[events].Rows)
		if len(unsettled) > 0 {
			return false, nil // ignores an error of a later statement: the transaction is rolled back
		}
		if err == nil {
			c.ordered.conclude(results[ordered].Rows)
		}
		return true, err
	})
	if err == nil && len(unsettled) == 0 && c.ordered.isUsed() {
		err = db.flush(ctx)
	}
	if err != nil || len(unsettled) > 0 {
		return unsettled, err
	}
	db.wakeWorkers(batch, topics)
	db.notifySettled(batch)
	return nil, nil
}

// unsettledOf returns the settlements that are stale or of which settleEventsSQL
// returned no row.
func unsettledOf(batch []*effects.Settlement, rows [][][]byte) (unsettled []*effects.Settlement) {
	isLeased := make(map[eventhook.EventID]bool, len(rows))
	for _, row := range rows {
		isLeased[eventhook.EventID(row[0])] = true
	}
	for _, s := range batch {
		if s.IsStale || !isLeased[s.Event.ID] {
			unsettled = append(unsettled, s)
		}
	}
	return unsettled
}

// claimKeys claims the keys of a batch's effects. It returns nil if there are no keys.
func (c *settleColumns) claimKeys(ctx context.Context, tx pgx.Tx, batch []*effects.Settlement, now time.Time) (claimedKeys, error) {
	claimed := c.encodeKeys(batch, now)
	if claimed == nil {
		return nil, nil //nolint:nilnil // no key was claimed
	}
	params, formats := c.keys.values(claimKeysSQL)
	result := tx.Conn().PgConn().ExecPrepared(ctx, claimKeysSQL.name, params, formats, binaryResults).Read()
	claimed.read(result.Rows)
	return claimed, result.Err
}

// statements returns the statements of a settle. They update the events first: a lost
// lease must be noticed even if the effects exist, as after a commit whose result did not
// arrive. ordered is the number of the statement that stores ordered deliveries, if the batch
// has any.
func (c *settleColumns) statements(batch []*effects.Settlement, now time.Time) (b *pgconn.Batch, ordered int) {
	b, ordered = &pgconn.Batch{}, -1
	send := func(s *statement, c *columns) {
		batchSender(b)(s, c)
		ordered++
	}
	c.encodeSettlements(batch, now)
	statementSender(send).rows(settleEventsSQL, c.events)
	statementSender(send).rows(generationsSQL, c.generations)
	c.store(send, batch, now)
	if waiting := eventsWithOpenRequests(batch); len(waiting) > 0 {
		encodeEventKeys(c.waiting, waiting)
		queueConcludeEvents(b, c.waiting, now)
	}
	return b, ordered
}

// eventsWithOpenRequests returns the events of a batch that wait for requests of earlier
// tries, which may have been settled since they were read: open ones, and dead ones that
// an operator has restarted. Other events only have deliveries of this transaction.
func eventsWithOpenRequests(batch []*effects.Settlement) (list []eventKey) {
	for _, s := range batch {
		if s.Status == eventhook.EventProcessing && len(s.Prior) > 0 {
			list = append(list, eventKey{s.Event.TenantID, s.Event.ID})
		}
	}
	return list
}

func (c *settleColumns) encodeSettlements(batch []*effects.Settlement, now time.Time) {
	c.events.reset()
	c.events.moment(settleEventNow, now)
	c.generations.reset()
	isListed := map[eventhook.TenantID]bool{}
	// All transactions use this order, so that two of them may wait for each other but do not deadlock.
	slices.SortFunc(batch, func(x, y *effects.Settlement) int {
		return cmp.Compare(string(x.Event.ID[:]), string(y.Event.ID[:]))
	})
	for _, s := range batch {
		e, to := s.Event, c.events
		to.uuid(settleEventID, e.ID)
		to.uuid(settleEventTenant, e.TenantID)
		to.int8(settleEventToken, e.Lease.Token)
		to.text(settleEventStatus, string(s.Status))
		to.time(settleEventDueAt, s.NextRetryAt)
		to.int4(settleEventRetryCount, s.RetryCount)
		to.optionalText(settleEventError, eventhook.SanitizeText(s.LastError))
		if len(s.Actions)+len(s.Prior) == 0 {
			to.null(settleEventActions.column)
		} else {
			to.appendText(settleEventActions, func(b []byte) []byte { return appendActions(b, s, now) })
		}
		if !isListed[e.TenantID] {
			isListed[e.TenantID] = true
			c.generations.uuid(generationTenant, e.TenantID)
		}
	}
}

// setStale sets IsStale of the settlements whose generation differs from the current one
// of their tenant. A settlement that failed as a whole, without actions, is never stale.
func setStale(batch []*effects.Settlement, rows [][][]byte) {
	current := make(map[eventhook.TenantID]int64, len(rows))
	for _, row := range rows {
		current[eventhook.TenantID(row[0])] = int64(binary.BigEndian.Uint64(row[1]))
	}
	for _, s := range batch {
		s.IsStale = s.Failure == "" && s.Generation != current[s.Event.TenantID]
	}
}
