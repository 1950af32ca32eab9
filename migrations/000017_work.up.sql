-- Work without a webhook, priorities and lifecycle events (ADR 25).

-- Instances of the previous version may be running. They insert executions without
-- priority, and they claim an execution of negative priority at its due_at, which is late
-- by the priority. Building the index reads the table once, about a second per five
-- million executions, and no row has an entry yet.
SET LOCAL lock_timeout = '10s';

-- due_at of a pending or failed execution with a negative priority is later than the time
-- at which it is due, by a minute per step of the priority: it is the place in the order of
-- claims. trace_id is NULL if the trace has the id of the event or of the execution.
ALTER TABLE eventhook.execution ADD COLUMN priority smallint NOT NULL DEFAULT 0, ADD COLUMN trace_id text;

-- Only executions with a priority have an entry, and only while they wait.
CREATE INDEX execution_priority ON eventhook.execution (tenant_id, queue, kind, priority, due_at)
    WHERE priority <> 0 AND status IN ('pending', 'failed') AND due_at IS NOT NULL AND input_size >= 0;

-- Changes of executions and promises whose events have not been published yet. The
-- transaction of the change inserts a row, if a subscription of the tenant names events of
-- executions or promises.
CREATE TABLE eventhook.lifecycle_change (
    tenant_id    uuid NOT NULL,
    sequence     bigint GENERATED ALWAYS AS IDENTITY,
    occurred_at  timestamptz NOT NULL,
    event_type   text COLLATE "C" NOT NULL,
    execution_id uuid,
    promise_id   uuid,
    event_id     uuid,
    attempt      integer,
    max_attempts integer,
    type         text,
    kind         text,
    queue        text,
    status       text NOT NULL,
    key          text,
    error        text,
    trace_id     text,
    PRIMARY KEY (tenant_id, sequence)
);

-- The subscriptions for which changes are stored. Statements repeat the condition.
CREATE INDEX subscription_lifecycle ON eventhook.subscription (tenant_id) WHERE event_types && ARRAY[
    'task.*', 'task.started', 'task.completed', 'task.failed', 'task.dead', 'task.cancelled',
    'workflow.*', 'workflow.started', 'workflow.suspended', 'workflow.resumed', 'workflow.completed', 'workflow.failed',
    'workflow.dead', 'workflow.cancelled',
    'promise.*', 'promise.created', 'promise.resolved', 'promise.rejected', 'promise.expired'];
