-- Events that are processed again, and audit entries that are found by trace and request.

-- Instances of the previous version may be running. The new columns have no default, so
-- that the statements lock the tables only for a moment.
SET LOCAL lock_timeout = '10s';

-- reprocessed_from names the event whose payload this event processes again. rerouted_at
-- is the time at which the event was last reprocessed: a delivery of a route that died
-- before it belongs to an earlier routing.
ALTER TABLE eventhook.event ADD COLUMN reprocessed_from uuid, ADD COLUMN rerouted_at timestamptz;

-- trace_id is the W3C trace id of the change, which its system events have, too. Changes
-- of the configuration are rare, so that these indexes cost little.
ALTER TABLE eventhook.audit_log ADD COLUMN trace_id text;
CREATE INDEX audit_log_trace ON eventhook.audit_log (trace_id, id) WHERE trace_id IS NOT NULL;
CREATE INDEX audit_log_request ON eventhook.audit_log (request_id, id) WHERE request_id IS NOT NULL;
CREATE INDEX audit_log_correlation ON eventhook.audit_log (correlation_id, id) WHERE correlation_id IS NOT NULL;
