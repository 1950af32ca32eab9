package tracing

import (
	"context"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/eventhook/eventhook"
)

// Slugs reads the slugs of tenants. Tenants that do not exist are missing.
type Slugs func(ctx context.Context, ids []eventhook.TenantID) (map[eventhook.TenantID]string, error)

// maxSlugs bounds the slugs in memory.
const maxSlugs = 10_000

// maxSlugsRead bounds the time for which an export waits for the database.
const maxSlugsRead = 2 * time.Second

// tenants adds the slugs of tenants to spans before their export, so that no request waits for
// reading them. It belongs to the goroutine that exports.
type tenants struct {
	read  Slugs // nil: no slug is added
	known *lru.Cache[string, string]
}

func newTenants() *tenants {
	known, _ := lru.New[string, string](maxSlugs) // the error is for sizes below 1
	return &tenants{known: known}
}

// name returns the spans with the slugs of their tenants. If the slugs cannot be read, the spans
// have only the ids.
func (t *tenants) name(ctx context.Context, spans []sdktrace.ReadOnlySpan) []sdktrace.ReadOnlySpan {
	t.load(ctx, spans)
	named := make([]sdktrace.ReadOnlySpan, len(spans))
	for i, s := range spans {
		named[i] = s
		id, hasSlug := tenantOf(s)
		if slug, ok := t.known.Get(id); ok && !hasSlug {
			named[i] = namedSpan{s, slug}
		}
	}
	return named
}

func (t *tenants) load(ctx context.Context, spans []sdktrace.ReadOnlySpan) {
	var unknown []eventhook.TenantID
	asked := map[string]bool{}
	for _, s := range spans {
		text, hasSlug := tenantOf(s)
		id, err := eventhook.ParseID[eventhook.Tenant](text)
		if err != nil || hasSlug || asked[text] || t.known.Contains(text) {
			continue
		}
		asked[text] = true
		unknown = append(unknown, id)
	}
	if t.read == nil || len(unknown) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, maxSlugsRead)
	defer cancel()
	slugs, _ := t.read(ctx, unknown) // without a database, the spans are exported nevertheless
	for id, slug := range slugs {
		t.known.Add(id.String(), slug)
	}
}

// tenantOf returns the id of a span's tenant, and whether the span has the slug.
func tenantOf(s sdktrace.ReadOnlySpan) (id string, hasSlug bool) {
	for _, a := range s.Attributes() {
		switch a.Key {
		case tenantKey:
			hasSlug = true
		case tenantIDKey:
			id = a.Value.AsString()
		}
	}
	return id, hasSlug
}

// namedSpan is a span with the slug of its tenant.
type namedSpan struct {
	sdktrace.ReadOnlySpan
	slug string
}

func (s namedSpan) Attributes() []attribute.KeyValue {
	own := s.ReadOnlySpan.Attributes()
	return append(own[:len(own):len(own)], tenantKey.String(s.slug))
}
