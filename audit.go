package eventhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// ActorType says in which role an actor changes something.
type ActorType string

// The roles of actors.
const (
	ActorAdmin    ActorType = "admin"              // the admin key, changing a tenant
	ActorOnBehalf ActorType = "admin_on_behalf_of" // the admin key, changing a tenant's resources
	ActorKey      ActorType = "api_key"            // a tenant's key
	ActorSession  ActorType = "session"            // a person with a Grant for a tenant, without a key
	ActorOperator ActorType = "operator"           // a command that connects to the database directly
	ActorSystem   ActorType = "system"             // the gateway itself
)

// Actor identifies the caller, the command or the part of the gateway that makes a
// change.
type Actor struct {
	Type      ActorType
	KeyID     KeyID // of ActorKey
	Name      string
	SourceIP  string
	RequestID string
	TraceID   string // of the request; "" if it had none

	ParentSpan, TraceFlags string // of the same traceparent header

	Via string // ViaConsole or ViaPortal; "" for a request to the API and for actors that send none
}

// The values of Actor.Via.
const (
	ViaConsole = "console"
	ViaPortal  = "portal"
)

// IsOfTenant reports whether the actor has permissions for its tenant only, as a tenant's key
// has: it changes nothing while the tenant is suspended.
func (a Actor) IsOfTenant() bool { return a.Type == ActorKey || a.Type == ActorSession }

// AuditEntry records one change and its actor. It is inserted in the transaction of
// the change and is never updated.
type AuditEntry struct {
	ID            AuditID
	TenantID      TenantID
	TenantSlug    string // "" if the tenant no longer exists
	Actor         Actor
	Action        string // such as source.updated
	ResourceType  string
	ResourceID    string
	ResourceName  string
	Changes       []FieldChange
	CorrelationID string // shared by all changes of one request
	TraceID       string // W3C trace id, shared with the system events of the changes; "" for entries of earlier versions
}

// FieldChange holds one field before and after a change. A side on which the field
// does not exist is null. For a secret, both sides are redacted and only say that it
// changed.
type FieldChange struct {
	Field string          `json:"field"`
	From  json.RawMessage `json:"from"`
	To    json.RawMessage `json:"to"`
}

// NewValue returns the value of a field after the change, nil if the field did not change or
// does not exist any more.
func (e AuditEntry) NewValue(field string) json.RawMessage {
	for _, c := range e.Changes {
		if c.Field == field && string(c.To) != "null" {
			return c.To
		}
	}
	return nil
}

// AuditFilter narrows a list of audit entries. An empty field matches every entry.
type AuditFilter struct {
	Tenant        TenantID
	Action        string
	TraceID       string
	RequestID     string
	CorrelationID string
	Before        AuditID
	Limit         int
}

// Diff returns the fields in which two JSON objects differ, sorted by path. A path
// reads like rate_limit.burst_size or filter["body.id"].$gt. Arrays are compared as
// a whole, as text. The result is empty only if the objects are equal. nil stands
// for an absent object. Diff returns an error if a value does not marshal to a JSON
// object.
func Diff(before, after any) ([]FieldChange, error) {
	was, is := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	for _, side := range []struct {
		of   any
		into map[string]json.RawMessage
	}{{before, was}, {after, is}} {
		if side.of == nil {
			continue
		}
		raw, err := json.Marshal(side.of)
		if err != nil {
			return nil, fmt.Errorf("compare: %w", err)
		}
		if err := flatten(side.into, "", raw); err != nil {
			return nil, fmt.Errorf("compare: %w", err)
		}
	}
	fields := slices.Sorted(maps.Keys(was))
	for name := range is {
		if _, both := was[name]; !both {
			fields = append(fields, name)
		}
	}
	slices.Sort(fields)
	changes := []FieldChange{}
	for _, name := range fields {
		from, had := was[name]
		to, has := is[name]
		if had != has || !bytes.Equal(from, to) {
			changes = append(changes, FieldChange{name, orNull(from), orNull(to)})
		}
	}
	return changes, nil
}

func orNull(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return json.RawMessage("null")
	}
	return raw
}

// flatten stores each member of an object, and of its nested objects, under its
// path. Two members never share a path, because Diff also decides whether anything
// changed at all.
func flatten(into map[string]json.RawMessage, prefix string, raw json.RawMessage) error {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil {
		return err
	}
	if len(object) == 0 && prefix != "" {
		into[prefix] = json.RawMessage("{}")
	}
	for name, value := range object {
		path := appendStep(prefix, name)
		if len(value) > 0 && value[0] == '{' {
			if err := flatten(into, path, value); err != nil {
				return err
			}
			continue
		}
		into[path] = value
	}
	return nil
}

// appendStep appends a member name to a path: after a dot, or quoted in brackets if the
// name contains other characters than letters, digits, _, $ and -.
func appendStep(prefix, name string) string {
	plain := name != ""
	for _, c := range name {
		plain = plain && (c == '_' || c == '$' || c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z')
	}
	switch {
	case !plain:
		return prefix + "[" + strconv.Quote(name) + "]"
	case prefix == "":
		return name
	}
	return prefix + "." + name
}
