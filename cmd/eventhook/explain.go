package main

import (
	"cmp"
	"context"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/api"
	"github.com/eventhook/eventhook/internal/cpushare"
	"github.com/eventhook/eventhook/internal/pg"
	"github.com/eventhook/eventhook/route"
)

// routeExplainer explains and backtests the stored routes of sources for the API.
type routeExplainer struct {
	db         *pg.DB
	out        outside
	cpuLimiter *cpushare.Limiter
}

// CheckRoute returns the faults of a route. Compilation counts against the tenant's
// share of CPU time.
func (x routeExplainer) CheckRoute(ctx context.Context, tenant eventhook.TenantID, r eventhook.Route) (faults eventhook.Faults, err error) {
	busy := x.cpuLimiter.Compile(ctx, tenant, func() { faults, err = route.Check(ctx, tenant, r) })
	return faults, cmp.Or(busy, err)
}

// ExplainRoutes returns what each route of a source would do with an event.
func (x routeExplainer) ExplainRoutes(ctx context.Context, source eventhook.SourceID, e *eventhook.Event) ([]api.RouteExplanation, error) {
	routes, err := x.db.AllRoutes(ctx, source)
	if err != nil {
		return nil, err
	}
	return x.explain(ctx, routes, e)
}

// ExplainRoute returns what a route would do with an event.
func (x routeExplainer) ExplainRoute(ctx context.Context, r eventhook.Route, e *eventhook.Event) (api.RouteExplanation, error) {
	list, err := x.explain(ctx, []eventhook.Route{r}, e)
	if err != nil {
		return api.RouteExplanation{}, err
	}
	return list[0], nil
}

func (x routeExplainer) explain(ctx context.Context, routes []eventhook.Route, e *eventhook.Event) ([]api.RouteExplanation, error) {
	var program *route.Program
	if err := x.cpuLimiter.Compile(ctx, e.TenantID, func() { program = route.Compile(eventhook.RetryPolicy{}, routes, x.out.compileTestTarget) }); err != nil {
		return nil, err
	}
	explained, err := program.Explain(ctx, x.cpuLimiter, e, time.Now())
	if err != nil {
		return nil, err
	}
	var list []api.RouteExplanation
	for _, r := range explained {
		list = append(list, toAPI(r))
	}
	return list, nil
}

// Backtest evaluates a route against stored events.
func (x routeExplainer) Backtest(ctx context.Context, r eventhook.Route, since time.Time, last, samples int) (*route.Backtest, error) {
	return route.RunBacktest(ctx, r, x.out.compileTestTarget, route.BacktestOptions{
		Tenant: r.TenantID, CPULimiter: x.cpuLimiter, Last: last, Samples: samples,
		ReadEvents: func(ctx context.Context, before eventhook.EventID, limit int) ([]*eventhook.Event, eventhook.EventID, error) {
			return x.db.PastEvents(ctx, r.TenantID, r.SourceID, since, before, limit)
		},
	})
}

// Search finds the stored events of a tenant that match a filter.
func (x routeExplainer) Search(ctx context.Context, tenant eventhook.TenantID, q api.EventSearchQuery) (route.SearchResult, error) {
	return route.Search(ctx, route.SearchOptions{
		Tenant: tenant, CPULimiter: x.cpuLimiter, Filter: q.Filter, Before: q.Window.Before, Limit: q.Window.Limit,
		Read: func(ctx context.Context, before eventhook.EventID, limit int,
			needsPayload bool) ([]*eventhook.Event, eventhook.EventID, error) {
			window := q.Window
			window.Before, window.Limit = before, limit
			return x.db.EventsToSearch(ctx, tenant, window, needsPayload)
		},
	})
}

func toAPI(r route.Explanation) api.RouteExplanation {
	x := api.RouteExplanation{ID: r.Route.ID, Name: r.Route.Name, Matched: r.Matched, Reason: r.Reason}
	for _, t := range r.Actions {
		a := api.ActionExplanation{TargetType: t.Type, Input: t.Input, IsLeftOut: t.IsLeftOut}
		if t.Err != nil {
			a.Error = t.Err.Error()
		}
		x.Actions = append(x.Actions, a)
	}
	return x
}
