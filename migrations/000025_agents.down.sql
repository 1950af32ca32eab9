SET LOCAL lock_timeout = '10s';
DROP INDEX eventhook.delivery_held;
ALTER TABLE eventhook.delivery DROP COLUMN acquired_by, DROP COLUMN agent_leases;
ALTER TABLE eventhook.api_key DROP COLUMN agent_id;
DROP TABLE eventhook.agent;
