package pg

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// completeSQL ends executions whose leases are current, in the order of their
// ids, in which all lock them who lock several. The ids are compared twice and
// the tenant in words that no index answers to: in a small table the planner
// would read all of the tenant's, and keep to it while the table grows. Primary
// key.
const completeSQL = `
UPDATE eventhook.execution e
SET status = 'completed', due_at = NULL, completed_at = $5, output = u.output::json, error = NULL
FROM unnest($2::uuid[], $3::int8[], $4::text[]) AS u (id, lease_token, output)
WHERE e.id = ANY($2) AND e.id = u.id AND (e.tenant_id = $1) IS TRUE AND e.lease_token = u.lease_token AND e.status = 'running'
RETURNING `

const (
	completeOneSQL  = completeSQL + executionColumns
	completeManySQL = completeSQL + `e.id, e.lease_token`
)

// completeArgs are the parameters of completeSQL; list is in the order of ids.
func (db *DB) completeArgs(tenant eventhook.TenantID, list []eventhook.Execution) []any {
	ids, tokens, outputs := make([][16]byte, len(list)), make([]int64, len(list)), make([]*string, len(list))
	for i, x := range list {
		ids[i], tokens[i], outputs[i] = x.ID, x.Lease.Token, jsonElement(x.Output)
	}
	return []any{[16]byte(tenant), ids, tokens, outputs, db.now()}
}

// Complete ends an execution with its Output, and returns it as it is then.
func (db *DB) Complete(ctx context.Context, x eventhook.Execution) (eventhook.Execution, error) {
	rows, err := db.work.Query(ctx, completeOneSQL, db.completeArgs(x.TenantID, []eventhook.Execution{x})...)
	if err != nil {
		return eventhook.Execution{}, translate("complete execution", err)
	}
	done, err := pgx.CollectExactlyOneRow(rows, oneExecution)
	if errors.Is(err, pgx.ErrNoRows) {
		return done, db.leaseError(ctx, x)
	}
	return done, translate("complete execution", err)
}

// CompleteAll ends a tenant's executions, each with its Output, and answers for
// each in turn: nil, ErrLeaseLost or KindNotFound. What is wrong with one
// changes nothing for the others. Of two with one id and token the second has
// lost its lease. It is one statement, and one more if not all were completed.
func (db *DB) CompleteAll(ctx context.Context, tenant eventhook.TenantID, list []eventhook.Execution) ([]error, error) {
	type held struct {
		id    eventhook.ExecutionID
		token int64
	}
	first := make(map[held]int, len(list))
	batch := make([]eventhook.Execution, 0, len(list))
	for i, x := range list {
		h := held{x.ID, x.Lease.Token}
		if _, twice := first[h]; !twice {
			first[h] = i
			batch = append(batch, x)
		}
	}
	slices.SortFunc(batch, func(x, y eventhook.Execution) int { return slices.Compare(x.ID[:], y.ID[:]) })
	done, err := db.readLeaseTokens(ctx, "complete executions", completeManySQL, db.completeArgs(tenant, batch)...)
	if err != nil {
		return nil, err
	}
	answers := make([]error, len(list))
	if len(done) == len(list) {
		return answers, nil
	}
	there, err := db.readLeaseTokens(ctx, "read executions", existingExecutionsSQL, [16]byte(tenant), executionIDs(batch))
	if err != nil {
		return nil, err
	}
	for i, x := range list {
		h := held{x.ID, x.Lease.Token}
		if _, isThere := there[x.ID]; !isThere {
			answers[i] = eventhook.NotFound("execution")
		} else if token, isDone := done[x.ID]; !isDone || token != h.token || first[h] != i {
			answers[i] = eventhook.ErrLeaseLost
		}
	}
	return answers, nil
}

// existingExecutionsSQL tells which executions a tenant has. Primary key.
const existingExecutionsSQL = `SELECT id, lease_token FROM eventhook.execution WHERE id = ANY($2::uuid[]) AND (tenant_id = $1) IS TRUE`

// readLeaseTokens are those of the executions that a statement returns.
func (db *DB) readLeaseTokens(ctx context.Context, act, sql string, args ...any) (map[eventhook.ExecutionID]int64, error) {
	rows, err := db.work.Query(ctx, sql, args...)
	if err != nil {
		return nil, translate(act, err)
	}
	tokens := map[eventhook.ExecutionID]int64{}
	var id eventhook.ExecutionID
	var token int64
	_, err = pgx.ForEachRow(rows, []any{(*[16]byte)(&id), &token}, func() error {
		tokens[id] = token
		return nil
	})
	return tokens, translate(act, err)
}

func executionIDs(list []eventhook.Execution) [][16]byte {
	ids := make([][16]byte, len(list))
	for i, x := range list {
		ids[i] = x.ID
	}
	return ids
}

// claimed is an execution, and what it was before its claim.
type claimed struct {
	eventhook.Execution
	was    eventhook.ExecutionStatus
	wasDue time.Time
}

func executionsIn(list []claimed) []eventhook.Execution {
	var executions []eventhook.Execution
	for _, x := range list {
		executions = append(executions, x.Execution)
	}
	return executions
}

// outliving ends a few seconds after it was made, whenever ctx does.
func outliving(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
}

// releaseClaimsSQL takes claims back: their executions are what they were, due when
// they were, and the attempts that began with the claims were none. The tokens
// stay used. The ids are compared twice for the reason that completeSQL has.
// Primary key.
const releaseClaimsSQL = `
UPDATE eventhook.execution e
SET status = u.status, due_at = u.due_at, attempt = e.attempt - CASE u.status WHEN 'suspended' THEN 0 ELSE 1 END
FROM unnest($1::uuid[], $2::int8[], $3::text[], $4::timestamptz[]) AS u (id, lease_token, status, due_at)
WHERE e.id = ANY($1) AND e.id = u.id AND e.lease_token = u.lease_token AND e.status = 'running'`

// releaseClaims gives others what was claimed for somebody who is gone, also when
// ctx has ended. If it fails, the leases run out.
func (db *DB) releaseClaims(ctx context.Context, q eventhook.WorkQuery, list []claimed) error {
	if len(list) == 0 {
		return nil
	}
	slices.SortFunc(list, func(x, y claimed) int { return slices.Compare(x.ID[:], y.ID[:]) }) // as all lock them
	ids, tokens, states, due := make([][16]byte, len(list)), make([]int64, len(list)), make([]string, len(list)), make([]time.Time, len(list))
	for i, x := range list {
		ids[i], tokens[i], states[i], due[i] = x.ID, x.Lease.Token, string(x.was), x.wasDue
	}
	ctx, cancel := outliving(ctx)
	defer cancel()
	if _, err := db.work.Exec(ctx, releaseClaimsSQL, ids, tokens, states, due); err != nil {
		return translate("give work back", err)
	}
	db.hub.wake(workTopic(q.Tenant, q.Queue))
	return nil
}
