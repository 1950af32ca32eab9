package api

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

// identityView is what a key or a session is, and what it may do.
type identityView struct {
	Type      string          `json:"type" enum:"admin,admin_read,tenant,session" doc:"admin: the admin key. admin_read: the admin read key. tenant: a key of a tenant. session: a person who signed in without a key. A person with the permissions of an admin key has the type of that key."`
	Name      string          `json:"name" doc:"Name of the key or the person."`
	Tenant    *identityTenant `json:"tenant,omitempty" doc:"Tenant of the key. Only keys of the type tenant have it."`
	Scopes    []string        `json:"scopes" doc:"Scopes of the key of a tenant; empty for every other type."`
	Tenants   []tenantScopes  `json:"tenants" doc:"Tenants for which a person has scopes, by slug; empty for keys."`
	ExpiresAt *time.Time      `json:"expires_at" doc:"Expiry time of the key; null if the key does not expire, and for persons."`
}

type identityTenant struct {
	Slug   string `json:"slug"`
	Name   string `json:"name" doc:"Display name."`
	Status string `json:"status" enum:"active,suspended,closed"`
}

type tenantScopes struct {
	Slug   string   `json:"slug"`
	Scopes []string `json:"scopes"`
}

type identityAnswer struct{ Body identityView }

func (s *server) registerIdentity(api huma.API) {
	register(s, api, operation{id: "get-identity", method: http.MethodGet, path: "/api/identity", summary: "Get the identity of the key", tag: "identity", isOwn: true,
		about: "Returns the permissions of the key that authorizes the request. 401 if the key is not valid."}, s.getIdentity)
}

func (s *server) getIdentity(ctx context.Context, by caller, _ *struct{}) (*identityAnswer, error) {
	h := *by.holder
	switch {
	case h.grant != nil:
		return &identityAnswer{identityOfGrant(*h.grant)}, nil
	case h.admin != nil:
		return &identityAnswer{identityView{Type: typeOfAdmin(h.admin.isReadOnly), Name: h.admin.name, Scopes: []string{}, Tenants: []tenantScopes{}}}, nil
	}
	t, err := s.keys.tenants.Get(ctx, h.key.tenant.Slug)
	if err != nil {
		return nil, err
	}
	return &identityAnswer{identityView{Type: "tenant", Name: h.key.Name, Tenant: &identityTenant{t.Slug, t.Name, string(t.Status)},
		Scopes: textsOf(h.key.Scopes), Tenants: []tenantScopes{}, ExpiresAt: optionalUTC(h.key.ExpiresAt)}}, nil
}

func identityOfGrant(g eventhook.Grant) identityView {
	v := identityView{Type: "session", Name: g.Name, Scopes: []string{}, Tenants: []tenantScopes{}}
	if g.Admin || g.AdminReadOnly {
		v.Type = typeOfAdmin(g.AdminReadOnly)
	}
	for _, slug := range slices.Sorted(maps.Keys(g.Tenants)) {
		v.Tenants = append(v.Tenants, tenantScopes{slug, textsOf(g.Tenants[slug])})
	}
	return v
}

func typeOfAdmin(isReadOnly bool) string {
	if isReadOnly {
		return "admin_read"
	}
	return "admin"
}

func textsOf(scopes []eventhook.Scope) []string {
	texts := make([]string, len(scopes))
	for i, scope := range scopes {
		texts[i] = string(scope)
	}
	return texts
}
