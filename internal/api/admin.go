package api

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

// AdminStore keeps tenants and their keys. A slug that is taken is a
// KindConflict.
type AdminStore interface {
	Tenants(ctx context.Context, before eventhook.TenantID, limit int) ([]eventhook.Tenant, error)
	Tenant(ctx context.Context, slug string) (eventhook.Tenant, error)
	AddTenant(ctx context.Context, t eventhook.Tenant) (eventhook.Tenant, error)
	Keys(ctx context.Context, tenant eventhook.TenantID, before eventhook.KeyID, limit int) ([]eventhook.APIKey, error)
	AddKey(ctx context.Context, k eventhook.APIKey, hash []byte) (eventhook.APIKey, error)
	DeleteKey(ctx context.Context, tenant eventhook.TenantID, id eventhook.KeyID) error
}

type tenantView struct {
	ID        string    `json:"id" format:"uuid"`
	Slug      string    `json:"slug"`
	Name      string    `json:"name"`
	Status    string    `json:"status" enum:"active,suspended,closed"`
	CreatedAt time.Time `json:"created_at"`
}

func viewTenant(t eventhook.Tenant) tenantView {
	return tenantView{ID: t.ID.String(), Slug: t.Slug, Name: t.Name, Status: string(t.Status), CreatedAt: utc(t.CreatedAt)}
}

type keyView struct {
	ID        string     `json:"id" format:"uuid"`
	Name      string     `json:"name"`
	Prefix    string     `json:"prefix" doc:"How the key begins."`
	Scopes    []string   `json:"scopes"`
	ExpiresAt *time.Time `json:"expires_at"`
	CreatedAt time.Time  `json:"created_at"`
	Key       string     `json:"key,omitempty" doc:"The key itself, at its creation and never again."`
}

func viewKey(k eventhook.APIKey) keyView {
	v := keyView{ID: k.ID.String(), Name: k.Name, Prefix: k.Prefix, ExpiresAt: optionalUTC(k.ExpiresAt), CreatedAt: utc(k.CreatedAt)}
	for _, s := range k.Scopes {
		v.Scopes = append(v.Scopes, string(s))
	}
	return v
}

func (s *server) registerAdmin(api huma.API) {
	op := func(method, path, summary string, status int) operation {
		return operation{method: method, path: "/api/admin/tenants" + path, summary: summary, status: status, tag: "admin"}
	}
	register(s, api, op(http.MethodGet, "", "List tenants, newest first", 0), s.listTenants)
	register(s, api, op(http.MethodPost, "", "Make a tenant", http.StatusCreated), s.addTenant)
	register(s, api, op(http.MethodGet, "/{tenant}", "Read a tenant", 0), s.readTenant)
	register(s, api, op(http.MethodGet, "/{tenant}/keys", "List a tenant's keys, newest first", 0), s.listKeys)
	register(s, api, op(http.MethodPost, "/{tenant}/keys", "Make a key; it is shown once", http.StatusCreated), s.addKey)
	register(s, api, op(http.MethodDelete, "/{tenant}/keys/{id}", "Delete a key", http.StatusNoContent), s.deleteKey)
}

func (s *server) listTenants(ctx context.Context, _ caller, in *PageQuery) (*page[tenantView], error) {
	before, err := cursorOf[eventhook.Tenant](in.Cursor)
	if err != nil {
		return nil, err
	}
	list, err := s.Admin.Tenants(ctx, before, in.Limit+1)
	if err != nil {
		return nil, err
	}
	return makePage(list, in.Limit, viewTenant, func(t eventhook.Tenant) eventhook.TenantID { return t.ID }), nil
}

type tenantAnswer struct{ Body tenantView }

type addTenantRequest struct {
	Body struct {
		Slug string `json:"slug"`
		Name string `json:"name"`
	}
}

func (s *server) addTenant(ctx context.Context, _ caller, in *addTenantRequest) (*tenantAnswer, error) {
	t := eventhook.Tenant{Slug: in.Body.Slug, Name: in.Body.Name}
	var faults eventhook.Faults
	faults.Merge("body", t.Validate())
	if err := faults.Err("The tenant is not valid."); err != nil {
		return nil, err
	}
	t, err := s.Admin.AddTenant(ctx, t)
	if err != nil {
		return nil, err
	}
	s.keys.tenants.ForgetKey(t.Slug) // it may be known as absent
	return &tenantAnswer{viewTenant(t)}, nil
}

func (s *server) readTenant(ctx context.Context, _ caller, in *TenantPath) (*tenantAnswer, error) {
	t, err := s.Admin.Tenant(ctx, in.Tenant)
	if err != nil {
		return nil, err
	}
	return &tenantAnswer{viewTenant(t)}, nil
}

type keysQuery struct {
	TenantPath
	PageQuery
}

func (s *server) listKeys(ctx context.Context, _ caller, in *keysQuery) (*page[keyView], error) {
	before, err := cursorOf[eventhook.APIKey](in.Cursor)
	if err != nil {
		return nil, err
	}
	t, err := s.Admin.Tenant(ctx, in.Tenant)
	if err != nil {
		return nil, err
	}
	list, err := s.Admin.Keys(ctx, t.ID, before, in.Limit+1)
	if err != nil {
		return nil, err
	}
	return makePage(list, in.Limit, viewKey, func(k eventhook.APIKey) eventhook.KeyID { return k.ID }), nil
}

type addKeyRequest struct {
	TenantPath
	Body struct {
		Name      string     `json:"name"`
		Scopes    []string   `json:"scopes" doc:"read, manage, publish, work, deliver"`
		ExpiresAt *time.Time `json:"expires_at,omitempty"`
	}
}

// maxKeyYears keeps the moment within what RFC 3339 can write.
const maxKeyYears = 100

type keyAnswer struct{ Body keyView }

func (s *server) addKey(ctx context.Context, _ caller, in *addKeyRequest) (*keyAnswer, error) {
	k := eventhook.APIKey{Name: in.Body.Name, ExpiresAt: in.Body.ExpiresAt}
	for _, scope := range in.Body.Scopes {
		k.Scopes = append(k.Scopes, eventhook.Scope(scope))
	}
	var faults eventhook.Faults
	faults.Merge("body", k.Validate())
	if k.ExpiresAt != nil && !k.ExpiresAt.After(s.Now()) {
		faults.Add("body.expires_at", "is in the past")
	}
	if k.ExpiresAt != nil && k.ExpiresAt.After(s.Now().AddDate(maxKeyYears, 0, 0)) {
		faults.Add("body.expires_at", "is more than %d years away; leave it out for a key that does not expire", maxKeyYears)
	}
	if err := faults.Err("The key is not valid."); err != nil {
		return nil, err
	}
	t, err := s.Admin.Tenant(ctx, in.Tenant)
	if err != nil {
		return nil, err
	}
	key := NewKey()
	hash := sha256.Sum256([]byte(key))
	k.TenantID, k.Prefix = t.ID, key[:len(KeyPrefix)+4]
	if k, err = s.Admin.AddKey(ctx, k, hash[:]); err != nil {
		return nil, err
	}
	out := &keyAnswer{viewKey(k)}
	out.Body.Key = key
	return out, nil
}

const keyBytes = 32

// NewKey makes an API key of 256 random bits.
func NewKey() string {
	raw := make([]byte, keyBytes)
	_, _ = rand.Read(raw) // never fails, see crypto/rand
	return KeyPrefix + base64.RawURLEncoding.EncodeToString(raw)
}

type keyPath struct {
	TenantPath
	ID string `path:"id" format:"uuid" doc:"The key's id."`
}

func (s *server) deleteKey(ctx context.Context, _ caller, in *keyPath) (*struct{}, error) {
	id, err := eventhook.ParseID[eventhook.APIKey](in.ID)
	if err != nil {
		return nil, err
	}
	t, err := s.Admin.Tenant(ctx, in.Tenant)
	if err != nil {
		return nil, err
	}
	if err := s.Admin.DeleteKey(ctx, t.ID, id); err != nil {
		return nil, err
	}
	s.keys.keys.Clear() // at once here; other instances believe it for keyAge
	return nil, nil
}
