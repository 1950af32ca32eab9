package eventhook

import (
	"slices"
	"time"
)

// TenantStatus is the state of a tenant; see docs/states.md.
type TenantStatus string

// The states of a tenant. Only an active tenant receives webhooks.
const (
	TenantActive    TenantStatus = "active"
	TenantSuspended TenantStatus = "suspended"
	TenantClosed    TenantStatus = "closed"
)

// Tenant owns all other resources. No resource of a tenant is visible to another
// tenant.
type Tenant struct {
	ID        TenantID
	Slug      string
	Name      string
	Status    TenantStatus
	Version   int64 // incremented by every update
	Quota     Quota
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Quota limits the events and bytes that a tenant may store. A nil field means no
// limit.
type Quota struct {
	MaxEventsPerDay *int64 // accepted events per day (UTC), including duplicates
	MaxStorageBytes *int64 // stored bodies and headers
}

const maxName = 200

// IsSlug reports whether s is a valid slug of a tenant or source: 1 to 63 lower-case
// letters, digits and inner hyphens. It is cheap enough to run on every request.
func IsSlug(s string) bool {
	const maxLength = 63
	if s == "" || len(s) > maxLength || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// reservedTenants lists slugs that no tenant may have: paths of the gateway and
// filters use them. A slug cannot be changed later.
var reservedTenants = []string{"new", "all", "admin", "api", "system"}

// Validate returns every fault by its field and changes nothing.
func (t Tenant) Validate() Faults {
	var f Faults
	checkSlug(&f, "slug", t.Slug)
	if slices.Contains(reservedTenants, t.Slug) {
		f.Add("slug", "%q is reserved", t.Slug)
	}
	checkName(&f, t.Name)
	for _, q := range []struct {
		field string
		limit *int64
	}{{"max_events_per_day", t.Quota.MaxEventsPerDay}, {"max_storage_bytes", t.Quota.MaxStorageBytes}} {
		if q.limit != nil && *q.limit < 0 {
			f.Add(q.field, "%d is negative; leave it out for no limit", *q.limit)
		}
	}
	return f
}
