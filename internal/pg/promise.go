package pg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
)

// promiseResult is what the database said to a promise outcome.
type promiseResult struct {
	id     eventhook.PromiseID
	exists bool
	won    bool // this outcome settled it; false: it was settled before
}

// settlePromisesSQL settles those of the promises that are pending, each with
// the outcome for its key. It locks them in the order of their keys, as
// everybody does, and waits for whoever is settling one. Unique index, then
// primary key.
const settlePromisesSQL = `
WITH pending AS MATERIALIZED (
    SELECT p.id, o.status, o.value, o.error
    FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[]) AS o (tenant_id, key, status, value, error)
    JOIN eventhook.promise p ON p.tenant_id = o.tenant_id AND p.idempotency_key = o.key COLLATE "C"
    WHERE p.status = 'pending'
    ORDER BY p.tenant_id, p.idempotency_key FOR UPDATE OF p
)
UPDATE eventhook.promise p SET status = o.status, value = o.value::json, error = o.error, settled_at = $6, due_at = NULL
FROM pending o WHERE p.id = o.id
RETURNING p.tenant_id, p.idempotency_key, p.id, p.status`

// holdOutcomesSQL keeps outcomes that came before their promises, in the order
// of their keys. It waits for a concurrent insert of the same key and then
// changes nothing.
const holdOutcomesSQL = `
INSERT INTO eventhook.promise AS p (id, tenant_id, idempotency_key, status, value, error, created_at, settled_at, is_held)
SELECT o.id, o.tenant_id, o.key, o.status, o.value::json, o.error, $6, $6, true
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $7::uuid[]) WITH ORDINALITY
    AS o (tenant_id, key, status, value, error, id, n)
ORDER BY o.n
ON CONFLICT (tenant_id, idempotency_key) DO NOTHING
RETURNING p.tenant_id, p.idempotency_key, p.id, p.status`

// findPromisesSQL reads promises, and outcomes that are held. Unique index.
const findPromisesSQL = `
SELECT p.tenant_id, p.idempotency_key, p.id, p.status
FROM unnest($1::uuid[], $2::text[]) AS o (tenant_id, key)
JOIN eventhook.promise p ON p.tenant_id = o.tenant_id AND p.idempotency_key = o.key COLLATE "C"`

// promiseResults are the answers to the outcomes of a batch: each has its own,
// since of two for one promise only the first wins.
type promiseResults map[*effects.PromiseOutcome]promiseResult

type keyedOutcome struct {
	tenant  eventhook.TenantID
	outcome *effects.PromiseOutcome
}

// promiseKey is what a promise is known by to those who settle it.
type promiseKey struct {
	tenant eventhook.TenantID
	key    string
}

func (o keyedOutcome) key() promiseKey { return promiseKey{o.tenant, o.outcome.Key} }

// outcomesOf lists a batch's outcomes in the order of their keys, so that
// two batches wait for each other and do not deadlock. Of two outcomes for one
// key the first event's comes first and wins.
func outcomesOf(batch []*effects.Settlement) []keyedOutcome {
	var all []keyedOutcome
	for _, s := range batch {
		for i := range s.Actions {
			if p := s.Actions[i].Effect.Promise; p != nil && s.Actions[i].Failure == "" {
				all = append(all, keyedOutcome{s.Event.TenantID, p})
			}
		}
	}
	slices.SortStableFunc(all, func(x, y keyedOutcome) int {
		return cmp.Or(cmp.Compare(string(x.tenant[:]), string(y.tenant[:])), cmp.Compare(x.outcome.Key, y.outcome.Key))
	})
	return all
}

// settlePromises settles or holds each outcome, makes due the workflows that
// awaited it, and returns the topics to wake after the commit. It locks promises
// before executions, as everybody does. outcomes are in the order of their keys;
// however many they are, it takes a few statements.
func settlePromises(ctx context.Context, tx pgx.Tx, outcomes []keyedOutcome, now time.Time) (_ promiseResults, woken []string, err error) {
	results := make(promiseResults, len(outcomes))
	s := settling{tx: tx, now: now, results: results}
	for len(outcomes) > 0 {
		if outcomes, err = s.settle(ctx, outcomes); err != nil {
			return nil, nil, err
		}
	}
	woken, err = resumeWorkflows(ctx, tx, s.settled, now)
	return results, woken, err
}

func concludePromise(a *effects.PlannedAction, r promiseResult) {
	a.PromiseID = r.id
	switch {
	case !r.exists:
		a.Status = eventhook.ActionFailed
		a.ErrorMessage = fmt.Sprintf("no promise has the idempotency key %q, and on_missing is fail", a.Effect.Promise.Key)
	case !r.won:
		a.Status = eventhook.ActionSkipped
	}
}

// lockWorkflowsSQL locks the workflows that await the promises, in order.
// Two promises of one workflow that settle at once take turns here, and the
// second sees the first.
const lockWorkflowsSQL = `
SELECT e.id FROM eventhook.execution e
WHERE e.id IN (SELECT execution_id FROM eventhook.execution_await WHERE promise_id = ANY($1::uuid[]))
ORDER BY e.id FOR UPDATE`

// resumeWorkflowsSQL makes those workflows due that await nothing any more.
const resumeWorkflowsSQL = `
UPDATE eventhook.execution e SET due_at = $2
WHERE e.id = ANY($1::uuid[]) AND e.status = 'suspended'
  AND NOT EXISTS (SELECT FROM eventhook.execution_await w JOIN eventhook.promise p ON p.id = w.promise_id
                  WHERE w.execution_id = e.id AND p.status = 'pending')
RETURNING e.tenant_id, e.queue`

// resumeWorkflows makes due what awaited the promises, and returns the topics to
// wake once the transaction has committed.
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
		return nil, fmt.Errorf("wake awaiting workflows: %w", err)
	}
	var tenant eventhook.TenantID
	var queue string
	_, err = pgx.ForEachRow(rows, []any{(*[16]byte)(&tenant), &queue}, func() error {
		topics = append(topics, workTopic(tenant, queue))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("wake awaiting workflows: %w", err)
	}
	return topics, nil
}

// makePromiseSQL makes a promise, or takes over an outcome that was held for
// its key. It answers nothing if somebody has made it before.
const makePromiseSQL = `
INSERT INTO eventhook.promise AS p (id, tenant_id, idempotency_key, status, workflow_execution_id, expires_at, due_at, created_at)
VALUES ($1, $2, $3, 'pending', $4, $5, $5, $6)
ON CONFLICT (tenant_id, idempotency_key) DO UPDATE
    SET is_held = false, workflow_execution_id = excluded.workflow_execution_id, created_at = excluded.created_at
    WHERE p.is_held
RETURNING ` + promiseColumns

const promiseColumns = `id, tenant_id, idempotency_key, status, value, coalesce(error, ''), workflow_execution_id, expires_at, created_at, settled_at`

// CreatePromise makes a promise under a key that is unique in its tenant. If
// somebody has made it before, it returns that one and made is false. If its
// outcome came before it did, it is settled at once. The workflow, when named,
// must be the tenant's, else KindInvalid.
func (db *DB) CreatePromise(ctx context.Context, p eventhook.Promise) (_ eventhook.Promise, made bool, err error) {
	if !p.WorkflowExecutionID.IsZero() {
		x, err := db.Execution(ctx, p.TenantID, p.WorkflowExecutionID)
		if err != nil && eventhook.KindOf(err) != eventhook.KindNotFound {
			return eventhook.Promise{}, false, err
		}
		if x.Type != eventhook.Workflow {
			return eventhook.Promise{}, false, invalid("body.workflow_execution_id", "is the id of no workflow of this tenant's")
		}
	}
	row := db.work.QueryRow(ctx, makePromiseSQL, [16]byte(eventhook.NewID[eventhook.Promise](db.now())), [16]byte(p.TenantID),
		p.IdempotencyKey, uuidArg(p.WorkflowExecutionID), p.ExpiresAt, db.now())
	result, err := scanPromise(row)
	if err == nil {
		return result, true, nil
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return eventhook.Promise{}, false, translate("make promise", err)
	}
	result, err = db.PromiseByKey(ctx, p.TenantID, p.IdempotencyKey)
	return result, false, err
}

// Promise returns one of the tenant's promises, or KindNotFound. An outcome
// that is only held is no promise yet: the error says so, and for which key.
// Primary key.
func (db *DB) Promise(ctx context.Context, tenant eventhook.TenantID, id eventhook.PromiseID) (eventhook.Promise, error) {
	row := db.work.QueryRow(ctx, `SELECT `+promiseColumns+`, is_held FROM eventhook.promise WHERE id = $1 AND tenant_id = $2`, [16]byte(id), [16]byte(tenant))
	var isHeld bool
	p, err := scanPromise(row, &isHeld)
	if isHeld {
		return eventhook.Promise{}, &eventhook.Error{Kind: eventhook.KindNotFound,
			Message: fmt.Sprintf("an outcome is held for a promise that nobody has made yet, with the idempotency key %q; make it to have it settled", p.IdempotencyKey)}
	}
	return p, translate("read promise", notFound(err, "promise"))
}

// PromiseByKey returns the tenant's promise with a key, or KindNotFound.
func (db *DB) PromiseByKey(ctx context.Context, tenant eventhook.TenantID, key string) (eventhook.Promise, error) {
	row := db.work.QueryRow(ctx, `SELECT `+promiseColumns+` FROM eventhook.promise WHERE tenant_id = $1 AND idempotency_key = $2 AND NOT is_held`, [16]byte(tenant), key)
	p, err := scanPromise(row)
	return p, translate("read promise", notFound(err, "promise"))
}

// Promises lists a tenant's promises, newest first, those before the cursor.
func (db *DB) Promises(ctx context.Context, tenant eventhook.TenantID, before eventhook.PromiseID, limit int) ([]eventhook.Promise, error) {
	rows, err := db.lists.Query(ctx, `SELECT `+promiseColumns+` FROM eventhook.promise
		WHERE tenant_id = $1 AND ($2::uuid IS NULL OR id < $2) AND NOT is_held ORDER BY id DESC LIMIT $3`,
		[16]byte(tenant), uuidArg(before), limit)
	if err != nil {
		return nil, translate("list promises", err)
	}
	list, err := collectPage(rows, func(r pgx.CollectableRow) (eventhook.Promise, error) { return scanPromise(r) })
	return list, translate("list promises", err)
}

// SettlePromise settles a promise by its id. The first outcome wins: a
// promise that is settled already is a KindConflict.
func (db *DB) SettlePromise(ctx context.Context, tenant eventhook.TenantID, id eventhook.PromiseID, o effects.PromiseOutcome) (eventhook.Promise, error) {
	p, err := db.Promise(ctx, tenant, id)
	if err != nil {
		return p, err
	}
	o.Key, o.Hold = p.IdempotencyKey, false
	var woken []string
	err = db.inTx(ctx, "settle promise", func(tx pgx.Tx) error {
		results, topics, err := settlePromises(ctx, tx, []keyedOutcome{{tenant, &o}}, db.now())
		if err != nil {
			return err
		}
		if !results[&o].won {
			return &eventhook.Error{Kind: eventhook.KindConflict, Message: "the promise is settled already"}
		}
		woken = topics
		return nil
	})
	if err != nil {
		return p, err
	}
	db.hub.wake(append(woken, promiseTopic(tenant, id))...)
	return db.Promise(ctx, tenant, id)
}

// expirePromisesSQL expires promises whose time is over. Index promise_due.
const expirePromisesSQL = `
WITH over AS MATERIALIZED (
    SELECT id FROM eventhook.promise WHERE due_at <= $1 ORDER BY due_at LIMIT 500 FOR UPDATE SKIP LOCKED
)
UPDATE eventhook.promise p SET status = 'expired', settled_at = $1, due_at = NULL
FROM over
WHERE p.id = over.id AND p.status = 'pending'
RETURNING p.id, p.tenant_id`

// ExpirePromises expires up to 500 promises whose time is over, wakes the
// workflows that awaited them, and returns how many it expired.
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
		woken, err := resumeWorkflows(ctx, tx, ids, db.now())
		topics = append(topics, woken...)
		return err
	})
	if err == nil {
		db.hub.wake(topics...)
	}
	return len(ids), err
}

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
