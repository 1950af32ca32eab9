package eventhook

import (
	"encoding/json"
	"strings"
	"time"
	"unicode"
)

// Visibility says who is shown an event type, and may subscribe to it.
type Visibility string

// The visibilities.
const (
	VisibleToTenant Visibility = "tenant"
	VisibleToAdmin  Visibility = "admin"
)

// EventType is an entry of a tenant's catalogue: what its events mean. An
// event of a type that is not in it, or that does not fit its schema, is
// accepted and delivered all the same.
type EventType struct {
	ID          EventTypeID
	TenantID    TenantID
	Name        string
	Description string
	Category    string
	Schema      json.RawMessage // JSON Schema of the data; nil for none
	Visibility  Visibility
	Version     int64
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

const maxDescription = 2000

// IsHiddenFrom reports whether an entry is none of an actor's business: what is
// for the admin is not there for a tenant's keys.
func (t EventType) IsHiddenFrom(a Actor) bool {
	return t.Visibility == VisibleToAdmin && a.Type == ActorKey
}

// Validate reports every fault by its field; whether the schema is one is not
// looked at. It changes nothing.
func (t EventType) Validate() Faults {
	var f Faults
	if wrong := CheckPattern(t.Name); wrong != "" || strings.HasSuffix(t.Name, "*") || strings.ContainsFunc(t.Name, isInvisible) {
		f.Add("name", "must be an event type such as payment.succeeded, of at most %d bytes, without control or formatting characters", MaxKeyBytes)
	}
	for _, text := range []struct {
		field, value string
		most         int
	}{{"description", t.Description, maxDescription}, {"category", t.Category, maxName}} {
		if len(text.value) > text.most || !isText(text.value) {
			f.Add(text.field, "must be UTF-8 without NUL of at most %d bytes", text.most)
		}
	}
	if t.Visibility != VisibleToTenant && t.Visibility != VisibleToAdmin {
		f.Add("visibility", "%q, want %s or %s", string(t.Visibility), VisibleToTenant, VisibleToAdmin)
	}
	return f
}

// isInvisible is for what makes two names look alike, or breaks a line.
func isInvisible(c rune) bool { return unicode.IsControl(c) || unicode.Is(unicode.Cf, c) }
