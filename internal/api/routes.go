package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

// RouteStore stores the routes of sources. Its errors are those of SourceStore.
type RouteStore interface {
	Routes(ctx context.Context, source eventhook.SourceID, before eventhook.RouteID, limit int) ([]eventhook.Route, error)
	// AllRoutes returns the routes in the order of evaluation.
	AllRoutes(ctx context.Context, source eventhook.SourceID) ([]eventhook.Route, error)
	Route(ctx context.Context, source eventhook.SourceID, id eventhook.RouteID) (eventhook.Route, error)
	CreateRoute(ctx context.Context, by eventhook.Actor, tenant eventhook.TenantID, source string, r eventhook.Route) (eventhook.Route, error)
	UpdateRoute(ctx context.Context, by eventhook.Actor, tenant eventhook.TenantID, source string, id eventhook.RouteID, version int64, change func(eventhook.Route) (eventhook.Route, error)) (eventhook.Route, error)
	DeleteRoute(ctx context.Context, by eventhook.Actor, tenant eventhook.TenantID, source string, id eventhook.RouteID, version int64) error
	ReorderRoutes(ctx context.Context, by eventhook.Actor, tenant eventhook.TenantID, source string, order []eventhook.RoutePriority) error
}

func (s *server) registerRoutes(api huma.API) {
	op := func(id, method, path, summary string, scope eventhook.Scope) operation {
		return operation{id: id, method: method, path: base + "/sources/{slug}/routes" + path, summary: summary, scope: scope, tag: "routes"}
	}
	create := op("create-route", http.MethodPost, "", "Create a route", eventhook.ScopeManage)
	create.status, create.skipsShape, create.about = http.StatusCreated, true, fmt.Sprintf("A source can have at most %d routes, with at most %d targets in total.", eventhook.MaxRoutes, eventhook.MaxSourceTargets)
	update := op("update-route", http.MethodPatch, "/{id}", "Update a route", eventhook.ScopeManage)
	update.skipsShape, update.about = true, "The body is a JSON merge patch: omitted members keep their value, null resets a member to its default. filter and targets are replaced as a whole. "+
		"A target's secret that is sent as [redacted] keeps its value, unless the scheme, host or port of the target's url changes."
	create.maxBody, update.maxBody = configBody, configBody
	remove := op("delete-route", http.MethodDelete, "/{id}", "Delete a route", eventhook.ScopeManage)
	remove.status, remove.about = http.StatusNoContent, "Executions, promises, events and deliveries that the route created are not affected. Events waiting for a retry are processed without the route."
	reorder := op("reorder-routes", http.MethodPut, "/reorder", "Reorder the routes of a source", eventhook.ScopeManage)
	reorder.maxBody = 128 << 10 // enough for the maximum number of routes
	reorder.skipsShape, reorder.about = true, "Sets the priorities of the given routes, all or none. Routes that are not listed keep their priority."
	register(s, api, create, s.createRoute)
	register(s, api, op("list-routes", http.MethodGet, "", "List the routes of a source", eventhook.ScopeRead), s.listRoutes)
	register(s, api, reorder, s.reorderRoutes)
	register(s, api, op("get-route", http.MethodGet, "/{id}", "Get a route", eventhook.ScopeRead), s.getRoute)
	register(s, api, update, s.updateRoute)
	register(s, api, remove, s.deleteRoute)
}

type createRouteRequest struct {
	SourcePath
	Body document[RouteCreate]
}

type routeAnswer struct {
	ETag string `header:"ETag" doc:"Version of the route, for If-Match."`
	Body Route
}

type createdRoute struct {
	Location string `header:"Location"`
	ETag     string `header:"ETag" doc:"Version of the route, for If-Match."`
	Body     Route
}

// checkRoute returns r with the targets of a request, and the faults of the request. r
// has the other members of the request already.
func (s *server) checkRoute(ctx context.Context, tenant eventhook.TenantID, shape eventhook.Faults, r eventhook.Route, written []Target) (eventhook.Route, error) {
	targets, faults := mergeTargets(written, r.Targets)
	return s.checkParsedRoute(ctx, tenant, shape, r, targets, faults)
}

// checkParsedRoute is checkRoute for targets that are parsed already, with their faults.
func (s *server) checkParsedRoute(ctx context.Context, tenant eventhook.TenantID, shape eventhook.Faults, r eventhook.Route, targets []eventhook.Target, targetFaults eventhook.Faults) (eventhook.Route, error) {
	conditions, err := s.Routes.CheckRoute(ctx, tenant, r)
	if err != nil {
		return r, err
	}
	r.Targets = targets
	var rules eventhook.Faults
	rules.Merge("body", r.Validate())
	rules.Merge("body", targetFaults)
	rules.Merge("body", s.checkEngines(targets))
	rules.Merge("body", conditions)
	return r, combinedError(shape, rules)
}

func (s *server) createRoute(ctx context.Context, by caller, in *createRouteRequest) (*createdRoute, error) {
	if _, _, err := s.findSource(ctx, &in.SourcePath); err != nil {
		return nil, err
	}
	body, shape := in.Body.read(s)
	want, err := s.checkRoute(ctx, by.tenant, shape, body.over(eventhook.Route{}, body.Name), body.Targets)
	if err != nil {
		return nil, err
	}
	r, err := s.RouteStore.CreateRoute(ctx, by.actor(), by.tenant, in.Slug, want)
	if err != nil {
		return nil, err
	}
	created := &createdRoute{pathTo(in.Tenant, "sources", in.Slug, "routes", r.ID.String()), etag(r.Version), viewRoute(r)}
	if err := s.warnOfTargets(ctx, by.tenant, &created.Body); err != nil {
		s.Log.Warn("cannot check the agents of a new route", "route", r.ID, "error", err)
	}
	return created, nil
}

type routesQuery struct {
	SourcePath
	PageQuery
}

func (s *server) listRoutes(ctx context.Context, by caller, in *routesQuery) (*page[Route], error) {
	pages := s.pager("routes of "+in.Slug, by.tenant)
	before, err := cursorOf[eventhook.Route](pages, in.Cursor)
	if err != nil {
		return nil, err
	}
	source, _, err := s.findSource(ctx, &in.SourcePath)
	if err != nil {
		return nil, err
	}
	list, err := s.RouteStore.Routes(ctx, source.ID, before, in.Limit+1)
	if err != nil {
		return nil, err
	}
	out := newPage(pages, list, in.Limit, viewRoute, func(r eventhook.Route) eventhook.RouteID { return r.ID })
	return out, s.warnOfTargets(ctx, by.tenant, pointers(out.Body.Items)...)
}

// RoutePath is the part of a path that identifies a route.
type RoutePath struct {
	SourcePath
	ID string `path:"id" format:"uuid" doc:"Route id."`
}

// findRoute returns the route of a path.
func (s *server) findRoute(ctx context.Context, in *RoutePath) (eventhook.Route, error) {
	id, err := eventhook.ParseID[eventhook.Route](in.ID)
	if err != nil {
		return eventhook.Route{}, err
	}
	source, _, err := s.findSource(ctx, &in.SourcePath)
	if err != nil {
		return eventhook.Route{}, err
	}
	return s.RouteStore.Route(ctx, source.ID, id)
}

func (s *server) getRoute(ctx context.Context, by caller, in *RoutePath) (*routeAnswer, error) {
	r, err := s.findRoute(ctx, in)
	if err != nil {
		return nil, err
	}
	return s.answerRoute(ctx, by, r)
}

func (s *server) answerRoute(ctx context.Context, by caller, r eventhook.Route) (*routeAnswer, error) {
	answer := &routeAnswer{etag(r.Version), viewRoute(r)}
	return answer, s.warnOfTargets(ctx, by.tenant, &answer.Body)
}

type updateRouteRequest struct {
	RoutePath
	IfMatch
	Body document[RoutePatch]
}

// errRouteBusy is the refusal of an update without If-Match that concurrent updates
// have overtaken repeatedly.
var errRouteBusy = &eventhook.Error{Kind: eventhook.KindConflict, Message: "The route is being changed concurrently; try again."}

// updateRoute checks the updated route without holding a lock, because the check
// compiles scripts. It then writes the route only if its version has not changed
// meanwhile.
func (s *server) updateRoute(ctx context.Context, by caller, in *updateRouteRequest) (*routeAnswer, error) {
	var out *routeAnswer
	err := in.applyIfMatch(func(version int64) (err error) {
		out, err = s.updateRouteVersion(ctx, by, in, version)
		return err
	})
	return out, err
}

func (s *server) updateRouteVersion(ctx context.Context, by caller, in *updateRouteRequest, wanted int64) (*routeAnswer, error) {
	const tries = 5
	for range tries {
		r, err := s.tryUpdateRoute(ctx, by, in, wanted)
		switch {
		case err == nil:
			return s.answerRoute(ctx, by, r)
		case wanted != 0 || !errors.Is(err, eventhook.ErrStale):
			return nil, err
		}
	}
	return nil, errRouteBusy
}

func (s *server) tryUpdateRoute(ctx context.Context, by caller, in *updateRouteRequest, wanted int64) (eventhook.Route, error) {
	have, err := s.findRoute(ctx, &in.RoutePath)
	if err != nil {
		return have, err
	}
	if wanted != 0 && wanted != have.Version {
		return have, eventhook.ErrStale
	}
	body, shape, err := in.Body.mergePatched(s, RoutePatch{have.Name, viewTargets(have.Targets), conditionsOf(have)}, "filter")
	if err != nil {
		return have, err
	}
	want, err := s.checkRoute(ctx, by.tenant, shape, body.over(have, body.Name), body.Targets)
	if err != nil {
		return have, err
	}
	return s.RouteStore.UpdateRoute(ctx, by.actor(), by.tenant, in.Slug, have.ID, have.Version,
		func(eventhook.Route) (eventhook.Route, error) { return want, nil })
}

type deleteRouteRequest struct {
	RoutePath
	IfMatch
}

func (s *server) deleteRoute(ctx context.Context, by caller, in *deleteRouteRequest) (*struct{}, error) {
	id, err := eventhook.ParseID[eventhook.Route](in.ID)
	if err != nil {
		return nil, err
	}
	if !eventhook.IsSlug(in.Slug) {
		return nil, eventhook.NotFound("source")
	}
	return nil, in.applyIfMatch(func(version int64) error {
		return s.RouteStore.DeleteRoute(ctx, by.actor(), by.tenant, in.Slug, id, version)
	})
}
