DROP TABLE eventhook.replay;
ALTER TABLE eventhook.subscription_health
    DROP COLUMN dead_since, DROP COLUMN failing_since, DROP COLUMN circuit_opened_at, DROP COLUMN is_held, DROP COLUMN next_probe_at,
    DROP COLUMN probing_until, DROP COLUMN probes, DROP COLUMN outage_ended_at;
ALTER TABLE eventhook.subscription DROP COLUMN disabled_by, DROP COLUMN recovered_at;
ALTER TABLE eventhook.delivery DROP COLUMN recoveries, DROP COLUMN released_by;
