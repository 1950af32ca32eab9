DROP TABLE eventhook.delivery;
DROP TABLE eventhook.subscription_usage;
DROP TABLE eventhook.subscription_health;
DROP TABLE eventhook.subscription;
DROP TABLE eventhook.subscription_generation;
DROP FUNCTION eventhook.notify_subscription();
ALTER TABLE eventhook.event_payload DROP COLUMN envelope;

UPDATE eventhook.audit_log SET actor_type = 'operator' WHERE actor_type = 'system';
ALTER TABLE eventhook.audit_log DROP CONSTRAINT audit_log_actor_type_check;
ALTER TABLE eventhook.audit_log ADD CONSTRAINT audit_log_actor_type_check
    CHECK (actor_type IN ('admin', 'admin_on_behalf_of', 'api_key', 'operator'));
