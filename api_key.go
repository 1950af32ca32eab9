package eventhook

import (
	"fmt"
	"slices"
	"time"
)

// Scope is a permission of an API key.
type Scope string

// The scopes of API keys.
const (
	ScopeRead    Scope = "read"
	ScopeManage  Scope = "manage"
	ScopePublish Scope = "publish"
	ScopeWork    Scope = "work"
	ScopeDeliver Scope = "deliver"
)

// Scopes lists all scopes in the order of the documentation.
var Scopes = []Scope{ScopeRead, ScopeManage, ScopePublish, ScopeWork, ScopeDeliver}

// APIKey authorizes a caller for one tenant. The key itself is returned once and
// never stored; Prefix is its visible beginning.
type APIKey struct {
	ID        KeyID
	TenantID  TenantID
	Name      string
	Prefix    string
	Scopes    []Scope
	ExpiresAt *time.Time
	// AgentID is zero unless the key is an agent's. Its labels are only read with the key that
	// authenticates a request.
	AgentID     AgentID
	AgentLabels []string
	// LastUsedAt may lag by a minute.
	LastUsedAt *time.Time
	CreatedAt  time.Time
}

// NewKey is a key to be stored: its visible beginning and its hash.
type NewKey struct {
	Prefix string
	Hash   []byte
}

// Validate returns every fault by its field and changes nothing.
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
