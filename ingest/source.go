package ingest

import (
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"

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

// endpoint is a source made ready for requests: immutable but for its limits,
// shared by all of them.
type endpoint struct {
	source    eventhook.Source
	verifier  verify.Verifier
	keyPaths  []payload.Path
	typePaths []payload.Path
	allowed   []netip.Prefix
	redact    []string // canonical names of headers whose values are not stored
	perSecond *rate.Limiter
	perMinute *rate.Limiter
	signedURL string // as registered at the provider, without the query
	bodyLimit int
}

// errNoEndpoint answers for sources that do not exist, are disabled, or whose
// tenant is not active: a sender cannot tell which.
var errNoEndpoint = eventhook.NotFound("source")

// snapshotAge is how long a source is trusted when no change is told.
const snapshotAge = time.Minute

func newSnapshot(config Config, sources Sources, now func() time.Time) *snapshot.Cache[address, *endpoint] {
	return snapshot.New(config.CachedSources, snapshotAge, now, func(ctx context.Context, a address) (*endpoint, error) {
		s, err := sources.FindSource(ctx, a.tenant, a.source)
		if err != nil {
			return nil, err
		}
		if !s.IsEnabled || s.TenantStatus != eventhook.TenantActive {
			return nil, errNoEndpoint
		}
		return newEndpoint(s, config.PublicURL)
	})
}

func newEndpoint(s eventhook.Source, publicURL string) (*endpoint, error) {
	var config verify.Config
	if err := json.Unmarshal([]byte(s.Verifier.Reveal()), &config); err != nil {
		return nil, fmt.Errorf("source %s/%s: its verifier cannot be read", s.TenantSlug, s.Slug)
	}
	e := &endpoint{source: s, bodyLimit: s.BodyLimit(), redact: redactedHeaders(config.SecretHeaders())}
	e.source.Verifier = eventhook.Secret{}
	var err error
	if e.verifier, err = verify.New(config); err != nil {
		return nil, fmt.Errorf("source %s/%s: %w", s.TenantSlug, s.Slug, err)
	}
	keyPaths, typePaths := s.IdempotencyKeyPaths, s.EventTypePaths
	if preset, ok := verify.FindPreset(s.Provider); ok {
		keyPaths, typePaths = orPreset(keyPaths, preset.IdempotencyKeyPaths), orPreset(typePaths, preset.EventTypePaths)
	}
	if e.keyPaths, err = payload.ParsePaths(keyPaths); err != nil {
		return nil, fmt.Errorf("source %s/%s: %w", s.TenantSlug, s.Slug, err)
	}
	if e.typePaths, err = payload.ParsePaths(slices.Concat(typePaths, defaultTypePaths)); err != nil {
		return nil, fmt.Errorf("source %s/%s: %w", s.TenantSlug, s.Slug, err)
	}
	for _, r := range s.AllowedIPRanges {
		prefix, err := netip.ParsePrefix(r)
		if err != nil {
			return nil, fmt.Errorf("source %s/%s: %w", s.TenantSlug, s.Slug, err)
		}
		e.allowed = append(e.allowed, prefix.Masked())
	}
	limit := s.RateLimit.WithDefaults()
	e.perSecond = rate.NewLimiter(rate.Limit(limit.RequestsPerSecond), limit.BurstSize)
	e.perMinute = rate.NewLimiter(rate.Limit(float64(limit.RequestsPerMinute)/60), limit.RequestsPerMinute)
	e.signedURL = strings.TrimSuffix(publicURL, "/") + Path(s.TenantSlug, s.Slug)
	return e, nil
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
	if len(e.allowed) == 0 {
		return true
	}
	for _, p := range e.allowed {
		if p.Contains(client) {
			return true
		}
	}
	return false
}

// accepts reports whether the source takes a content type.
func (e *endpoint) accepts(contentType string) bool {
	if len(e.source.ContentTypes) == 0 {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && slices.Contains(e.source.ContentTypes, media)
}

// take uses one request of the source's limits, or says when to come again.
// undo gives it back, for a request that turns out to be forged.
func (e *endpoint) take(now time.Time) (undo func(), wait time.Duration) {
	second := e.perSecond.ReserveN(now, 1)
	minute := e.perMinute.ReserveN(now, 1)
	undo = func() {
		second.CancelAt(now)
		minute.CancelAt(now)
	}
	if wait = max(second.DelayFrom(now), minute.DelayFrom(now)); wait > 0 {
		undo()
	}
	return undo, wait
}
