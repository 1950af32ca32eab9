DROP TRIGGER tenant_closed ON eventhook.tenant;
DROP FUNCTION eventhook.start_tenant_cleanup();
DROP TABLE eventhook.tenant_cleanup;
