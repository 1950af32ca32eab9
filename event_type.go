package eventhook

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Visibility says which callers may see an event type and subscribe to it.
type Visibility string

// The values of Visibility.
const (
	VisibleToTenant Visibility = "tenant"
	VisibleToAdmin  Visibility = "admin"
	VisibleToPortal Visibility = "portal" // to the tenant, and to its customers in the portal
)

// EventType is an entry of a tenant's catalogue: it documents events of one type.
// The gateway accepts and delivers events whose type is not in the catalogue or
// whose data does not match the schema.
type EventType struct {
	ID          EventTypeID
	TenantID    TenantID
	Name        string
	Description string
	Category    string
	Schema      json.RawMessage // JSON Schema of the data; nil without one
	Visibility  Visibility
	Version     int64
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

const maxDescription = 2000

// IsHiddenFrom reports whether an actor must not see the entry: entries for the
// admin are hidden from a tenant's keys and sessions.
func (t EventType) IsHiddenFrom(a Actor) bool {
	return t.Visibility == VisibleToAdmin && a.IsOfTenant()
}

// Validate returns every fault by its field. It does not check the schema and does
// not change the entry.
func (t EventType) Validate() Faults {
	var f Faults
	if wrong := CheckPattern(t.Name); wrong != "" || strings.HasSuffix(t.Name, "*") || strings.ContainsFunc(t.Name, isInvisible) {
		f.Add("name", "must be an event type such as payment.succeeded, of at most %d bytes, without control or formatting characters", MaxKeyBytes)
	}
	checkFreeText(&f, "description", t.Description, maxDescription)
	checkFreeText(&f, "category", t.Category, maxName)
	if !slices.Contains([]Visibility{VisibleToPortal, VisibleToTenant, VisibleToAdmin}, t.Visibility) {
		f.Add("visibility", "%q, want %s, %s or %s", string(t.Visibility), VisibleToPortal, VisibleToTenant, VisibleToAdmin)
	}
	return f
}

// isInvisible reports whether c is a control or formatting character, which breaks
// lines or makes two names look the same.
func isInvisible(c rune) bool { return unicode.IsControl(c) || unicode.Is(unicode.Cf, c) }
