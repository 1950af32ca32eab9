DROP TABLE eventhook.execution_await, eventhook.promise, eventhook.execution, eventhook.idempotency_key,
    eventhook.event_action, eventhook.event_payload, eventhook.event,
    eventhook.route, eventhook.source, eventhook.api_key, eventhook.tenant;
DROP FUNCTION eventhook.notify_config;
