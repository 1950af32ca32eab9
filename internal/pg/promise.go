package pg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
)

// promiseResult is the effect of an outcome on its promise.
type promiseResult struct {
	id             eventhook.PromiseID
	exists         bool
	isFirstOutcome bool // false if the promise was settled before
}

// settlePromisesSQL settles pending promises, each with the outcome for its key. It
// locks promises in the order of their keys, like holdOutcomesSQL, and waits for
// concurrent transactions that settle them; expirePromisesSQL skips locked promises
// instead. Unique index, then primary key.
var settlePromisesSQL = `
WITH pending AS MATERIALIZED (
    SELECT p.id, o.status, o.value, o.error, o.event_id, o.trace_id
    FROM unnest(@tenants::uuid[], @keys::text[], @statuses::text[], @values::text[], @errors::text[], @events::uuid[], @traces::text[])
        AS o (tenant_id, key, status, value, error, event_id, trace_id)
    JOIN eventhook.promise p ON p.tenant_id = o.tenant_id AND p.idempotency_key = o.key COLLATE "C"
    WHERE p.status = 'pending'
    ORDER BY p.tenant_id, p.idempotency_key FOR UPDATE OF p
), changed AS (
    UPDATE eventhook.promise p SET status = o.status, value = o.value::json, error = o.error, settled_at = @now, due_at = NULL
    FROM pending o WHERE p.id = o.id
    RETURNING p.tenant_id, p.idempotency_key, p.id, p.status, p.error, p.workflow_execution_id, o.event_id, o.trace_id
)` + logPromisesSQL("changed", "ARRAY[c.status]", "@now") + `
SELECT tenant_id, idempotency_key, id, status FROM changed`

// holdOutcomesSQL stores outcomes that came before their promises (is_held), in the
// order of their keys. It waits for a concurrent insert of the same key and then changes
// nothing.
const holdOutcomesSQL = `
INSERT INTO eventhook.promise AS p (id, tenant_id, idempotency_key, status, value, error, created_at, settled_at, is_held)
SELECT o.id, o.tenant_id, o.key, o.status, o.value::json, o.error, @now, @now, true
FROM unnest(@tenants::uuid[], @keys::text[], @statuses::text[], @values::text[], @errors::text[], @ids::uuid[]) WITH ORDINALITY
    AS o (tenant_id, key, status, value, error, id, n)
ORDER BY o.n
ON CONFLICT (tenant_id, idempotency_key) DO NOTHING
RETURNING p.tenant_id, p.idempotency_key, p.id, p.status`

// findPromisesSQL reads promises and held outcomes. Unique index.
const findPromisesSQL = `
SELECT p.tenant_id, p.idempotency_key, p.id, p.status
FROM unnest(@tenants::uuid[], @keys::text[]) AS o (tenant_id, key)
JOIN eventhook.promise p ON p.tenant_id = o.tenant_id AND p.idempotency_key = o.key COLLATE "C"`

// promiseResults has the result of each outcome whose promise exists or that was
// stored for a later promise. Two outcomes for the same promise have different
// results, because only the first one settles it.
type promiseResults map[*effects.PromiseOutcome]promiseResult

type keyedOutcome struct {
	tenant  eventhook.TenantID
	event   *eventhook.Event // nil for an outcome of the API
	outcome *effects.PromiseOutcome
}

// promiseKey identifies a promise by its idempotency key.
type promiseKey struct {
	tenant eventhook.TenantID
	key    string
}

func (o keyedOutcome) key() promiseKey { return promiseKey{o.tenant, o.outcome.Key} }

// outcomesOf lists the outcomes of a batch in the order of their keys, so that
// concurrent batches lock promises in the same order and cannot deadlock. If two
// outcomes have the same key, the outcome of the earlier event in the batch comes
// first and settles the promise.
func outcomesOf(batch []*effects.Settlement) []keyedOutcome {
	var all []keyedOutcome
	for _, s := range batch {
		for i := range s.Actions {
			if p := s.Actions[i].Effect.Promise; p != nil && s.Actions[i].Failure == "" {
				all = append(all, keyedOutcome{s.Event.TenantID, s.Event, p})
			}
		}
	}
	slices.SortStableFunc(all, func(x, y keyedOutcome) int {
		return cmp.Or(cmp.Compare(string(x.tenant[:]), string(y.tenant[:])), cmp.Compare(x.outcome.Key, y.outcome.Key))
	})
	return all
}

// settlePromises settles the promise of each outcome. If the promise does not exist and the
// outcome may be held, it holds the outcome. It resumes the workflows that awaited these
// promises, and returns the topics to wake after the commit. outcomes must be sorted by
// key. The number of statements does not depend on the number of outcomes. Lock order:
// promises, then executions.
func settlePromises(ctx context.Context, tx pgx.Tx, outcomes []keyedOutcome, now time.Time) (_ promiseResults, topics []string, err error) {
	results := make(promiseResults, len(outcomes))
	s := promiseSettler{tx: tx, now: now, results: results}
	for len(outcomes) > 0 {
		if outcomes, err = s.settleOrHold(ctx, outcomes); err != nil {
			return nil, nil, err
		}
	}
	topics, err = resumeWorkflows(ctx, tx, s.settled, now)
	return results, topics, err
}

// concludePromise sets the status of an action that settles a promise.
func concludePromise(a *effects.PlannedAction, r promiseResult) {
	a.PromiseID = r.id
	switch {
	case !r.exists:
		a.Status = eventhook.ActionFailed
		a.ErrorMessage = fmt.Sprintf("no promise has the idempotency key %q, and on_missing is fail", a.Effect.Promise.Key)
	case !r.isFirstOutcome:
		a.Status = eventhook.ActionSkipped
	}
}

// lockWorkflowsSQL locks the workflows that await the promises, in the order of their
// ids. If two transactions settle promises of the same workflow, the second waits here
// and then sees the promise that the first has settled.
const lockWorkflowsSQL = `
SELECT e.id FROM eventhook.execution e
WHERE e.id IN (SELECT execution_id FROM eventhook.execution_await WHERE promise_id = ANY($1::uuid[]))
ORDER BY e.id FOR UPDATE`

// resumeWorkflowsSQL makes the workflows due that await no pending promise. A positive
// priority moves their place ahead.
const resumeWorkflowsSQL = `
UPDATE eventhook.execution e SET due_at = $2::timestamptz - greatest(priority, 0) * interval '1 minute'
WHERE e.id = ANY($1::uuid[]) AND e.status = 'suspended'
  AND NOT EXISTS (SELECT FROM eventhook.execution_await w JOIN eventhook.promise p ON p.id = w.promise_id
                  WHERE w.execution_id = e.id AND p.status = 'pending')
RETURNING e.tenant_id, e.queue`

// resumeWorkflows makes each workflow due that awaited one of the settled promises
// and awaits no pending promise. It returns the topics to wake after the commit.
func resumeWorkflows(ctx context.Context, tx pgx.Tx, settled []eventhook.PromiseID, now time.Time) (topics []string, err error) {
	if len(settled) == 0 {
		return nil, nil
	}
	rows, err := tx.Query(ctx, lockWorkflowsSQL, uuids(settled))
	if err != nil {
		return nil, fmt.Errorf("lock awaiting workflows: %w", err)
	}
	waiting, err := pgx.CollectRows(rows, pgx.RowTo[[16]byte])
	if err != nil {
		return nil, fmt.Errorf("lock awaiting workflows: %w", err)
	}
	if len(waiting) == 0 {
		return nil, nil
	}
	if rows, err = tx.Query(ctx, resumeWorkflowsSQL, waiting, now); err != nil {
		return nil, fmt.Errorf("resume awaiting workflows: %w", err)
	}
	var tenant eventhook.TenantID
	var queue string
	_, err = pgx.ForEachRow(rows, []any{(*[16]byte)(&tenant), &queue}, func() error {
		topics = append(topics, workTopic(tenant, queue))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("resume awaiting workflows: %w", err)
	}
	return topics, nil
}

// createPromiseSQL creates a promise, or turns a held outcome for its key into the
// promise. It returns no row if the promise exists.
var createPromiseSQL = newChangeSQL(`
WITH changed AS (
INSERT INTO eventhook.promise AS p (id, tenant_id, idempotency_key, status, workflow_execution_id, expires_at, due_at, created_at)
VALUES (@id, @tenant, @key, 'pending', @workflow, @expires_at, @expires_at, @now)
ON CONFLICT (tenant_id, idempotency_key) DO UPDATE
    SET is_held = false, workflow_execution_id = excluded.workflow_execution_id, created_at = excluded.created_at
    WHERE p.is_held
RETURNING *, `+noEvent+`
)`, logPromisesSQL("changed", "CASE c.status WHEN 'pending' THEN ARRAY['created'] ELSE ARRAY['created', c.status] END", "@now"), `
SELECT `+promiseColumns+` FROM changed`)

const promiseColumns = `id, tenant_id, idempotency_key, status, value, coalesce(error, ''), workflow_execution_id, expires_at, created_at, settled_at`

// CreatePromise creates a promise with an idempotency key that is unique in its tenant.
// If a promise with the key exists, CreatePromise returns it and created is false. If an
// outcome is held for the key, the new promise is settled with it. The error is of
// KindInvalid if WorkflowExecutionID is set and is not the id of a workflow of the tenant.
func (db *DB) CreatePromise(ctx context.Context, p eventhook.Promise) (_ eventhook.Promise, created bool, err error) {
	if !p.WorkflowExecutionID.IsZero() {
		x, err := db.Execution(ctx, p.TenantID, p.WorkflowExecutionID)
		if err != nil && eventhook.KindOf(err) != eventhook.KindNotFound {
			return eventhook.Promise{}, false, err
		}
		if x.Type != eventhook.Workflow {
			return eventhook.Promise{}, false, invalid("body.workflow_execution_id", "is not the id of a workflow of this tenant")
		}
	}
	now := db.now()
	row := db.work.QueryRow(ctx, db.form(ctx, p.TenantID, createPromiseSQL),
		pgx.StrictNamedArgs{"id": [16]byte(eventhook.NewID[eventhook.Promise](now)), "tenant": [16]byte(p.TenantID),
			"key": p.IdempotencyKey, "workflow": uuidArg(p.WorkflowExecutionID), "expires_at": p.ExpiresAt, "now": now})
	result, err := scanPromise(row)
	if err == nil {
		return result, true, nil
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return eventhook.Promise{}, false, translate("create promise", err)
	}
	result, err = db.PromiseByKey(ctx, p.TenantID, p.IdempotencyKey)
	return result, false, err
}

// Promise returns one of the tenant's promises, or KindNotFound. If id is that of a held
// outcome, whose promise does not exist yet, the error names its key. Primary key.
func (db *DB) Promise(ctx context.Context, tenant eventhook.TenantID, id eventhook.PromiseID) (eventhook.Promise, error) {
	row := db.work.QueryRow(ctx, `SELECT `+promiseColumns+`, is_held FROM eventhook.promise WHERE id = $1 AND tenant_id = $2`, [16]byte(id), [16]byte(tenant))
	var isHeld bool
	p, err := scanPromise(row, &isHeld)
	if isHeld {
		return eventhook.Promise{}, &eventhook.Error{Kind: eventhook.KindNotFound,
			Message: fmt.Sprintf("the promise does not exist yet; an outcome is held for its idempotency key %q, and creating the promise settles it", p.IdempotencyKey)}
	}
	return p, translate("read promise", notFound(err, "promise"))
}

// PromiseByKey returns the tenant's promise with a key, or KindNotFound.
func (db *DB) PromiseByKey(ctx context.Context, tenant eventhook.TenantID, key string) (eventhook.Promise, error) {
	row := db.work.QueryRow(ctx, `SELECT `+promiseColumns+` FROM eventhook.promise WHERE tenant_id = $1 AND idempotency_key = $2 AND NOT is_held`, [16]byte(tenant), key)
	p, err := scanPromise(row)
	return p, translate("read promise", notFound(err, "promise"))
}

// SettlePromise settles a promise by its id, resumes the workflows that await no other
// pending promise, and returns the settled promise. The error is of KindNotFound if the promise does
// not exist, and of KindConflict if it is settled already.
func (db *DB) SettlePromise(ctx context.Context, tenant eventhook.TenantID, id eventhook.PromiseID, o effects.PromiseOutcome) (eventhook.Promise, error) {
	p, err := db.Promise(ctx, tenant, id)
	if err != nil {
		return p, err
	}
	o.Key, o.Hold = p.IdempotencyKey, false
	var topics []string
	err = db.inTx(ctx, "settle promise", func(tx pgx.Tx) error {
		results, awaiting, err := settlePromises(ctx, tx, []keyedOutcome{{tenant: tenant, outcome: &o}}, db.now())
		if err != nil {
			return err
		}
		if !results[&o].isFirstOutcome {
			return &eventhook.Error{Kind: eventhook.KindConflict, Message: "the promise is settled already"}
		}
		topics = awaiting
		return nil
	})
	if err != nil {
		return p, err
	}
	db.hub.wake(append(topics, promiseTopic(tenant, id))...)
	return db.Promise(ctx, tenant, id)
}

// expirePromisesSQL expires promises that are due. Index promise_due.
var expirePromisesSQL = `
WITH expired AS MATERIALIZED (
    SELECT id FROM eventhook.promise WHERE due_at <= $1 ORDER BY due_at LIMIT 500 FOR UPDATE SKIP LOCKED
), changed AS (
    UPDATE eventhook.promise p SET status = 'expired', settled_at = $1, due_at = NULL
    FROM expired
    WHERE p.id = expired.id AND p.status = 'pending'
    RETURNING p.*, ` + noEvent + `
)` + logPromisesSQL("changed", "ARRAY['expired']", "$1") + `
SELECT id, tenant_id FROM changed`

// ExpirePromises expires up to 500 promises whose expires_at has passed, resumes the
// workflows that await no other pending promise, and returns the number of expired promises.
func (db *DB) ExpirePromises(ctx context.Context) (int, error) {
	var ids []eventhook.PromiseID
	var topics []string
	err := db.inTx(ctx, "expire promises", func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, expirePromisesSQL, db.now())
		if err != nil {
			return err
		}
		var id eventhook.PromiseID
		var tenant eventhook.TenantID
		_, err = pgx.ForEachRow(rows, []any{(*[16]byte)(&id), (*[16]byte)(&tenant)}, func() error {
			ids = append(ids, id)
			topics = append(topics, promiseTopic(tenant, id))
			return nil
		})
		if err != nil {
			return err
		}
		awaiting, err := resumeWorkflows(ctx, tx, ids, db.now())
		topics = append(topics, awaiting...)
		return err
	})
	if err == nil {
		db.hub.wake(topics...)
	}
	return len(ids), err
}

// scanPromise scans promiseColumns, followed by more.
func scanPromise(row pgx.Row, more ...any) (p eventhook.Promise, err error) {
	var status string
	var workflow *[16]byte
	err = row.Scan(append([]any{(*[16]byte)(&p.ID), (*[16]byte)(&p.TenantID), &p.IdempotencyKey, &status, (*[]byte)(&p.Value), &p.Error,
		&workflow, &p.ExpiresAt, &p.CreatedAt, &p.SettledAt}, more...)...)
	p.Status = eventhook.PromiseStatus(status)
	if workflow != nil {
		p.WorkflowExecutionID = *workflow
	}
	return p, err
}

// promiseSettler settles promises in a transaction and collects the results.
type promiseSettler struct {
	tx      pgx.Tx
	now     time.Time
	results promiseResults        // without outcomes whose promises do not exist
	settled []eventhook.PromiseID // promises that workflows may await
}

// settleOrHold settles pending promises and holds outcomes whose promises do not exist. It
// returns the outcomes whose promises another transaction created after settlePromisesSQL.
// The caller passes these to settleOrHold again.
func (s *promiseSettler) settleOrHold(ctx context.Context, outcomes []keyedOutcome) (left []keyedOutcome, err error) {
	first := firstPerKey(outcomes, false)
	found, err := s.query(ctx, settlePromisesSQL, outcomeColumns(first), eventColumnsOf(first, s.now))
	if err != nil {
		return nil, fmt.Errorf("settle promises: %w", err)
	}
	for _, p := range found {
		s.settled = append(s.settled, p.id)
	}
	outcomes = s.record(outcomes, found, first)
	if held := firstPerKey(outcomes, true); len(held) > 0 {
		ids := newIDsInOrder[eventhook.Promise](s.now, len(held))
		if found, err = s.query(ctx, holdOutcomesSQL, outcomeColumns(held), pgx.NamedArgs{"now": s.now, "ids": uuids(ids)}); err != nil {
			return nil, fmt.Errorf("hold outcomes: %w", err)
		}
		outcomes = s.record(outcomes, found, held)
	}
	if len(outcomes) == 0 {
		return nil, nil
	}
	if found, err = s.query(ctx, findPromisesSQL, outcomeColumns(firstPerKey(outcomes, false)), nil); err != nil {
		return nil, fmt.Errorf("find promises: %w", err)
	}
	pending := map[promiseKey]bool{}
	for _, p := range found {
		pending[p.promiseKey] = p.status == eventhook.PromisePending
	}
	for _, o := range s.record(outcomes, found, nil) { // these promises do not exist
		pending[o.key()] = false
	}
	for _, o := range outcomes {
		if pending[o.key()] {
			left = append(left, o)
		}
	}
	return left, nil
}

// record records the results of outcomes whose promises were found, and returns the
// other outcomes. settlers are the outcomes that settled these promises. An outcome that
// comes before the settler of its key has no result: its promise did not exist yet.
func (s *promiseSettler) record(outcomes []keyedOutcome, found []foundPromise, settlers []keyedOutcome) (left []keyedOutcome) {
	ids := make(map[promiseKey]eventhook.PromiseID, len(found))
	for _, p := range found {
		ids[p.promiseKey] = p.id
	}
	settler := make(map[promiseKey]*effects.PromiseOutcome, len(settlers))
	for _, o := range settlers {
		settler[o.key()] = o.outcome
	}
	for _, o := range outcomes {
		id, ok := ids[o.key()]
		switch {
		case !ok:
			left = append(left, o)
		case settler[o.key()] == o.outcome:
			s.results[o.outcome] = promiseResult{id: id, exists: true, isFirstOutcome: true}
			delete(settler, o.key())
		case settler[o.key()] == nil:
			s.results[o.outcome] = promiseResult{id: id, exists: true}
		}
	}
	return left
}

// firstPerKey returns the first outcome of each key or, with onlyHoldable, the first
// that may be held.
func firstPerKey(outcomes []keyedOutcome, onlyHoldable bool) (first []keyedOutcome) {
	seen := map[promiseKey]bool{}
	for _, o := range outcomes {
		if k := o.key(); !seen[k] && (o.outcome.Hold || !onlyHoldable) {
			seen[k] = true
			first = append(first, o)
		}
	}
	return first
}

// outcomeColumns returns the parameters of outcomes in the statements of promises.
func outcomeColumns(outcomes []keyedOutcome) pgx.NamedArgs {
	n := len(outcomes)
	tenants, keys, states := make([][16]byte, n), make([]string, n), make([]string, n)
	values, errs := make([]*string, n), make([]*string, n)
	for i, o := range outcomes {
		tenants[i], keys[i], states[i] = o.tenant, o.outcome.Key, string(o.outcome.Status)
		values[i], errs[i] = jsonArg(o.outcome.Value), textArg(o.outcome.Error)
	}
	return pgx.NamedArgs{"tenants": tenants, "keys": keys, "statuses": states, "values": values, "errors": errs}
}

type foundPromise struct {
	promiseKey
	id     eventhook.PromiseID
	status eventhook.PromiseStatus
}

// eventColumnsOf returns the events of the outcomes and their traces.
func eventColumnsOf(outcomes []keyedOutcome, now time.Time) pgx.NamedArgs {
	events, traces := make([]*[16]byte, len(outcomes)), make([]*string, len(outcomes))
	for i, o := range outcomes {
		if o.event != nil {
			events[i], traces[i] = (*[16]byte)(&o.event.ID), new(o.event.Trace())
		}
	}
	return pgx.NamedArgs{"now": now, "events": events, "traces": traces}
}

// query runs a statement with the parameters of outcomes and more. It ignores parameters
// that the statement does not have.
func (s *promiseSettler) query(ctx context.Context, sql string, outcomes, more pgx.NamedArgs) ([]foundPromise, error) {
	maps.Copy(outcomes, more)
	rows, err := s.tx.Query(ctx, sql, outcomes)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (p foundPromise, err error) {
		err = r.Scan((*[16]byte)(&p.tenant), &p.key, (*[16]byte)(&p.id), (*string)(&p.status))
		return p, err
	})
}
