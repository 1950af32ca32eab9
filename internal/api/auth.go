package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/snapshot"
)

// KeyPrefix begins every API key.
const KeyPrefix = "ehk_"

// KeyStore knows tenants and their keys. KeyByHash also tells the slug of the
// key's tenant; a key that is not valid is KindUnauthorized.
type KeyStore interface {
	KeyByHash(ctx context.Context, hash []byte) (eventhook.APIKey, string, error)
	Tenant(ctx context.Context, slug string) (eventhook.Tenant, error)
}

// caller is who makes a request, and for which tenant. The tenant is zero on
// the admin's own paths.
type caller struct {
	tenant eventhook.TenantID
	admin  bool
}

type callerKey struct{}

// callerOf is who the middleware found. Operations always have one.
func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}

const scopeKey = "scope"

// keyAge bounds how long a revoked key, or a tenant that changed, is believed.
const keyAge = time.Second

type keyring struct {
	admin   [sha256.Size]byte
	hasKey  bool
	now     func() time.Time
	keys    *snapshot.Cache[[sha256.Size]byte, knownKey]
	tenants *snapshot.Cache[string, eventhook.Tenant]
}

type knownKey struct {
	eventhook.APIKey
	tenant string
	known  bool
}

func newKeyring(store KeyStore, admin eventhook.Secret, now func() time.Time) *keyring {
	const size = 10_000
	return &keyring{
		admin:  sha256.Sum256([]byte(admin.Reveal())),
		hasKey: !admin.IsZero(),
		now:    now,
		keys: snapshot.New(size, keyAge, now, func(ctx context.Context, hash [sha256.Size]byte) (knownKey, error) {
			k, tenant, err := store.KeyByHash(ctx, hash[:])
			if eventhook.KindOf(err) == eventhook.KindUnauthorized {
				return knownKey{}, eventhook.NotFound("key") // kept apart from keys that exist
			}
			return knownKey{k, tenant, true}, err
		}),
		tenants: snapshot.New(size, keyAge, now, store.Tenant),
	}
}

// errUnauthorized is the same for no key, a bad one and an expired one.
var errUnauthorized = &eventhook.Error{Kind: eventhook.KindUnauthorized, Message: "A valid API key is required: Authorization: Bearer ehk_…"}

// identify decides whether the bearer of an authorization may do what needs
// scope for the tenant with a slug, or, without a scope, as the admin.
func (k *keyring) identify(ctx context.Context, authorization, tenant string, scope eventhook.Scope) (caller, error) {
	scheme, token, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return caller{}, errUnauthorized
	}
	hash := sha256.Sum256([]byte(strings.TrimSpace(token)))
	if k.hasKey && subtle.ConstantTimeCompare(hash[:], k.admin[:]) == 1 {
		if tenant != "" && !eventhook.IsSlug(tenant) {
			return caller{}, eventhook.NotFound("tenant") // no slug, and nothing to ask the database for
		}
		if scope == "" {
			return caller{admin: true}, nil
		}
		t, err := k.tenants.Get(ctx, tenant)
		return caller{tenant: t.ID, admin: true}, err
	}
	if !isKey(token) {
		return caller{}, errUnauthorized // no key of ours, and nothing to ask the database for
	}
	key, err := k.keys.Get(ctx, hash)
	if eventhook.KindOf(err) == eventhook.KindNotFound {
		return caller{}, errUnauthorized
	}
	if err != nil {
		return caller{}, err
	}
	if key.ExpiresAt != nil && !k.now().Before(*key.ExpiresAt) {
		return caller{}, errUnauthorized
	}
	return caller{tenant: key.TenantID}, key.permits(tenant, scope)
}

// isKey reports whether a token has the form of a key that NewKey makes.
func isKey(token string) bool {
	rest, ok := strings.CutPrefix(strings.TrimSpace(token), KeyPrefix)
	raw, err := base64.RawURLEncoding.DecodeString(rest)
	return ok && err == nil && len(raw) == keyBytes
}

func (k knownKey) permits(tenant string, scope eventhook.Scope) error {
	if scope == "" {
		return &eventhook.Error{Kind: eventhook.KindForbidden, Message: "This needs the admin key."}
	}
	if k.tenant != tenant {
		return eventhook.NotFound("tenant")
	}
	for _, s := range k.Scopes {
		if s == scope {
			return nil
		}
	}
	return &eventhook.Error{Kind: eventhook.KindForbidden, Message: "The API key lacks the scope " + string(scope) + "."}
}

// authorize lets only those requests through that may be made.
func (s *server) authorize(api huma.API) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		op := ctx.Operation()
		scope, _ := op.Metadata[scopeKey].(eventhook.Scope)
		who, err := s.keys.identify(ctx.Context(), ctx.Header("Authorization"), ctx.Param("tenant"), scope)
		if err == nil {
			err = checkQuery(ctx.URL().RawQuery)
		}
		if err == nil {
			next(huma.WithValue(ctx, callerKey{}, who))
			return
		}
		s.refuse(api, ctx, err)
	}
}

// refuse answers a request that goes no further.
func (s *server) refuse(api huma.API, ctx huma.Context, err error) {
	op := ctx.Operation()
	answer, status := s.problem(ctx.Context(), operation{method: op.Method, path: op.Path}, err), http.StatusInternalServerError
	var faults []error
	if p, ok := errors.AsType[*problem](answer); ok {
		status = p.Status
		for _, f := range p.Errors {
			faults = append(faults, &huma.ErrorDetail{Location: f.Location, Message: f.Message})
		}
	}
	if status == http.StatusUnauthorized {
		ctx.SetHeader("WWW-Authenticate", "Bearer")
	}
	_ = huma.WriteErr(api, ctx, status, answer.Error(), faults...) // the client may be gone
}

// checkQuery refuses a query that cannot be read as text: what is left out
// would else filter nothing.
func checkQuery(raw string) error {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return &eventhook.Error{Kind: eventhook.KindMalformed, Message: "The query cannot be parsed."}
	}
	var bad eventhook.Faults
	for _, name := range slices.Sorted(maps.Keys(query)) {
		for _, text := range append(query[name], name) {
			if eventhook.Text(text) != text {
				bad.Add("query."+eventhook.Text(name), "must be UTF-8 without NUL")
				break
			}
		}
	}
	return malformed(bad)
}
