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

// Subscriptions reads the subscriptions of tenants.
type Subscriptions interface {
	// TenantSubscriptions returns all subscriptions of a tenant, with their secrets, the
	// operator subscriptions that receive its events, and their generation, all from one
	// snapshot. A tenant that does not exist has no
	// subscriptions.
	TenantSubscriptions(ctx context.Context, tenant eventhook.TenantID) (generation int64, list []eventhook.Subscription, err error)
}

// SubscriptionCache caches the Matchers of tenants. A cached Matcher may be older than the
// stored subscriptions. A caller that stores an event therefore passes the generation of
// the Matcher to the database, which refuses an old one. Safe for concurrent use.
type SubscriptionCache struct {
	cache   *snapshot.Cache[eventhook.TenantID, *Matcher]
	deleted *lru.Cache[eventhook.SubscriptionID, struct{}] // subscriptions that were looked up and do not exist; ids are never reused
	mu      sync.Mutex                                     // serialises InvalidateOld
}

// matcherAge is how long a Matcher is used without a change notification, in case a
// notification was lost.
const matcherAge = 10 * time.Minute

// maxDeleted bounds the memory for ids of deleted subscriptions, whose deliveries may still
// be looked up.
const maxDeleted = 10_000

// maxLoads bounds the concurrent reads of the database: a tenant may have thousands of
// subscriptions.
const maxLoads = 2

// NewSubscriptionCache returns an empty cache for up to size subscriptions. The
// subscriptions of a single tenant may exceed size.
func NewSubscriptionCache(size int, from Subscriptions, log *slog.Logger, now func() time.Time) *SubscriptionCache {
	slots := make(chan struct{}, maxLoads)
	load := func(ctx context.Context, tenant eventhook.TenantID) (*Matcher, error) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		generation, list, err := from.TenantSubscriptions(ctx, tenant)
		if err != nil {
			return nil, err
		}
		return CompileMatcher(generation, list, func(s *eventhook.Subscription, fault string) {
			log.Error("a subscription's filter cannot be used; it gets no events", "tenant", tenant, "subscription", s.ID, "fault", fault)
		}), nil
	}
	deleted, err := lru.New[eventhook.SubscriptionID, struct{}](maxDeleted)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return &SubscriptionCache{cache: snapshot.NewWeighed(size, (*Matcher).size, matcherAge, now, load), deleted: deleted}
}

// Generation returns the generation of a tenant's cached subscriptions.
func (r *SubscriptionCache) Generation(ctx context.Context, tenant eventhook.TenantID) (int64, error) {
	matcher, err := r.Get(ctx, tenant)
	if err != nil {
		return 0, err
	}
	return matcher.generation, nil
}

// Get returns the Matcher of a tenant, and reads the subscriptions if necessary.
func (r *SubscriptionCache) Get(ctx context.Context, tenant eventhook.TenantID) (*Matcher, error) {
	matcher, err := r.cache.Get(ctx, tenant)
	if err != nil {
		return nil, fmt.Errorf("read the subscriptions: %w", err)
	}
	return matcher, nil
}

// Subscription returns a subscription of a tenant or of the operator, or an error of
// KindNotFound if it was deleted. If the cached Matchers do not have the subscription, the
// tenant's is read again, then the operator's. The pointer stays the same until the tenant's
// subscriptions are read again. Callers must not change the subscription.
func (r *SubscriptionCache) Subscription(ctx context.Context, tenant eventhook.TenantID, id eventhook.SubscriptionID) (*eventhook.Subscription, error) {
	if r.deleted.Contains(id) {
		return nil, errNoSubscription
	}
	owners := [2]eventhook.TenantID{tenant, eventhook.OperatorTenant}
	var wanted [2]int64 // generations
	for range 2 {
		for i, owner := range owners {
			matcher, err := r.AtLeast(ctx, owner, wanted[i])
			if err != nil {
				return nil, err
			}
			if s, ok := matcher.byID[id]; ok && (!s.IsOperator() || owner == eventhook.OperatorTenant) {
				return s, nil
			}
			wanted[i] = matcher.generation + 1
		}
	}
	r.deleted.Add(id, struct{}{})
	return nil, errNoSubscription
}

var errNoSubscription = eventhook.NotFound("subscription")

// Invalidate evicts the subscriptions of a tenant, because they have changed.
func (r *SubscriptionCache) Invalidate(tenant eventhook.TenantID) { r.cache.Invalidate(tenant) }

// InvalidateAll evicts all subscriptions, because changes may have been missed.
func (r *SubscriptionCache) InvalidateAll() { r.cache.Clear() }

// InvalidateOld evicts the Matcher of a tenant if its generation is old or older. After it
// returns, no caller gets that Matcher. If many callers find the same Matcher stale at the
// same time, the subscriptions are read again only once.
func (r *SubscriptionCache) InvalidateOld(tenant eventhook.TenantID, old int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if matcher, err := r.cache.Peek(tenant); err == nil && matcher.generation <= old {
		r.Invalidate(tenant)
	}
}

// AtLeast returns the Matcher of a tenant at a generation or a newer one.
func (r *SubscriptionCache) AtLeast(ctx context.Context, tenant eventhook.TenantID, generation int64) (*Matcher, error) {
	matcher, err := r.Get(ctx, tenant)
	if err == nil && matcher.generation < generation {
		r.InvalidateOld(tenant, matcher.generation)
		matcher, err = r.Get(ctx, tenant)
	}
	return matcher, err
}

// Peek returns the Matcher of a tenant if it is in memory.
func (r *SubscriptionCache) Peek(tenant eventhook.TenantID) (*Matcher, bool) {
	matcher, err := r.cache.Peek(tenant)
	return matcher, err == nil
}
