package match

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/snapshot"
)

// Subscriptions reads all of a tenant's subscriptions, with their secrets, and
// the generation that they are of; both from one moment. A tenant that is not
// there has none.
type Subscriptions interface {
	TenantSubscriptions(ctx context.Context, tenant eventhook.TenantID) (generation int64, list []eventhook.Subscription, err error)
}

// SubscriptionCache keeps the compiled subscriptions of tenants in memory. They are a
// moment behind what is stored: whoever stores an event says against which
// generation it was matched. Safe for concurrent use.
type SubscriptionCache struct {
	cache *snapshot.Cache[eventhook.TenantID, *Matcher]
	gone  *lru.Cache[eventhook.SubscriptionID, struct{}] // which never come back
	mu    sync.Mutex                                     // of InvalidateOld
}

// rosterAge is how long a roster is trusted when no change is told. As that of
// sources it is there for what nobody has thought of.
const rosterAge = 10 * time.Minute

// mostGone bounds what is remembered of subscriptions that were deleted while
// deliveries waited for them.
const mostGone = 10_000

// rosterLoadsAtOnce bounds the database reads: a tenant may have thousands.
const rosterLoadsAtOnce = 2

// NewSubscriptionCache makes a cache of up to size subscriptions, as long as those of one
// tenant are not more.
func NewSubscriptionCache(size int, from Subscriptions, log *slog.Logger, now func() time.Time) *SubscriptionCache {
	room := make(chan struct{}, rosterLoadsAtOnce)
	load := func(ctx context.Context, tenant eventhook.TenantID) (*Matcher, error) {
		select {
		case room <- struct{}{}:
			defer func() { <-room }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		generation, list, err := from.TenantSubscriptions(ctx, tenant)
		if err != nil {
			return nil, err
		}
		return CompileMatcher(generation, list, func(s *eventhook.Subscription, why string) {
			log.Error("a subscription's filter cannot be used; it gets no events", "tenant", tenant, "subscription", s.ID, "fault", why)
		}), nil
	}
	gone, err := lru.New[eventhook.SubscriptionID, struct{}](mostGone)
	if err != nil {
		panic(err) // the size is ours
	}
	return &SubscriptionCache{cache: snapshot.NewWeighed(size, (*Matcher).size, rosterAge, now, load), gone: gone}
}

// Generation is that of a tenant's subscriptions.
func (r *SubscriptionCache) Generation(ctx context.Context, tenant eventhook.TenantID) (int64, error) {
	roster, err := r.Get(ctx, tenant)
	if err != nil {
		return 0, err
	}
	return roster.generation, nil
}

// Get returns a tenant's roster.
func (r *SubscriptionCache) Get(ctx context.Context, tenant eventhook.TenantID) (*Matcher, error) {
	roster, err := r.cache.Get(ctx, tenant)
	if err != nil {
		return nil, fmt.Errorf("read the subscriptions: %w", err)
	}
	return roster, nil
}

// Subscription finds one of a tenant's subscriptions as it was a moment ago, or
// KindNotFound if it is gone. One that was not there a moment ago is looked for
// anew. Until it changes, or the roster is read again, the pointer stays the
// same; what it points to must not be changed.
func (r *SubscriptionCache) Subscription(ctx context.Context, tenant eventhook.TenantID, id eventhook.SubscriptionID) (*eventhook.Subscription, error) {
	if r.gone.Contains(id) {
		return nil, errNoSubscription
	}
	for try := range 2 {
		roster, err := r.Get(ctx, tenant)
		if err != nil {
			return nil, err
		}
		if s, ok := roster.byID[id]; ok {
			return s, nil
		}
		if try == 0 {
			r.InvalidateOld(tenant, roster.generation)
		}
	}
	r.gone.Add(id, struct{}{})
	return nil, errNoSubscription
}

var errNoSubscription = eventhook.NotFound("subscription")

// Invalidate drops a tenant's subscriptions: they have changed.
func (r *SubscriptionCache) Invalidate(tenant eventhook.TenantID) { r.cache.Invalidate(tenant) }

// InvalidateAll drops all of them: changes may have been missed.
func (r *SubscriptionCache) InvalidateAll() { r.cache.Clear() }

// InvalidateOld drops a tenant's roster if it is of a generation that is known to be old:
// when it returns, no caller gets it any more. However many callers learn that at the
// same moment, it is read again once.
func (r *SubscriptionCache) InvalidateOld(tenant eventhook.TenantID, old int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if roster, err := r.cache.Peek(tenant); err == nil && roster.generation <= old {
		r.Invalidate(tenant)
	}
}

// AtLeast returns a tenant's roster of a generation, or of a newer one.
func (r *SubscriptionCache) AtLeast(ctx context.Context, tenant eventhook.TenantID, generation int64) (*Matcher, error) {
	roster, err := r.Get(ctx, tenant)
	if err == nil && roster.generation < generation {
		r.InvalidateOld(tenant, roster.generation)
		roster, err = r.Get(ctx, tenant)
	}
	return roster, err
}

// Peek returns a tenant's roster if it is in memory, and whether it is.
func (r *SubscriptionCache) Peek(tenant eventhook.TenantID) (*Matcher, bool) {
	roster, err := r.cache.Peek(tenant)
	return roster, err == nil
}
