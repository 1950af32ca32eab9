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

// TenantKeyStore stores the API keys of tenants as hashes.
type TenantKeyStore interface {
	Keys(ctx context.Context, tenant eventhook.TenantID, before eventhook.KeyID, limit int) ([]eventhook.APIKey, error)
	CreateKey(ctx context.Context, by eventhook.Actor, k eventhook.APIKey, hash []byte) (eventhook.APIKey, error)
	DeleteKey(ctx context.Context, by eventhook.Actor, tenant eventhook.TenantID, id eventhook.KeyID) error
}

type keyView struct {
	ID         string     `json:"id" format:"uuid"`
	Name       string     `json:"name" doc:"Display name."`
	Prefix     string     `json:"prefix" doc:"First characters of the key."`
	Scopes     []string   `json:"scopes" doc:"Permissions of the key."`
	ExpiresAt  *time.Time `json:"expires_at" doc:"Expiry time; null if the key does not expire. Closing a tenant expires its keys."`
	LastUsedAt *time.Time `json:"last_used_at" doc:"Time of last use, up to a minute behind; null if the key was never used."`
	CreatedAt  time.Time  `json:"created_at"`
	AgentID    *string    `json:"agent_id" format:"uuid" doc:"Agent that the key belongs to; null for a key of the tenant."`
	Key        string     `json:"key,omitempty" doc:"The key. Returned only when the key is created."`
}

func viewKey(k eventhook.APIKey) keyView {
	v := keyView{ID: k.ID.String(), Name: k.Name, Prefix: k.Prefix, Scopes: []string{}, ExpiresAt: optionalUTC(k.ExpiresAt),
		LastUsedAt: optionalUTC(k.LastUsedAt), CreatedAt: utc(k.CreatedAt), AgentID: optionalID(k.AgentID)}
	for _, s := range k.Scopes {
		v.Scopes = append(v.Scopes, string(s))
	}
	return v
}

func (s *server) registerKeys(api huma.API) {
	op := func(id, method, path, summary string, status int) operation {
		return operation{id: id, method: method, path: tenantsPath + "/{tenant}/keys" + path, summary: summary, status: status, tag: "admin"}
	}
	create := op("create-key", http.MethodPost, "", "Create an API key", http.StatusCreated)
	create.skipsShape, create.about = true, "The response contains the key, which is returned only once."
	register(s, api, op("list-keys", http.MethodGet, "", "List the API keys of a tenant", 0), s.listKeys)
	own := operation{id: "list-own-keys", method: http.MethodGet, path: base + "/keys", scope: eventhook.ScopeManage, tag: "admin",
		summary: "List the API keys of the own tenant", about: "Newest first, without the keys themselves."}
	register(s, api, own, s.listOwnKeys)
	register(s, api, create, s.createKey)
	remove := op("delete-key", http.MethodDelete, "/{id}", "Delete an API key", http.StatusNoContent)
	remove.about = "Revokes the key. Every instance refuses it within a second."
	register(s, api, remove, s.deleteKey)
}

type keysQuery struct {
	TenantPath
	PageQuery
}

func (s *server) listKeys(ctx context.Context, _ caller, in *keysQuery) (*page[keyView], error) {
	t, err := s.Admin.Tenant(ctx, in.Tenant)
	if err != nil {
		return nil, err
	}
	return s.pageOfKeys(ctx, t.ID, in.PageQuery)
}

func (s *server) listOwnKeys(ctx context.Context, by caller, in *keysQuery) (*page[keyView], error) {
	return s.pageOfKeys(ctx, by.tenant, in.PageQuery)
}

func (s *server) pageOfKeys(ctx context.Context, tenant eventhook.TenantID, in PageQuery) (*page[keyView], error) {
	pages := s.pager("keys", tenant)
	before, err := cursorOf[eventhook.APIKey](pages, in.Cursor)
	if err != nil {
		return nil, err
	}
	list, err := s.Admin.Keys(ctx, tenant, before, in.Limit+1)
	if err != nil {
		return nil, err
	}
	return newPage(pages, list, in.Limit, viewKey, func(k eventhook.APIKey) eventhook.KeyID { return k.ID }), nil
}

type keyCreate struct {
	Name      string   `json:"name" doc:"Display name."`
	Scopes    []string `json:"scopes" enum:"read,manage,publish,work,deliver" doc:"Permissions of the key."`
	ExpiresAt *string  `json:"expires_at,omitempty" format:"date-time" nullable:"true" doc:"Expiry time. If omitted, the key does not expire."`
}

type createKeyRequest struct {
	TenantPath
	Body document[keyCreate]
}

type keyAnswer struct{ Body keyView }

func (s *server) createKey(ctx context.Context, by caller, in *createKeyRequest) (*keyAnswer, error) {
	k, err := s.keyOf(in.Body)
	if err != nil {
		return nil, err
	}
	t, err := s.Admin.Tenant(ctx, in.Tenant)
	if err != nil {
		return nil, err
	}
	key, stored := newStoredKey()
	k.TenantID, k.Prefix = t.ID, stored.Prefix
	if k, err = s.Admin.CreateKey(ctx, by.onBehalf(), k, stored.Hash); err != nil {
		return nil, err
	}
	out := &keyAnswer{viewKey(k)}
	out.Body.Key = key
	return out, nil
}

// keyOf returns the key that a request describes.
func (s *server) keyOf(body document[keyCreate]) (eventhook.APIKey, error) {
	b, shape := body.read(s)
	k := eventhook.APIKey{Name: b.Name}
	for _, scope := range b.Scopes {
		k.Scopes = append(k.Scopes, eventhook.Scope(scope))
	}
	faults := k.Validate()
	if b.ExpiresAt != nil {
		k.ExpiresAt = s.expiryOf(&faults, *b.ExpiresAt)
	}
	var rules eventhook.Faults
	rules.Merge("body", faults)
	return k, combinedError(shape, rules)
}

// expiryOf parses the expiry time of a key. It must be in the future, and near enough
// that RFC 3339 can represent it in every time zone.
func (s *server) expiryOf(f *eventhook.Faults, text string) *time.Time {
	const at, years = "expires_at", 100
	end, err := time.Parse(time.RFC3339, text)
	switch {
	case err != nil:
		f.Add(at, "must be a time such as 2030-01-31T12:00:00Z")
	case !end.After(s.Now()):
		f.Add(at, "is in the past")
	case end.After(s.Now().AddDate(years, 0, 0)):
		f.Add(at, "is more than %d years away; leave it out for a key that does not expire", years)
	}
	end = end.Truncate(time.Microsecond) // the precision of PostgreSQL
	return &end
}

const keyBytes = 32

// NewKey returns a random API key with 256 bits of entropy.
func NewKey() string {
	raw := make([]byte, keyBytes)
	_, _ = rand.Read(raw) // never fails, see crypto/rand
	return KeyPrefix + base64.RawURLEncoding.EncodeToString(raw)
}

// newStoredKey returns a random API key and the form in which it is stored.
func newStoredKey() (key string, stored eventhook.NewKey) {
	key = NewKey()
	hash := sha256.Sum256([]byte(key))
	return key, eventhook.NewKey{Prefix: key[:len(KeyPrefix)+4], Hash: hash[:]}
}

type keyPath struct {
	TenantPath
	ID string `path:"id" format:"uuid" doc:"Key id."`
}

func (s *server) deleteKey(ctx context.Context, by caller, in *keyPath) (*struct{}, error) {
	id, err := eventhook.ParseID[eventhook.APIKey](in.ID)
	if err != nil {
		return nil, err
	}
	t, err := s.Admin.Tenant(ctx, in.Tenant)
	if err != nil {
		return nil, err
	}
	if err := s.Admin.DeleteKey(ctx, by.onBehalf(), t.ID, id); err != nil {
		return nil, err
	}
	s.keys.invalidate(t.Slug) // at once on this instance; other instances cache the key for keyAge
	return nil, nil
}
