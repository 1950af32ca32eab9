-- How long the worker who claimed it last leased it for: by as much a heartbeat
-- extends the lease. Of what was claimed before, the default of a claim.
ALTER TABLE eventhook.execution ADD COLUMN lease_seconds integer NOT NULL DEFAULT 30;

-- Claims and lists of work. Each index is paid for by every execution, so these
-- are few: together they add about a quarter to the database's time for making,
-- claiming and completing one. A heartbeat pays, too. It moves due_at, which is
-- indexed, so that it is no HOT update and writes an entry into every index that
-- has the row: that is a quarter to a half more time, and two fifths more WAL.
--
-- input_size >= 0 holds always. It is there for the planner: only statements
-- that say it may use these indexes, lest it prefer one of them to a better
-- index while the table is empty.

-- A claim of some kinds finds its few behind any number of others.
CREATE INDEX execution_kind_due ON eventhook.execution (tenant_id, queue, kind, due_at)
    WHERE due_at IS NOT NULL AND input_size >= 0;

-- Lists by kind, queue and type. What is owed is in execution_kind_due and,
-- since an entry would be written at each of its steps, not here: that would
-- cost five times as much.
CREATE INDEX execution_list ON eventhook.execution (tenant_id, kind, queue, type, id)
    WHERE due_at IS NULL AND input_size >= 0;

-- What is running, and what wants attention. What is running is a seventh of a
-- heartbeat's WAL here; without it, a list of that would read all that is owed.
CREATE INDEX execution_status ON eventhook.execution (tenant_id, status, id)
    WHERE status IN ('running', 'failed', 'dead', 'suspended', 'cancelled') AND input_size >= 0;
