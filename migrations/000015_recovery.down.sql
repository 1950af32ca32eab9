DROP TABLE eventhook.replay;
ALTER TABLE eventhook.subscription_health
    DROP COLUMN failing_since, DROP COLUMN circuit_opened_at, DROP COLUMN next_probe_at, DROP COLUMN probes;
ALTER TABLE eventhook.subscription DROP COLUMN disabled_by;
ALTER TABLE eventhook.delivery DROP COLUMN recoveries, DROP COLUMN released_by;
