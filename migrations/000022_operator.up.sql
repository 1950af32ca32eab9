-- Operator subscriptions that were deleted. Tenants must not see the deliveries to them, which
-- are kept for the retention of deliveries.
CREATE TABLE eventhook.deleted_operator_subscription (
    id         uuid PRIMARY KEY,
    deleted_at timestamptz NOT NULL
);
