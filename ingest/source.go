package ingest

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/clients"
	"github.com/eventhook/eventhook/internal/payload"
	"github.com/eventhook/eventhook/internal/snapshot"
	"github.com/eventhook/eventhook/internal/usage"
	"github.com/eventhook/eventhook/verify"
)

// Sources finds a source by the slugs of its tenant and of the source. The error is of
// KindNotFound if the source does not exist. IsCopy says that the answer comes from a copy of the
// configuration, also with an error.
type Sources interface {
	FindSource(ctx context.Context, tenant, source string) (eventhook.Source, error)
}

// SharedKeys is a verify.Keys that limits how much each tenant and source can fetch.
type SharedKeys interface {
	verify.Keys
	ForSource(tenant eventhook.TenantID, source eventhook.SourceID) verify.Keys
}

// address is the tenant slug and the source slug in a URL.
type address struct{ tenant, source string }

// addressOf returns the address in the URL of a request. Addresses are cached, so the slugs
// of a long URL are copied: otherwise the cache would retain the whole URL.
func addressOf(r *http.Request, tenant, source string) address {
	const maxRetained = 512
	if tenant == "" && source == "" { // the router drops them for methods that it does not know
		tenant, source = slugsOf(r.URL.EscapedPath())
	}
	if len(r.RequestURI) > maxRetained {
		tenant, source = strings.Clone(tenant), strings.Clone(source)
	}
	return address{tenant, source}
}

// slugsOf is the inverse of Path, with or without a path suffix. It returns "" for any other path.
func slugsOf(path string) (tenant, source string) {
	const tenantPart, sourcePart = 3, 6
	parts := strings.Split(path, "/")
	if len(parts) <= sourcePart || !strings.HasPrefix(path, Path(parts[tenantPart], parts[sourcePart])) {
		return "", ""
	}
	return parts[tenantPart], parts[sourcePart]
}

// source is the compiled configuration of a source. All requests to the source share it. It
// is immutable, except limits, work and account, which are safe for concurrent use.
type source struct {
	config           eventhook.Source // without the verifier, which has secrets
	verifier         verify.Verifier
	keyPaths         []payload.Path
	typePaths        []payload.Path
	allowed          clients.Ranges
	contentTypes     []string // lower-case media types; empty if all are allowed
	redact           []string // canonical names of headers whose values are not stored
	redactParameters []string // names of URL parameters whose values are not stored
	limits           *limits
	work             workBudget
	account          *usage.Account
	scheme           string // of the verifier, as events record it
	verifiedSize     int    // of the field that records the verification, at most
	signedURL        string // as registered at the provider, without the query
	bodyLimit        int
	methods          []string // with which events are sent
	// verifierBytes estimates the memory that the verifier allocates for a body. It is nil if
	// the verifier allocates no memory.
	verifierBytes      func(contentType string, body []byte) int
	hasCustomReserved  bool // the verifier has a reserved expression that differs from the preset's
	deduplicatesSigned bool // a request with the same signed content is a duplicate
	handshakeConfig
}

// errSourceNotFound is the error for sources that do not exist or are disabled, and for
// sources of tenants that are not active, so that a sender cannot tell these apart.
var errSourceNotFound = eventhook.NotFound("source")

// sourceMaxAge is how long a source is cached without a notification of a change. Changes
// are notified, and the cache is cleared when the connection for notifications breaks;
// sourceMaxAge is a safeguard against notifications that are lost in other ways.
const sourceMaxAge = 10 * time.Minute

// copyMaxAge is how long an answer of a copy is cached. An instance reads copies while it cannot reach the
// database, and then it is not notified of changes.
const copyMaxAge = 2 * time.Second

// maxAge is how long a source is cached, or that it was not found.
func (s *source) maxAge() time.Duration {
	if s != nil && s.config.IsCopy {
		return copyMaxAge
	}
	return sourceMaxAge
}

// maxSourceLoads limits concurrent database reads of sources, so that a scan of made-up
// URLs does not use up the connections.
const maxSourceLoads = 4

func newSourceCache(config Config, deps Deps, shared *sharedLimits) *snapshot.Cache[address, *source] {
	slots, limits, budgets := make(chan struct{}, maxSourceLoads), newLimitsCache(config.CachedSources, config.InFlightBytes, shared), newWorkBudgets(config)
	cache := snapshot.New(config.CachedSources, sourceMaxAge, deps.Now, func(ctx context.Context, a address) (*source, error) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		found, err := deps.Sources.FindSource(ctx, a.tenant, a.source)
		if err == nil && (!found.IsEnabled || found.TenantStatus != eventhook.TenantActive) {
			err = errSourceNotFound
		}
		if err != nil {
			return &source{config: eventhook.Source{IsCopy: found.IsCopy}}, err
		}
		s, err := newSource(found, config.PublicURL, deps.Keys)
		if err != nil {
			return nil, fmt.Errorf("source %s/%s: %w", found.TenantSlug, found.Slug, err)
		}
		for _, fault := range verify.ValidateChange(eventhook.Secret{}, found.Verifier) {
			deps.Log.Warn("a source's verifier should be changed", "tenant", found.TenantSlug, "source", found.Slug, "setting", fault.Location, "why", fault.Message)
		}
		s.limits, s.work = limits.ofSource(found, deps.Now()), budgets.ofSource(found)
		if deps.Meter != nil {
			s.account, err = deps.Meter.Open(ctx, found)
		}
		return s, err
	})
	cache.LimitAge((*source).maxAge)
	return cache
}

// newSource compiles the configuration of a source, except limits, work and account.
func newSource(config eventhook.Source, publicURL string, keys verify.Keys) (*source, error) {
	resolved, err := resolve(config)
	if err != nil {
		return nil, err
	}
	s := &source{config: config, bodyLimit: config.BodyLimit(), signedURL: URL(publicURL, config),
		redact: redactedHeaders(resolved.Config.SecretHeaders()), redactParameters: slices.Concat(usualParameters, resolved.Config.SecretParameters())}
	s.config.Verifier = eventhook.Secret{}
	if shared, ok := keys.(SharedKeys); ok {
		keys = shared.ForSource(config.TenantID, config.ID)
	}
	if s.verifier, err = newVerifier(config, resolved, keys); err != nil {
		return nil, err
	}
	s.verifierBytes = resolved.Config.MemoryCost()
	s.scheme = resolved.Scheme
	const most = 9999 // has as many digits as any number of secrets
	s.verifiedSize = len(s.appendVerified(nil, verify.Match{Number: most, Of: most}))
	preset := resolved.Preset
	s.hasCustomReserved = resolved.Config.Reserved != preset.Verifier.Reserved
	s.deduplicatesSigned = cmp.Or(config.ReplayProtection, resolved.ReplayProtection) == eventhook.ReplayBody
	s.handshakeConfig, s.methods = newHandshakeConfig(config, resolved), postOnly
	if !s.handshake.exists() {
		s.methods = append(s.methods, preset.Methods...)
	}
	keyPaths, typePaths := orPreset(config.IdempotencyKeyPaths, preset.IdempotencyKeyPaths), orPreset(config.EventTypePaths, preset.EventTypePaths)
	if s.config.Response == nil {
		s.config.Response = preset.Reply
	}
	if s.keyPaths, err = s.parsePaths(keyPaths); err != nil {
		return nil, err
	}
	if s.typePaths, err = s.parsePaths(slices.Concat(typePaths, defaultTypePaths)); err != nil {
		return nil, err
	}
	if s.allowed, err = clients.ParseRanges(config.AllowedIPRanges); err != nil {
		return nil, err
	}
	for _, c := range config.ContentTypes {
		s.contentTypes = append(s.contentTypes, mediaType(c))
	}
	return s, nil
}

// appendVerified appends to a header block how a request was verified.
func (s *source) appendVerified(b payload.HeaderBlock, m verify.Match) []byte {
	return payload.Verification{Scheme: s.scheme, Secret: m.Number, Of: m.Of}.Append(b)
}

var postOnly = []string{http.MethodPost}

// parsePaths parses paths and drops paths to redacted headers, whose values would be stored.
func (s *source) parsePaths(list []string) ([]payload.Path, error) {
	paths, err := payload.ParsePaths(list)
	isRedacted := func(p payload.Path) bool {
		return slices.ContainsFunc(p.Headers(), func(name string) bool { return slices.Contains(s.redact, name) })
	}
	if err != nil || !slices.ContainsFunc(paths, isRedacted) {
		return paths, err
	}
	return slices.DeleteFunc(slices.Clone(paths), isRedacted), nil
}

// orPreset returns the paths of the source, or the preset's if the source has no paths.
func orPreset(own, preset []string) []string {
	if len(own) > 0 {
		return own
	}
	return preset
}

// defaultTypePaths are searched for the type of an event after the paths of the source.
var defaultTypePaths = []string{
	"header.x-event-type", "header.x-github-event", "header.x-stripe-event", "header.x-webhook-event", "header.ce-type",
	"body.type", "body.event", "body.action", "body.event_type",
}

// The parts of a source's path before the slug of the tenant, and before the slug of the source.
const tenantsPath, inPath = "/api/tenants/", "/eventhook/in/"

// Path returns the path of a source's URL, below the public URL.
func Path(tenant, source string) string { return tenantsPath + tenant + inPath + source }

// URL returns the URL of a source, as it is registered at the provider.
func URL(publicURL string, s eventhook.Source) string {
	return strings.TrimSuffix(publicURL, "/") + Path(s.TenantSlug, s.Slug)
}

// allowsClient reports whether a client address may send to the source.
func (s *source) allowsClient(client netip.Addr) bool {
	return len(s.allowed) == 0 || s.allowed.Contains(client)
}

// allowsContentType reports whether the source accepts a content type.
func (s *source) allowsContentType(contentType string) bool {
	return len(s.contentTypes) == 0 || slices.Contains(s.contentTypes, mediaType(contentType))
}

// mediaType returns a content type in lower case and without its parameters, even if these
// are malformed.
func mediaType(contentType string) string {
	media, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(media))
}
