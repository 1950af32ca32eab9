package eventhook

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// TenantStatus is the life of a tenant; see docs/states.md.
type TenantStatus string

// The states of a tenant. Only an active one receives webhooks.
const (
	TenantActive    TenantStatus = "active"
	TenantSuspended TenantStatus = "suspended"
	TenantClosed    TenantStatus = "closed"
)

// Tenant owns everything else; nothing of one tenant is visible to another.
type Tenant struct {
	ID        TenantID
	Slug      string
	Name      string
	Status    TenantStatus
	Version   int64 // grows with every change
	Quota     Quota
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Quota bounds what a tenant may store; nil fields do not.
type Quota struct {
	MaxEventsPerDay *int64 // accepted between two midnights, UTC; duplicates count
	MaxStorageBytes *int64 // bodies and headers that are kept
}

const maxName = 200

// IsSlug reports whether s can name a tenant or a source: 1 to 63 lower-case
// letters, digits and inner hyphens. It is cheap enough for every request.
func IsSlug(s string) bool {
	const longest = 63
	if s == "" || len(s) > longest || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// reservedTenants are slugs that no tenant has: pages of the gateway's own are
// or will be in their place, and filters say all for every tenant. A slug
// cannot be changed later.
var reservedTenants = []string{"new", "all", "admin", "api", "system"}

// Validate reports every fault by its field. It changes nothing.
func (t Tenant) Validate() Faults {
	var f Faults
	checkSlug(&f, "slug", t.Slug)
	if slices.Contains(reservedTenants, t.Slug) {
		f.Add("slug", "%q is reserved", t.Slug)
	}
	checkName(&f, t.Name)
	for _, q := range []struct {
		field string
		most  *int64
	}{{"max_events_per_day", t.Quota.MaxEventsPerDay}, {"max_storage_bytes", t.Quota.MaxStorageBytes}} {
		if q.most != nil && *q.most < 0 {
			f.Add(q.field, "%d is negative; leave it out for no limit", *q.most)
		}
	}
	return f
}

func checkSlug(f *Faults, location, slug string) {
	if !IsSlug(slug) {
		f.Add(location, "%q must be 1 to 63 lower-case letters, digits and inner hyphens", slug)
	}
}

func checkName(f *Faults, name string) {
	switch {
	case strings.TrimSpace(name) == "":
		f.Add("name", "is required")
	case len(name) > maxName:
		f.Add("name", "has %d bytes, at most %d are allowed", len(name), maxName)
	case !isText(name):
		f.Add("name", "must be UTF-8 without NUL")
	}
}

// Scope is a right that a tenant key has.
type Scope string

// The scopes of tenant keys.
const (
	ScopeRead    Scope = "read"
	ScopeManage  Scope = "manage"
	ScopePublish Scope = "publish"
	ScopeWork    Scope = "work"
	ScopeDeliver Scope = "deliver"
)

// Scopes are all scopes, in the order of the documentation.
var Scopes = []Scope{ScopeRead, ScopeManage, ScopePublish, ScopeWork, ScopeDeliver}

// APIKey lets its bearer act for one tenant. The key itself is shown once and
// never stored; Prefix is its visible beginning.
type APIKey struct {
	ID        KeyID
	TenantID  TenantID
	Name      string
	Prefix    string
	Scopes    []Scope
	ExpiresAt *time.Time
	// LastUsedAt may be a minute old.
	LastUsedAt *time.Time
	CreatedAt  time.Time
}

// Validate reports every fault by its field. It changes nothing.
func (k APIKey) Validate() Faults {
	var f Faults
	checkName(&f, k.Name)
	if len(k.Scopes) == 0 {
		f.Add("scopes", "at least one of %v is required", Scopes)
	}
	for i, s := range k.Scopes {
		at := fmt.Sprintf("scopes[%d]", i)
		switch {
		case !slices.Contains(Scopes, s):
			f.Add(at, "%q is not one of %v", string(s), Scopes)
		case slices.Contains(k.Scopes[:i], s):
			f.Add(at, "%q is given twice", string(s))
		}
	}
	return f
}
