package pg

// The operator tenant (eventhook.OperatorTenant) owns the subscriptions that receive events of
// all tenants. A delivery to such a subscription has the tenant of its event. Tenants never
// see these deliveries.
const (
	operatorID = `'00000000-0000-7000-8000-000000000001'::uuid`

	// operatorGeneration is added to the generation of each tenant: a plan is also stale
	// after a change of an operator subscription. Both numbers only grow, so their sum is
	// the current one only if both are. It is evaluated once per statement. Primary key.
	operatorGeneration = `coalesce((SELECT o.generation FROM eventhook.tenant_generation o WHERE o.tenant_id = ` + operatorID + `), 0)`

	// operatorSubscriptions are the ids of at most MaxOperatorSubscriptions subscriptions.
	// Index subscription_tenant, once per statement.
	operatorSubscriptions = `ARRAY(SELECT o.id FROM eventhook.subscription o WHERE o.tenant_id = ` + operatorID + `)`

	// receivesFrom is the condition that an operator subscription s receives events of a
	// tenant t.
	receivesFrom = `s.tenant_id = ` + operatorID + ` AND (NOT s.settings ? 'tenants' OR s.settings->'tenants' ? t.slug)`
)
