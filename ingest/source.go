package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/payload"
	"github.com/eventhook/eventhook/internal/snapshot"
	"github.com/eventhook/eventhook/verify"
)

// Sources finds a source by its tenant's slug and its own, or fails with
// KindNotFound.
type Sources interface {
	FindSource(ctx context.Context, tenant, source string) (eventhook.Source, error)
}

// address names a source as its URL does.
type address struct{ tenant, source string }

// addressOf is the address in a request's URL. Since addresses are kept, they
// must not keep the rest of a long URL alive with them.
func addressOf(r *http.Request, tenant, source string) address {
	const short = 512
	if len(r.RequestURI) > short {
		tenant, source = strings.Clone(tenant), strings.Clone(source)
	}
	return address{tenant, source}
}

// endpoint is a source made ready for requests: immutable but for its limits,
// shared by all of them.
type endpoint struct {
	source       eventhook.Source
	verifier     verify.Verifier
	keyPaths     []payload.Path
	typePaths    []payload.Path
	allowed      []netip.Prefix
	contentTypes []string // lower-case media types; none: all
	redact       []string // canonical names of headers whose values are not stored
	limits       *limits
	signedURL    string // as registered at the provider, without the query
	bodyLimit    int
}

// errNoEndpoint answers for sources that do not exist, are disabled, or whose
// tenant is not active: a sender cannot tell which.
var errNoEndpoint = eventhook.NotFound("source")

// snapshotAge is how long a source is trusted when no change is told.
const snapshotAge = time.Minute

// loadsAtOnce bounds the database reads for sources, so that a scan of made-up
// URLs leaves the connections to others.
const loadsAtOnce = 4

func newSnapshot(config Config, sources Sources, now func() time.Time) *snapshot.Cache[address, *endpoint] {
	room, kept := make(chan struct{}, loadsAtOnce), newLimitsKeeper(config.CachedSources)
	return snapshot.New(config.CachedSources, snapshotAge, now, func(ctx context.Context, a address) (*endpoint, error) {
		select {
		case room <- struct{}{}:
			defer func() { <-room }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		s, err := sources.FindSource(ctx, a.tenant, a.source)
		if err != nil {
			return nil, err
		}
		if !s.IsEnabled || s.TenantStatus != eventhook.TenantActive {
			return nil, errNoEndpoint
		}
		e, err := newEndpoint(s, config.PublicURL)
		if err != nil {
			return nil, fmt.Errorf("source %s/%s: %w", s.TenantSlug, s.Slug, err)
		}
		e.limits = kept.of(s, config.InFlightBytes)
		return e, nil
	})
}

// newEndpoint makes a source ready, all but its limits.
func newEndpoint(s eventhook.Source, publicURL string) (*endpoint, error) {
	var config verify.Config
	if err := json.Unmarshal([]byte(s.Verifier.Reveal()), &config); err != nil {
		return nil, errors.New("its verifier cannot be read") // the cause may quote a secret
	}
	e := &endpoint{source: s, bodyLimit: s.BodyLimit(), redact: redactedHeaders(config.SecretHeaders()),
		signedURL: strings.TrimSuffix(publicURL, "/") + Path(s.TenantSlug, s.Slug)}
	e.source.Verifier = eventhook.Secret{}
	var err error
	if e.verifier, err = verify.New(config); err != nil {
		return nil, err
	}
	keyPaths, typePaths := s.IdempotencyKeyPaths, s.EventTypePaths
	if preset, ok := verify.FindPreset(s.Provider); ok {
		keyPaths, typePaths = orPreset(keyPaths, preset.IdempotencyKeyPaths), orPreset(typePaths, preset.EventTypePaths)
	}
	if e.keyPaths, err = e.paths(keyPaths); err != nil {
		return nil, err
	}
	if e.typePaths, err = e.paths(slices.Concat(typePaths, defaultTypePaths)); err != nil {
		return nil, err
	}
	for _, r := range s.AllowedIPRanges {
		prefix, err := netip.ParsePrefix(r)
		if err != nil {
			return nil, err
		}
		e.allowed = append(e.allowed, plainPrefix(prefix))
	}
	for _, c := range s.ContentTypes {
		e.contentTypes = append(e.contentTypes, mediaType(c))
	}
	return e, nil
}

// paths parses paths. One to a header that is redacted leads nowhere: what it
// finds would be stored.
func (e *endpoint) paths(list []string) ([]payload.Path, error) {
	list = slices.DeleteFunc(slices.Clone(list), func(p string) bool {
		name, isHeader := strings.CutPrefix(p, "header.")
		return isHeader && slices.Contains(e.redact, textproto.CanonicalMIMEHeaderKey(name))
	})
	return payload.ParsePaths(list)
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
	"header.x-event-type", "header.x-github-event", "header.x-stripe-event", "header.x-webhook-event",
	"body.type", "body.event", "body.action", "body.event_type",
}

// Path is where a source receives webhooks, below the public URL.
func Path(tenant, source string) string {
	return "/api/tenants/" + tenant + "/eventhook/in/" + source
}

// allows reports whether a client may send to the source.
func (e *endpoint) allows(client netip.Addr) bool {
	return len(e.allowed) == 0 || containsAddr(e.allowed, client)
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
