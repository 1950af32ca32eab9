package pg

// A statement that changes the status of executions or promises also stores the changes in
// lifecycle_change, if a subscription of the tenant or of the operator names the event of the
// change. So the change and its event are one transaction, and no statement is added. The
// condition reads index subscription_lifecycle, which has no entries unless a subscription names
// such events. PublishLifecycle publishes the stored changes.
//
// The frequent statements of a tenant have two forms, and run without the condition while
// lifecycleFlags knows that no subscription names such events.

// namesLifecycle is the condition of index subscription_lifecycle.
const namesLifecycle = `s.event_types && ARRAY[
    'task.*', 'task.started', 'task.completed', 'task.failed', 'task.dead', 'task.cancelled',
    'workflow.*', 'workflow.started', 'workflow.suspended', 'workflow.resumed', 'workflow.completed', 'workflow.failed',
    'workflow.dead', 'workflow.cancelled',
    'promise.*', 'promise.created', 'promise.resolved', 'promise.rejected', 'promise.expired']`

// changeSQL is a statement in two forms: with and without the part that stores the changes.
type changeSQL struct{ logged, silent string }

// newChangeSQL returns a statement that changes rows in WITH queries, stores the changes by log,
// and ends with result. Both forms must have the same parameters.
func newChangeSQL(changes, log, result string) changeSQL {
	return changeSQL{logged: changes + log + result, silent: changes + result}
}

// logExecutionsSQL stores changes of executions. changed is the name of a WITH query that
// returns executionColumns, act an expression for the second part of the event type, and now
// one for the time of the change.
func logExecutionsSQL(changed, act, now string) string {
	return `, logged AS (
    INSERT INTO eventhook.lifecycle_change (tenant_id, occurred_at, event_type, execution_id, event_id, attempt, max_attempts, type, kind, queue, status, key, error, trace_id)
    SELECT c.tenant_id, ` + now + `::timestamptz, c.event_type, c.id, c.event_id, c.attempt, c.max_attempts, c.type, c.kind, c.queue, c.status,
        nullif(c.idempotency_key, ''), nullif(left(c.error, 1000), ''), nullif(c.trace_id, '')
    FROM (SELECT *, type || '.' || ` + act + ` AS event_type FROM ` + changed + `) c
    WHERE EXISTS (SELECT FROM eventhook.subscription s WHERE s.tenant_id IN (c.tenant_id, ` + operatorID + `) AND ` + namesLifecycle + `
        AND s.event_types && ARRAY[c.event_type, c.type || '.*'])
)`
}

// logPromisesSQL stores changes of promises. changed is the name of a WITH query that returns
// the columns of promises, and event_id and trace_id of the event that changed them (noEvent
// without one); acts is an expression for a list of second parts of event types.
func logPromisesSQL(changed, acts, now string) string {
	return `, logged AS (
    INSERT INTO eventhook.lifecycle_change (tenant_id, occurred_at, event_type, promise_id, execution_id, event_id, status, key, error, trace_id)
    SELECT c.tenant_id, ` + now + `::timestamptz, 'promise.' || a.act, c.id, c.workflow_execution_id, c.event_id, c.status, c.idempotency_key, left(c.error, 1000), c.trace_id
    FROM ` + changed + ` c CROSS JOIN LATERAL unnest(` + acts + `) WITH ORDINALITY AS a (act, n)
    WHERE EXISTS (SELECT FROM eventhook.subscription s WHERE s.tenant_id IN (c.tenant_id, ` + operatorID + `) AND ` + namesLifecycle + `
        AND s.event_types && ARRAY['promise.' || a.act, 'promise.*'])
    ORDER BY a.n
)`
}

// noEvent are the columns of logPromisesSQL for promises that no event changed.
const noEvent = `NULL::uuid AS event_id, NULL::text AS trace_id`
