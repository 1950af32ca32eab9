package eventhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// ActorType says as what somebody acts.
type ActorType string

// The types of actors.
const (
	ActorAdmin    ActorType = "admin"              // the admin key, on tenants themselves
	ActorOnBehalf ActorType = "admin_on_behalf_of" // the admin key, on what a tenant owns
	ActorKey      ActorType = "api_key"            // a tenant's key
	ActorOperator ActorType = "operator"           // a command on a machine that reaches the database
	ActorSystem   ActorType = "system"             // the gateway itself
)

// Actor is who changes something, as what and from where.
type Actor struct {
	Type      ActorType
	KeyID     KeyID // of ActorKey
	Name      string
	SourceIP  string
	RequestID string
}

// AuditEntry is one change, with who made it. It is written in the change's
// own transaction, and never changed.
type AuditEntry struct {
	ID            AuditID
	TenantID      TenantID
	TenantSlug    string // "" when the tenant is unknown by now
	Actor         Actor
	Action        string // such as source.updated
	ResourceType  string
	ResourceID    string
	ResourceName  string
	Changes       []FieldChange
	CorrelationID string // shared by what one act has changed together
}

// FieldChange is one field before and after a change; null where it was not
// there. Secrets are never in it: of them it says that they changed.
type FieldChange struct {
	Field string          `json:"field"`
	From  json.RawMessage `json:"from"`
	To    json.RawMessage `json:"to"`
}

// AuditFilter narrows a list of audit entries; empty fields do not.
type AuditFilter struct {
	Tenant TenantID
	Action string
	Before AuditID
	Limit  int
}

// Diff lists in their order the fields in which two JSON objects differ, each
// by its path, such as rate_limit.burst_size or filter["body.id"].$gt; lists
// are compared whole, as they are written. There are none only if the objects
// are equal. nil stands for nothing. What marshals to anything but an object
// is an error.
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

// flatten puts each member of an object, and of the objects in it, under its
// path. Two members never share a path: Diff also decides whether there is a
// change at all.
func flatten(into map[string]json.RawMessage, prefix string, raw json.RawMessage) error {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil {
		return err
	}
	if len(object) == 0 && prefix != "" {
		into[prefix] = json.RawMessage("{}")
	}
	for name, value := range object {
		path := step(prefix, name)
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

// step is the path of a member: its name behind a dot, or in brackets and
// quotes where it is no plain word.
func step(prefix, name string) string {
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
