package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/snapshot"
)

// KeyPrefix begins every API key.
const KeyPrefix = "ehk_"

// KeyStore knows tenants and their keys.
type KeyStore interface {
	// KeyByHash also tells the slug and the status of the key's tenant; a key
	// that is not valid is KindUnauthorized.
	KeyByHash(ctx context.Context, hash []byte) (eventhook.APIKey, eventhook.Tenant, error)
	Tenant(ctx context.Context, slug string) (eventhook.Tenant, error)
}

// What the metadata of an operation hold.
const (
	scopeKey = "scope"
	costKey  = "cost"
	classKey = "class"
	// schemaKey holds the schema of a body whose description holds several, given
	// its content type and bytes; nil: the body is not looked at.
	schemaKey = "schema"
)

// keyAge bounds how long a key that was revoked, or a tenant that has changed,
// is believed. With the time that reading them takes it is less than a second.
const keyAge = 800 * time.Millisecond

// keyring knows keys by their hashes, and tenants.
type keyring struct {
	admin       keyHash
	hasAdminKey bool
	now         func() time.Time
	keys        *snapshot.Cache[keyHash, cachedKey]
	tenants     *snapshot.Cache[string, eventhook.Tenant]
}

type keyHash [sha256.Size]byte

type cachedKey struct {
	eventhook.APIKey
	tenant eventhook.Tenant
}

func newKeyring(store KeyStore, admin eventhook.Secret, now func() time.Time) *keyring {
	const size = 10_000
	return &keyring{
		admin:       sha256.Sum256([]byte(admin.Reveal())),
		hasAdminKey: !admin.IsZero(),
		now:         now,
		keys: snapshot.New(size, keyAge, now, func(ctx context.Context, hash keyHash) (cachedKey, error) {
			k, tenant, err := store.KeyByHash(ctx, hash[:])
			if eventhook.KindOf(err) == eventhook.KindUnauthorized {
				return cachedKey{}, eventhook.NotFound("key") // kept apart from keys that exist
			}
			return cachedKey{k, tenant}, err
		}),
		tenants: snapshot.New(size, keyAge, now, store.Tenant),
	}
}

// forget drops what is known of a tenant that has changed, or whose keys have:
// of all keys, since a hash does not tell whose it is.
func (k *keyring) invalidate(tenant string) {
	k.keys.Clear()
	k.tenants.Invalidate(tenant)
}

// errUnauthorized is the same for no key, a bad one and an expired one.
var errUnauthorized = &eventhook.Error{Kind: eventhook.KindUnauthorized, Message: "A valid API key is required: Authorization: Bearer ehk_…"}

// bearer is the key that an Authorization header shows.
func bearerToken(authorization string) (token string, ok bool) {
	scheme, token, _ := strings.Cut(authorization, " ")
	token = strings.TrimSpace(token)
	return token, strings.EqualFold(scheme, "Bearer") && token != ""
}

// holder is whose key a request shows: the admin's, or a tenant's.
type identity struct {
	admin bool
	key   cachedKey
}

// find tells whose a key is; errUnauthorized: nobody's.
func (k *keyring) authenticate(ctx context.Context, token string, hash keyHash) (identity, error) {
	if k.isAdmin(hash) {
		return identity{admin: true}, nil
	}
	if !hasKeyForm(token) {
		return identity{}, errUnauthorized // no key of ours, and nothing to ask the database for
	}
	key, err := k.keys.Get(ctx, hash)
	if eventhook.KindOf(err) == eventhook.KindNotFound || err == nil && key.ExpiresAt != nil && !k.now().Before(*key.ExpiresAt) {
		return identity{}, errUnauthorized
	}
	return identity{key: key}, err
}

func (k *keyring) isAdmin(hash keyHash) bool {
	return k.hasAdminKey && subtle.ConstantTimeCompare(hash[:], k.admin[:]) == 1
}

// needsLookup reports whether find has to ask the database for a key of which it
// does not know that it was right.
func (k *keyring) needsLookup(token string, hash keyHash) bool {
	return !k.isAdmin(hash) && hasKeyForm(token) && !k.keys.IsKnown(hash)
}

// hasKeyForm reports whether a token has the form of a key that NewKey makes.
func hasKeyForm(token string) bool {
	rest, ok := strings.CutPrefix(token, KeyPrefix)
	raw, err := base64.RawURLEncoding.DecodeString(rest)
	return ok && err == nil && len(raw) == keyBytes
}

// need is what an operation wants of who calls it.
type requirement struct {
	tenant   string          // the slug in its path
	scope    eventhook.Scope // "" for the admin alone
	isChange bool            // what the tenant owns, or gives it something new to do
}

func requirementOf(ctx huma.Context) requirement {
	op := ctx.Operation()
	scope, _ := op.Metadata[scopeKey].(eventhook.Scope)
	isChange := op.Method != http.MethodGet && (scope == eventhook.ScopeManage || scope == eventhook.ScopePublish)
	return requirement{ctx.Param("tenant"), scope, isChange}
}

// permit tells for which tenant a holder acts, if he may.
func (k *keyring) permit(ctx context.Context, h identity, n requirement) (eventhook.TenantID, error) {
	if h.admin {
		return k.permitAdmin(ctx, n)
	}
	switch {
	case n.scope == "":
		return eventhook.TenantID{}, &eventhook.Error{Kind: eventhook.KindForbidden, Message: "This needs the admin key."}
	case h.key.tenant.Slug != n.tenant:
		return eventhook.TenantID{}, eventhook.NotFound("tenant")
	case !slices.Contains(h.key.Scopes, n.scope):
		return eventhook.TenantID{}, &eventhook.Error{Kind: eventhook.KindForbidden, Message: "The API key lacks the scope " + string(n.scope) + "."}
	case n.isChange && h.key.tenant.Status == eventhook.TenantSuspended:
		return eventhook.TenantID{}, &eventhook.Error{Kind: eventhook.KindForbidden,
			Message: "The tenant is suspended: its keys can read and work off what was accepted, and change nothing."}
	}
	return h.key.TenantID, nil
}

func (k *keyring) permitAdmin(ctx context.Context, n requirement) (eventhook.TenantID, error) {
	if n.tenant != "" && !eventhook.IsSlug(n.tenant) {
		return eventhook.TenantID{}, eventhook.NotFound("tenant") // nothing to ask the database for
	}
	if n.scope == "" {
		return eventhook.TenantID{}, nil
	}
	t, err := k.tenants.Get(ctx, n.tenant)
	switch {
	case err != nil || !n.isChange:
	case t.Status == eventhook.TenantClosed:
		err = &eventhook.Error{Kind: eventhook.KindConflict, Message: "The tenant is closed; nothing of it can be changed."}
	case t.Status == eventhook.TenantSuspended && n.scope == eventhook.ScopePublish:
		err = &eventhook.Error{Kind: eventhook.KindConflict, Message: "The tenant is suspended: nothing is accepted for it."}
	}
	return t.ID, err
}

// authorize lets only those requests through that may be made.
func (s *server) authorize(api huma.API) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		by := caller{requestID: s.requestID(ctx), address: s.addressOf(ctx)}
		undecoded := decodePath(ctx)
		err := s.authorizeCaller(ctx, &by)
		if err == nil {
			by.reservation, err = s.reserveRequest(ctx, by)
		}
		if err == nil {
			defer by.reservation.release()
			err = by.reservation.meterBody(ctx)
		}
		if err == nil {
			err = s.checkRequest(ctx, undecoded)
		}
		ctx = huma.WithValue(ctx, callerKey{}, by)
		if err != nil {
			s.writeError(api, ctx, err)
			return
		}
		next(ctx)
	}
}

// admit finds out who calls, and whether he may.
func (s *server) authorizeCaller(ctx huma.Context, by *caller) error {
	token, ok := bearerToken(ctx.Header("Authorization"))
	if !ok {
		return s.countRefusal("key_missing", errUnauthorized)
	}
	hash := keyHash(sha256.Sum256([]byte(token)))
	h, err := s.wrongKeys.authenticate(ctx.Context(), by.address, token, hash)
	switch {
	case eventhook.KindOf(err) == eventhook.KindRateLimited:
		return s.countRefusal("too_many_wrong_keys", err)
	case err != nil:
		return s.countRefusal("key_wrong", err)
	}
	if by.admin = h.admin; !h.admin {
		by.key, by.keyName = h.key.ID, h.key.Name
		s.KeyUses.record(h.key.ID, s.Now())
	}
	if by.tenant, err = s.keys.permit(ctx.Context(), h, requirementOf(ctx)); err != nil {
		return s.countRefusal("not_permitted", err)
	}
	return nil
}

// refused counts a refusal. What we failed at is none.
func (s *server) countRefusal(reason string, err error) error {
	if s.OnRefusal != nil && eventhook.KindOf(err) != "" {
		s.OnRefusal(reason)
	}
	return err
}

// refuse answers a request that goes no further.
func (s *server) writeError(api huma.API, ctx huma.Context, err error) {
	op := ctx.Operation()
	answer, status := s.problem(ctx.Context(), operation{method: op.Method, path: op.Path}, err), http.StatusInternalServerError
	var faults []error
	if p, ok := errors.AsType[*problem](answer); ok {
		status = p.Status
		for _, f := range p.Errors {
			faults = append(faults, &huma.ErrorDetail{Location: f.Location, Message: f.Message})
		}
	}
	if h, ok := errors.AsType[huma.HeadersError](answer); ok {
		ctx.SetHeader("Retry-After", h.GetHeaders().Get("Retry-After"))
	}
	if status == http.StatusUnauthorized {
		ctx.SetHeader("WWW-Authenticate", "Bearer")
	}
	_ = huma.WriteErr(api, ctx, status, answer.Error(), faults...) // the client may be gone
}
