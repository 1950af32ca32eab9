DROP TRIGGER tenant_closed ON eventhook.tenant;
DROP FUNCTION eventhook.start_tenant_cleanup();
DROP TABLE eventhook.tenant_cleanup;
DELETE FROM eventhook.delivery WHERE destination_id IN
    (SELECT id FROM eventhook.subscription WHERE tenant_id = '00000000-0000-7000-8000-000000000001');
DELETE FROM eventhook.tenant WHERE id = '00000000-0000-7000-8000-000000000001';
