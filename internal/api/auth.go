package api

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/snapshot"
)

// KeyPrefix begins every API key.
const KeyPrefix = "ehk_"

// KeyStore reads tenants and API keys.
type KeyStore interface {
	// KeyByHash returns a key, and the slug and status of its tenant. The error is
	// KindUnauthorized if the key is not valid.
	KeyByHash(ctx context.Context, hash []byte) (eventhook.APIKey, eventhook.Tenant, error)
	Tenant(ctx context.Context, slug string) (eventhook.Tenant, error)
}

// Keys of the metadata of an operation.
const (
	scopeKey = "scope"
	costKey  = "cost"
	classKey = "class"
	// acceptKey is true for operations that create work.
	acceptKey = "accept"
	// ownKey is true for operations that every valid key may call.
	ownKey = "own"
	// schemaKey is for bodies of several schemas. Its value is a function that returns
	// the schema for a content type and the bytes of a body, nil for a body that is not checked.
	schemaKey = "schema"
)

// keyAge is how long keys and tenants are cached. Together with the time to read
// them, a revoked key or a changed tenant takes effect in less than a second.
const keyAge = 800 * time.Millisecond

// keyring caches keys, by their hashes, and tenants. It is safe for concurrent use.
type keyring struct {
	admin   []adminHash
	now     func() time.Time
	keys    *snapshot.Cache[keyHash, cachedKey]
	tenants *snapshot.Cache[string, eventhook.Tenant]
}

type keyHash [sha256.Size]byte

type cachedKey struct {
	eventhook.APIKey
	tenant eventhook.Tenant
}

func newKeyring(d Deps) *keyring {
	const size = 10_000
	store := d.Keys
	return &keyring{
		admin: adminHashes(d),
		now:   d.Now,
		keys: snapshot.New(size, keyAge, d.Now, func(ctx context.Context, hash keyHash) (cachedKey, error) {
			k, tenant, err := store.KeyByHash(ctx, hash[:])
			if eventhook.KindOf(err) == eventhook.KindUnauthorized {
				return cachedKey{}, eventhook.NotFound("key") // cached as missing
			}
			return cachedKey{k, tenant}, err
		}),
		tenants: snapshot.New(size, keyAge, d.Now, store.Tenant),
	}
}

// invalidate evicts a tenant that has changed, or whose keys have. It evicts the
// keys of all tenants, because hashes are not indexed by tenant.
func (k *keyring) invalidate(tenant string) {
	k.keys.Clear()
	k.tenants.Invalidate(tenant)
}

// errUnauthorized is the same for a missing, a wrong and an expired key, so that the
// response does not reveal which.
var errUnauthorized = &eventhook.Error{Kind: eventhook.KindUnauthorized, Message: "A valid API key is required: Authorization: Bearer ehk_…"}

// bearerToken returns the token of an Authorization header with the scheme Bearer.
func bearerToken(authorization string) (token string, ok bool) {
	scheme, token, _ := strings.Cut(authorization, " ")
	token = strings.TrimSpace(token)
	return token, strings.EqualFold(scheme, "Bearer") && token != ""
}

// credential is what authenticates a request: a key, or the grant of a session.
type credential struct {
	hash       keyHash          // of the key, or of the grant
	hasKeyForm bool             // the key can be in the database
	grant      *eventhook.Grant // nil for a key
}

// credentialOf returns the credential of a request: that of its session, or the token of its
// Authorization header. ok is false if it has none.
func credentialOf(ctx huma.Context) (c credential, ok bool) {
	if session, isSession := SessionOf(ctx.Context()); isSession {
		return session.credential()
	}
	token, ok := bearerToken(ctx.Header("Authorization"))
	return credential{hash: sha256.Sum256([]byte(token)), hasKeyForm: hasKeyForm(token)}, ok
}

// identity is an admin key, an API key of a tenant, or a grant.
type identity struct {
	admin *adminHash       // nil for a key of a tenant and a grant
	grant *eventhook.Grant // nil for a key
	key   cachedKey        // zero for an admin key and a grant
}

// authenticate returns the identity of a credential, or errUnauthorized if it is not a
// valid key.
func (k *keyring) authenticate(ctx context.Context, c credential) (identity, error) {
	if c.grant != nil {
		return identity{grant: c.grant}, nil
	}
	if admin := k.adminOf(c.hash); admin != nil {
		return identity{admin: admin}, nil
	}
	if !c.hasKeyForm {
		return identity{}, errUnauthorized // cannot be in the database
	}
	key, err := k.keys.Get(ctx, c.hash)
	if eventhook.KindOf(err) == eventhook.KindNotFound || err == nil && key.ExpiresAt != nil && !k.now().Before(*key.ExpiresAt) {
		return identity{}, errUnauthorized
	}
	return identity{key: key}, err
}

// needsLookup reports whether authenticate has to query the database for a key
// that is not cached as a valid key.
func (k *keyring) needsLookup(c credential) bool {
	return c.grant == nil && k.adminOf(c.hash) == nil && c.hasKeyForm && !k.keys.IsKnown(c.hash)
}

// hasKeyForm reports whether a token has the form of the keys that NewKey generates.
func hasKeyForm(token string) bool {
	rest, ok := strings.CutPrefix(token, KeyPrefix)
	raw, err := base64.RawURLEncoding.DecodeString(rest)
	return ok && err == nil && len(raw) == keyBytes
}

// requirement is the permission that an operation requires.
type requirement struct {
	tenant   string          // slug in the path
	scope    eventhook.Scope // "": only the admin key
	isChange bool            // changes the configuration of the tenant, publishes events, or starts work
	isAccept bool            // publishes events, or starts work
	isRead   bool            // changes nothing at all
	isOwn    bool            // tells the caller about itself: every valid key may call it
	id       string          // of the operation
}

func requirementOf(ctx huma.Context) requirement {
	op := ctx.Operation()
	scope, _ := op.Metadata[scopeKey].(eventhook.Scope)
	startsWork, _ := op.Metadata[acceptKey].(bool)
	isAccept := startsWork || op.Method != http.MethodGet && scope == eventhook.ScopePublish
	isChange := isAccept || op.Method != http.MethodGet && scope == eventhook.ScopeManage
	isRead := op.Method == http.MethodGet || scope == eventhook.ScopeRead
	isOwn, _ := op.Metadata[ownKey].(bool)
	return requirement{ctx.Param("tenant"), scope, isChange, isAccept, isRead, isOwn, op.OperationID}
}

// permit returns the tenant on which an identity may run an operation; zero for
// operations without a tenant. The error is KindForbidden, KindNotFound or
// KindConflict if the identity lacks permission.
func (k *keyring) permit(ctx context.Context, h identity, n requirement) (eventhook.TenantID, error) {
	switch {
	case h.grant != nil:
		return k.permitGrant(ctx, *h.grant, n)
	case h.admin != nil && h.admin.isReadOnly && !n.isRead:
		return eventhook.TenantID{}, errReadOnly
	case h.admin != nil:
		return k.permitAdmin(ctx, n)
	case n.isOwn:
		return h.key.TenantID, nil
	case n.scope == "":
		return eventhook.TenantID{}, errAdminOnly
	case h.key.tenant.Slug != n.tenant:
		return eventhook.TenantID{}, eventhook.NotFound("tenant")
	case !slices.Contains(h.key.Scopes, n.scope):
		return eventhook.TenantID{}, &eventhook.Error{Kind: eventhook.KindForbidden, Message: "The API key lacks the scope " + string(n.scope) + "."}
	case n.isChange && h.key.tenant.Status == eventhook.TenantSuspended:
		return eventhook.TenantID{}, errSuspended
	}
	return h.key.TenantID, nil
}

var (
	errAdminOnly = &eventhook.Error{Kind: eventhook.KindForbidden, Message: "This operation requires the admin key."}
	errSuspended = &eventhook.Error{Kind: eventhook.KindForbidden,
		Message: "The tenant is suspended: its keys can read data and process accepted work, but cannot change anything."}
)

func (k *keyring) permitAdmin(ctx context.Context, n requirement) (eventhook.TenantID, error) {
	if n.tenant != "" && !eventhook.IsSlug(n.tenant) {
		return eventhook.TenantID{}, eventhook.NotFound("tenant") // cannot be in the database
	}
	if n.scope == "" {
		return eventhook.TenantID{}, nil
	}
	t, err := k.tenants.Get(ctx, n.tenant)
	switch {
	case err != nil || n.isRead:
	case t.Status == eventhook.TenantClosed:
		err = &eventhook.Error{Kind: eventhook.KindConflict, Message: "The tenant is closed and cannot be changed."}
	case t.Status == eventhook.TenantSuspended && n.isAccept:
		err = &eventhook.Error{Kind: eventhook.KindConflict, Message: "The tenant is suspended and does not accept events and work."}
	}
	return t.ID, err
}

// authorize is the middleware that authorizes a request, reserves its memory and
// checks its parameters. A request that fails gets an error response and does not
// reach its handler.
func (s *server) authorize(api huma.API) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		trace, parent, flags := ingest.TraceOf(requestOf(ctx).Header)
		by := caller{requestID: s.requestID(ctx), trace: trace, parentSpan: parent, traceFlags: flags, address: s.addressOf(ctx),
			hops: eventhook.HopsOf(requestOf(ctx).Header[eventhook.HopsHeader])}
		undecoded := decodePath(ctx)
		err := s.authorizeCaller(ctx, &by)
		if err == nil {
			by.reservation, err = s.reserveRequest(ctx, by)
		}
		if err == nil {
			defer func() { by.reservation.release(humaecho.Unwrap(ctx).Response().Size) }()
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

// authorizeCaller authenticates the request and checks its permission. It fills in
// the caller.
func (s *server) authorizeCaller(ctx huma.Context, by *caller) error {
	c, ok := credentialOf(ctx)
	if !ok {
		return s.countRefusal("key_missing", errUnauthorized)
	}
	h, err := s.wrongKeys.authenticate(ctx.Context(), by.address, c)
	switch {
	case eventhook.KindOf(err) == eventhook.KindRateLimited:
		return s.countRefusal("too_many_wrong_keys", err)
	case err != nil:
		return s.countRefusal("key_wrong", err)
	}
	needs := requirementOf(ctx)
	by.identify(h, c, needs)
	if session, isSession := SessionOf(ctx.Context()); isSession {
		by.via = session.Via
	}
	if !by.key.IsZero() {
		s.KeyUses.record(by.key, s.Now())
	}
	if by.tenant, err = s.keys.permit(ctx.Context(), h, needs); err != nil {
		return s.countRefusal("not_permitted", err)
	}
	return nil
}

// countRefusal counts a refusal by its reason and returns err. Internal errors,
// which have no kind, are not counted.
func (s *server) countRefusal(reason string, err error) error {
	if s.OnRefusal != nil && eventhook.KindOf(err) != "" {
		s.OnRefusal(reason)
	}
	return err
}

// writeError writes the error response of a request whose handler does not run.
func (s *server) writeError(api huma.API, ctx huma.Context, err error) {
	op := ctx.Operation()
	answer, status := s.problem(ctx.Context(), operation{method: op.Method, path: op.Path}, err), http.StatusInternalServerError
	if p, ok := errors.AsType[*problem](answer); ok {
		status = p.Status
	}
	if h, ok := errors.AsType[huma.HeadersError](answer); ok {
		ctx.SetHeader("Retry-After", h.GetHeaders().Get("Retry-After"))
	}
	if status == http.StatusUnauthorized {
		ctx.SetHeader("WWW-Authenticate", "Bearer")
	}
	_ = huma.WriteErr(api, ctx, status, answer.Error(), answer) // the client may have disconnected
}
