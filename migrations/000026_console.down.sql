SET LOCAL lock_timeout = '10s';

DROP TABLE eventhook.traffic;

-- Sign-in sessions
DROP TABLE eventhook.web_link, eventhook.web_session;
UPDATE eventhook.audit_log SET actor_type = 'api_key' WHERE actor_type = 'session';
ALTER TABLE eventhook.audit_log DROP CONSTRAINT audit_log_actor_type_check;
ALTER TABLE eventhook.audit_log ADD CONSTRAINT audit_log_actor_type_check
    CHECK (actor_type IN ('admin', 'admin_on_behalf_of', 'api_key', 'operator', 'system')) NOT VALID;
ALTER TABLE eventhook.audit_log DROP COLUMN via;

-- Scopes of customers
ALTER TABLE eventhook.subscription DROP COLUMN narrowed_at;

-- Event types of the portal
UPDATE eventhook.event_type SET visibility = 'tenant' WHERE visibility = 'portal';
ALTER TABLE eventhook.event_type DROP CONSTRAINT event_type_visibility_check;
ALTER TABLE eventhook.event_type ADD CONSTRAINT event_type_visibility_check CHECK (visibility IN ('tenant', 'admin')) NOT VALID;
