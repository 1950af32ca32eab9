package outbound

import (
	"context"
	"log/slog"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/snapshot"
	"github.com/eventhook/eventhook/outbound/schedule"
	"github.com/eventhook/eventhook/outbound/send"
)

// RouteReader reads routes.
type RouteReader interface {
	// RouteToSend returns a route with the secrets of its targets, and the retry policy
	// of its source. The error is of KindNotFound if the route does not exist or its
	// tenant is closed.
	RouteToSend(ctx context.Context, id eventhook.RouteID) (eventhook.Route, eventhook.RetryPolicy, error)
	// RoutesForAgents returns the routes of a tenant that have a target with target labels.
	RoutesForAgents(ctx context.Context, tenant eventhook.TenantID) ([]eventhook.RouteID, error)
}

// TargetDeps are the dependencies of a TargetDirectory.
type TargetDeps struct {
	Routes RouteReader
	// Compile compiles a target of a tenant. It returns nil for a target whose effects are no deliveries.
	Compile func(tenant eventhook.TenantID, t eventhook.Target) (*Target, error)
	Log     *slog.Logger
	Now     func() time.Time
}

// Target is a compiled target of a route that is a destination.
type Target struct {
	Transport Transport
	// Address identifies the receiver: the circuit breaker starts anew when it changes.
	Address string
	Timeout time.Duration
	Retry   *eventhook.RetryPolicy // nil: the policy of the source
	Labels  []string               // of the agents that send; nil: the gateway does
	Slots   int                    // maximum number of concurrent sends of an instance
}

const (
	targetsAge       = 10 * time.Minute // a cached route is read again after this time even without a change notification
	maxRouteLoads    = 2                // concurrent reads of the database
	maxCachedTargets = 10_000
	maxAgentTenants  = 10_000
)

// httpSlots is the maximum number of concurrent requests of an instance to one http target.
const httpSlots = 10

// HTTPTarget returns the destination of an http target.
func HTTPTarget(requests send.TargetRequests, d send.Deps) (*Target, error) {
	transport, err := send.NewTargetTransport(requests, d)
	if err != nil {
		return nil, err
	}
	t := &Target{Transport: transport, Address: requests.URL().String(), Timeout: requests.Timeout(), Labels: requests.TargetLabels(), Slots: httpSlots}
	if own, isOwn := requests.Retry(); isOwn {
		t.Retry = &own
	}
	return t, nil
}

// TargetDirectory implements Directory for the targets of routes whose effects are deliveries. It caches routes
// until one of the Invalidate methods evicts them. Safe for concurrent use.
type TargetDirectory struct {
	TargetDeps
	cache *snapshot.Cache[eventhook.RouteID, *routeTargets]
	loads chan struct{}
	// agents has the routes of tenants that have a target with target labels.
	agents *snapshot.Cache[eventhook.TenantID, []eventhook.RouteID]

	mu     sync.Mutex
	owners *lru.Cache[eventhook.RouteID, routeOwner] // of cached routes; guarded by mu
}

// routeOwner names the source and the tenant of a route. Change notifications name these
// and not the route.
type routeOwner struct {
	source eventhook.SourceID
	tenant eventhook.TenantID
}

// routeTargets are the targets of a route that are destinations, by their index.
type routeTargets map[int]Destination

func (t *routeTargets) size() int { return len(*t) }

// NewTargetDirectory returns a directory with an empty cache.
func NewTargetDirectory(deps TargetDeps) *TargetDirectory {
	owners, err := lru.New[eventhook.RouteID, routeOwner](2 * maxCachedTargets)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	d := &TargetDirectory{TargetDeps: deps, loads: make(chan struct{}, maxRouteLoads), owners: owners}
	d.cache = snapshot.NewWeighed(maxCachedTargets, (*routeTargets).size, targetsAge, deps.Now, d.load)
	d.agents = snapshot.New(maxAgentTenants, targetsAge, deps.Now, deps.Routes.RoutesForAgents)
	return d
}

// errNoTarget is the error for a target that does not exist or is no destination.
var errNoTarget = eventhook.NotFound("target")

// Destination implements Directory.
func (d *TargetDirectory) Destination(ctx context.Context, of eventhook.Destination) (Destination, error) {
	all, err := d.cache.Get(ctx, of.RouteID)
	if err != nil {
		return Destination{}, err
	}
	to, ok := (*all)[of.TargetIndex]
	if !ok {
		return Destination{}, errNoTarget
	}
	return to, nil
}

// ForAgents returns the targets of a tenant that have target labels.
func (d *TargetDirectory) ForAgents(ctx context.Context, tenant eventhook.TenantID) (list []Destination, err error) {
	routes, err := d.agents.Get(ctx, tenant)
	if err != nil {
		return nil, err
	}
	for _, id := range routes {
		all, err := d.cache.Get(ctx, id)
		if eventhook.KindOf(err) == eventhook.KindNotFound {
			continue
		} else if err != nil {
			return nil, err
		}
		for _, to := range *all {
			if len(to.Labels) > 0 {
				list = append(list, to)
			}
		}
	}
	return list, nil
}

// Cached implements CachedTargets.
func (d *TargetDirectory) Cached(of eventhook.Destination) (Destination, bool) {
	all, err := d.cache.Peek(of.RouteID)
	if err != nil {
		return Destination{}, false
	}
	to, ok := (*all)[of.TargetIndex]
	return to, ok
}

// InvalidateSource evicts the routes of a source and returns their tenants.
func (d *TargetDirectory) InvalidateSource(source eventhook.SourceID) []eventhook.TenantID {
	d.agents.Clear() // the source may be that of a new route
	return d.evict(func(o routeOwner) bool { return o.source == source })
}

// InvalidateTenant evicts the routes of a tenant.
func (d *TargetDirectory) InvalidateTenant(tenant eventhook.TenantID) {
	d.agents.Invalidate(tenant)
	d.evict(func(o routeOwner) bool { return o.tenant == tenant })
}

// InvalidateAll evicts all routes, because changes may have been missed.
func (d *TargetDirectory) InvalidateAll() {
	d.agents.Clear()
	d.cache.Clear()
}

// evict evicts the routes whose owner matches, and the routes whose owner is unknown. It
// returns the tenants of the routes whose owner matches.
func (d *TargetDirectory) evict(match func(routeOwner) bool) (tenants []eventhook.TenantID) {
	seen := map[eventhook.TenantID]bool{}
	d.cache.InvalidateFunc(func(id eventhook.RouteID) bool {
		d.mu.Lock()
		owner, known := d.owners.Peek(id)
		d.mu.Unlock()
		if known && match(owner) && !seen[owner.tenant] {
			seen[owner.tenant] = true
			tenants = append(tenants, owner.tenant)
		}
		return !known || match(owner)
	})
	return tenants
}

// load reads a route and compiles its targets.
func (d *TargetDirectory) load(ctx context.Context, id eventhook.RouteID) (*routeTargets, error) {
	select {
	case d.loads <- struct{}{}:
		defer func() { <-d.loads }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	r, retry, err := d.Routes.RouteToSend(ctx, id)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.owners.Add(id, routeOwner{r.SourceID, r.TenantID})
	d.mu.Unlock()
	all := routeTargets{}
	for i, t := range r.Targets {
		t.RouteID, t.Index = r.ID, i
		if to, isDestination := d.destination(r, t, retry); isDestination {
			all[i] = to
		}
	}
	return &all, nil
}

// destination returns a target as a destination. A target that cannot be compiled, for
// example because its secret is lost, is not ready: its deliveries wait.
func (d *TargetDirectory) destination(r eventhook.Route, t eventhook.Target, retry eventhook.RetryPolicy) (to Destination, isDestination bool) {
	name := eventhook.Destination{TenantID: r.TenantID, RouteID: r.ID, TargetIndex: t.Index}
	to = Destination{
		Destination: schedule.Destination{ID: name.ID(), TenantID: r.TenantID, RouteID: r.ID, TargetIndex: t.Index, Version: r.Version, Slots: 1},
		TargetType:  t.Type,
		Retry:       retry.WithDefaults(eventhook.EventRetry),
	}
	target, err := d.Compile(r.TenantID, t)
	if err != nil {
		d.Log.Error("a target cannot be used; its deliveries wait", "route", r.ID, "target", t.Index+1, "type", t.Type, "error", err)
		return to, true
	}
	if target == nil {
		return to, false
	}
	if target.Retry != nil {
		to.Retry = target.Retry.WithDefaults(eventhook.EventRetry)
	}
	to.Labels, to.Slots = target.Labels, target.Slots
	to.Ready, to.ForAgents = r.IsEnabled && len(to.Labels) == 0, r.IsEnabled && len(to.Labels) > 0
	to.Timeout, to.Address = target.Timeout, eventhook.NewSecret(target.Address)
	to.Transport = target.Transport
	return to, true
}
