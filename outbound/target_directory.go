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

// RouteReader reads a route with the secrets of its targets, and the retry policy of its
// source. It returns an error of KindNotFound if there is no such route, or if its tenant
// is closed.
type RouteReader interface {
	RouteToSend(ctx context.Context, id eventhook.RouteID) (eventhook.Route, eventhook.RetryPolicy, error)
}

// TargetDeps are the dependencies of a TargetDirectory. Compile compiles an http target.
type TargetDeps struct {
	Routes  RouteReader
	Compile func(eventhook.Target) (send.TargetRequests, error)
	Client  send.Client
	Log     *slog.Logger
	Now     func() time.Time
}

// targetType is the type of the targets that are destinations.
const targetType = "http"

// targetSlots is how many requests to one target are made at once by an instance.
const targetSlots = 10

const (
	targetsAge         = 10 * time.Minute // after it a route is read again though no change was heard of
	routeLoadsAtOnce   = 2                // reads of the database
	mostTargetsInCache = 10_000
)

// TargetDirectory is the Directory of the http targets of routes. It keeps routes in
// memory until InvalidateSource or InvalidateTenant drops them. Safe for concurrent use.
type TargetDirectory struct {
	TargetDeps
	cache *snapshot.Cache[eventhook.RouteID, *routeTargets]
	loads chan struct{}

	mu     sync.Mutex
	owners *lru.Cache[eventhook.RouteID, routeOwner] // of routes that were read; guarded by mu
}

// routeOwner is what a route belongs to, by which changes name it.
type routeOwner struct {
	source eventhook.SourceID
	tenant eventhook.TenantID
}

// routeTargets are the http targets of a route as destinations, by their index.
type routeTargets map[int]Destination

func (t *routeTargets) size() int { return len(*t) }

// NewTargetDirectory returns a directory that has nothing in memory yet.
func NewTargetDirectory(deps TargetDeps) *TargetDirectory {
	owners, err := lru.New[eventhook.RouteID, routeOwner](2 * mostTargetsInCache)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	d := &TargetDirectory{TargetDeps: deps, loads: make(chan struct{}, routeLoadsAtOnce), owners: owners}
	d.cache = snapshot.NewWeighed(mostTargetsInCache, (*routeTargets).size, targetsAge, deps.Now, d.load)
	return d
}

// errNoTarget is the error for a target that a route does not have, or that is no http
// target.
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

// Cached implements CachedTargets.
func (d *TargetDirectory) Cached(of eventhook.Destination) (Destination, bool) {
	all, err := d.cache.Peek(of.RouteID)
	if err != nil {
		return Destination{}, false
	}
	to, ok := (*all)[of.TargetIndex]
	return to, ok
}

// InvalidateSource drops the routes of a source, which have changed, and returns their tenants.
func (d *TargetDirectory) InvalidateSource(source eventhook.SourceID) []eventhook.TenantID {
	return d.forget(func(o routeOwner) bool { return o.source == source })
}

// InvalidateTenant drops the routes of a tenant, which has changed.
func (d *TargetDirectory) InvalidateTenant(tenant eventhook.TenantID) {
	d.forget(func(o routeOwner) bool { return o.tenant == tenant })
}

// InvalidateAll drops all routes: changes may have been missed.
func (d *TargetDirectory) InvalidateAll() { d.cache.Clear() }

// forget drops the routes whose owner matches, and those of which none is known.
func (d *TargetDirectory) forget(match func(routeOwner) bool) (tenants []eventhook.TenantID) {
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

// load reads a route and compiles its http targets.
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
		if t.Type != targetType {
			continue
		}
		t.RouteID, t.Index = r.ID, i
		all[i] = d.destination(r, t, retry)
	}
	return &all, nil
}

// destination returns a target as a destination. A target that cannot be compiled, such
// as one whose secret is lost, is not ready: its deliveries wait.
func (d *TargetDirectory) destination(r eventhook.Route, t eventhook.Target, retry eventhook.RetryPolicy) Destination {
	of := eventhook.Destination{TenantID: r.TenantID, RouteID: r.ID, TargetIndex: t.Index}
	to := Destination{
		Destination: schedule.Destination{ID: of.ID(), TenantID: r.TenantID, RouteID: r.ID, TargetIndex: t.Index, Version: r.Version, Slots: targetSlots},
		Retry:       retry.WithDefaults(eventhook.EventRetry),
	}
	requests, err := d.Compile(t)
	if err != nil {
		d.Log.Error("an http target cannot be used; its deliveries wait", "route", r.ID, "target", t.Index+1, "error", err)
		return to
	}
	if own, isOwn := requests.Retry(); isOwn {
		to.Retry = own.WithDefaults(eventhook.EventRetry)
	}
	to.Ready, to.Timeout, to.Address = r.IsEnabled, requests.Timeout(), eventhook.NewSecret(requests.URL().String())
	to.Transport = send.NewTargetTransport(requests, d.Client, d.Now)
	return to
}
