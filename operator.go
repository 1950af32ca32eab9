package eventhook

// OperatorTenant is the tenant of the operator's subscriptions, which receive events of all
// tenants. Its slug is no valid slug, so no URL leads to it, and no list of tenants has it.
// The migrations insert it.
var OperatorTenant = TenantID{6: 0x70, 8: 0x80, 15: 1}

// OperatorSlug is the slug of OperatorTenant.
const OperatorSlug = "_operator"

// MaxOperatorSubscriptions is the maximum number of operator subscriptions. Each is matched
// with the published events of every tenant.
const MaxOperatorSubscriptions = 50

// maxOperatorTenants limits the tenants that one operator subscription names.
const maxOperatorTenants = 1000

// IsOperator reports whether the subscription belongs to the operator: it receives events of
// all tenants, or of the tenants in Tenants, with the event types that only the admin sees.
func (s Subscription) IsOperator() bool { return s.TenantID == OperatorTenant }

// validateTenants adds the faults of Tenants.
func (s Subscription) validateTenants(f *Faults) {
	if len(s.Tenants) > 0 && !s.IsOperator() {
		f.Add("tenants", "is only for operator subscriptions: a subscription receives events of its own tenant")
		return
	}
	checkLength(f, "tenants", s.Tenants, maxOperatorTenants)
	for _, slug := range s.Tenants {
		checkSlug(f, "tenants", slug)
	}
}
