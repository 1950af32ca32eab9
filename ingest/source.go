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

// Sources finds a source by its tenant's slug and its own, or fails with
// KindNotFound.
type Sources interface {
	FindSource(ctx context.Context, tenant, source string) (eventhook.Source, error)
}

// SharedKeys are verify.Keys whose fetches are shared out between tenants and
// their sources.
type SharedKeys interface {
	verify.Keys
	ForSource(tenant eventhook.TenantID, source eventhook.SourceID) verify.Keys
}

// address names a source as its URL does.
type address struct{ tenant, source string }

// addressOf is the address in a request's URL. Since addresses are kept, they
// must not keep the rest of a long URL alive with them.
func addressOf(r *http.Request, tenant, source string) address {
	const short = 512
	if tenant == "" && source == "" { // the router drops them where it does not know the method
		tenant, source = slugsOf(r.URL.EscapedPath())
	}
	if len(r.RequestURI) > short {
		tenant, source = strings.Clone(tenant), strings.Clone(source)
	}
	return address{tenant, source}
}

// slugsOf is what Path was made of.
func slugsOf(path string) (tenant, source string) {
	parts := strings.Split(path, "/")
	if len(parts) < 4 || path != Path(parts[3], parts[len(parts)-1]) {
		return "", ""
	}
	return parts[3], parts[len(parts)-1]
}

// endpoint is a source made ready for requests: immutable but for its limits
// and its account, shared by all of them.
type endpoint struct {
	source       eventhook.Source
	verifier     verify.Verifier
	keyPaths     []payload.Path
	typePaths    []payload.Path
	allowed      clients.Ranges
	contentTypes []string // lower-case media types; none: all
	redact       []string // canonical names of headers whose values are not stored
	limits       *limits
	work         workShares
	account      *usage.Account
	signedURL    string // as registered at the provider, without the query
	bodyLimit    int
	methods      []string                                  // of events
	verifyCost   func(contentType string, body []byte) int // nil: none
	hasReserved  bool                                      // its verifier has a reserved expression of its own
	hashesSigned bool                                      // what a request has signed counts once
	shaker
}

// errNoEndpoint answers for sources that do not exist, are disabled, or whose
// tenant is not active: a sender cannot tell which.
var errNoEndpoint = eventhook.NotFound("source")

// snapshotAge is how long a source is trusted when no change is told. Changes
// are told, and all is forgotten when the connection that tells them breaks:
// it is there for what nobody has thought of.
const snapshotAge = 10 * time.Minute

// loadsAtOnce bounds the database reads for sources, so that a scan of made-up
// URLs leaves the connections to others.
const loadsAtOnce = 4

func newSnapshot(config Config, deps Deps) *snapshot.Cache[address, *endpoint] {
	room, kept, shares := make(chan struct{}, loadsAtOnce), newLimitsKeeper(config.CachedSources, config.InFlightBytes), newSharesKeeper(config)
	return snapshot.New(config.CachedSources, snapshotAge, deps.Now, func(ctx context.Context, a address) (*endpoint, error) {
		select {
		case room <- struct{}{}:
			defer func() { <-room }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		s, err := deps.Sources.FindSource(ctx, a.tenant, a.source)
		if err != nil {
			return nil, err
		}
		if !s.IsEnabled || s.TenantStatus != eventhook.TenantActive {
			return nil, errNoEndpoint
		}
		e, err := newEndpoint(s, config.PublicURL, deps.Keys)
		if err != nil {
			return nil, fmt.Errorf("source %s/%s: %w", s.TenantSlug, s.Slug, err)
		}
		for _, fault := range verify.ValidateChange(eventhook.Secret{}, s.Verifier) {
			deps.Log.Warn("a source's verifier should be changed", "tenant", s.TenantSlug, "source", s.Slug, "setting", fault.Location, "why", fault.Message)
		}
		e.limits, e.work = kept.of(s), shares.of(s)
		if deps.Meter != nil {
			e.account, err = deps.Meter.Open(ctx, s)
		}
		return e, err
	})
}

// newEndpoint makes a source ready, all but its limits and its account.
func newEndpoint(s eventhook.Source, publicURL string, keys verify.Keys) (*endpoint, error) {
	resolved, err := resolve(s)
	if err != nil {
		return nil, err
	}
	e := &endpoint{source: s, bodyLimit: s.BodyLimit(), redact: redactedHeaders(resolved.Config.SecretHeaders()), signedURL: URL(publicURL, s)}
	e.source.Verifier = eventhook.Secret{}
	if shared, ok := keys.(SharedKeys); ok {
		keys = shared.ForSource(s.TenantID, s.ID)
	}
	if e.verifier, err = verifierOf(s, resolved, keys); err != nil {
		return nil, err
	}
	e.verifyCost = resolved.Config.MemoryCost()
	preset := resolved.Preset
	e.hasReserved = resolved.Config.Reserved != preset.Verifier.Reserved
	e.hashesSigned = cmp.Or(s.ReplayProtection, resolved.ReplayProtection) == eventhook.ReplayBody
	e.shaker, e.methods = newShaker(s, resolved), postOnly
	if !e.handshake.exists() {
		e.methods = append(e.methods, preset.Methods...)
	}
	keyPaths, typePaths := orPreset(s.IdempotencyKeyPaths, preset.IdempotencyKeyPaths), orPreset(s.EventTypePaths, preset.EventTypePaths)
	if e.source.Response == nil {
		e.source.Response = preset.Reply
	}
	if e.keyPaths, err = e.paths(keyPaths); err != nil {
		return nil, err
	}
	if e.typePaths, err = e.paths(slices.Concat(typePaths, defaultTypePaths)); err != nil {
		return nil, err
	}
	if e.allowed, err = clients.ParseRanges(s.AllowedIPRanges); err != nil {
		return nil, err
	}
	for _, c := range s.ContentTypes {
		e.contentTypes = append(e.contentTypes, mediaType(c))
	}
	return e, nil
}

var postOnly = []string{http.MethodPost}

// paths parses paths. One to a header that is redacted leads nowhere: what it
// finds would be stored.
func (e *endpoint) paths(list []string) ([]payload.Path, error) {
	paths, err := payload.ParsePaths(list)
	isRedacted := func(p payload.Path) bool {
		return slices.ContainsFunc(p.Headers(), func(name string) bool { return slices.Contains(e.redact, name) })
	}
	if err != nil || !slices.ContainsFunc(paths, isRedacted) {
		return paths, err
	}
	return slices.DeleteFunc(slices.Clone(paths), isRedacted), nil
}

func orPreset(own, preset []string) []string {
	if len(own) > 0 {
		return own
	}
	return preset
}

// defaultTypePaths are where an event's type is looked for after the source's
// own paths.
var defaultTypePaths = []string{
	"header.x-event-type", "header.x-github-event", "header.x-stripe-event", "header.x-webhook-event", "header.ce-type",
	"body.type", "body.event", "body.action", "body.event_type",
}

// Path is where a source receives webhooks, below the public URL.
func Path(tenant, source string) string {
	return "/api/tenants/" + tenant + "/eventhook/in/" + source
}

// URL is where a source receives webhooks, as it is registered at the provider.
func URL(publicURL string, s eventhook.Source) string {
	return strings.TrimSuffix(publicURL, "/") + Path(s.TenantSlug, s.Slug)
}

// allows reports whether a client may send to the source.
func (e *endpoint) allows(client netip.Addr) bool {
	return len(e.allowed) == 0 || e.allowed.Contains(client)
}

// accepts reports whether the source takes a content type.
func (e *endpoint) accepts(contentType string) bool {
	return len(e.contentTypes) == 0 || slices.Contains(e.contentTypes, mediaType(contentType))
}

// mediaType is a content type without its parameters, be they right or wrong,
// in lower case.
func mediaType(contentType string) string {
	media, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(media))
}
