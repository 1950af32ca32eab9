package api

import (
	"context"
	"fmt"

	"github.com/eventhook/eventhook"
)

// RouteOrder sets priorities of routes.
type RouteOrder struct {
	Order []RoutePlace `json:"order" minItems:"1" maxItems:"1000" doc:"New priorities of routes."`
}

// RoutePlace is the new priority of a route.
type RoutePlace struct {
	ID       string `json:"id" doc:"Route id."`
	Priority int    `json:"priority" minimum:"-1000000" maximum:"1000000" doc:"New priority of the route."`
}

// RouteList lists all routes of a source.
type RouteList struct {
	Items []Route `json:"items" doc:"All routes of the source, in the order of evaluation."`
}

type reorderRequest struct {
	SourcePath
	Body document[RouteOrder]
}

type orderAnswer struct{ Body RouteList }

func (s *server) reorderRoutes(ctx context.Context, by caller, in *reorderRequest) (*orderAnswer, error) {
	source, _, err := s.findSource(ctx, &in.SourcePath)
	if err != nil {
		return nil, err
	}
	body, shape := in.Body.read(s)
	order, err := parseOrder(body.Order, shape)
	if err != nil {
		return nil, err
	}
	if err := s.RouteStore.ReorderRoutes(ctx, by.actor(), by.tenant, in.Slug, order); err != nil {
		return nil, err
	}
	routes, err := s.RouteStore.AllRoutes(ctx, source.ID)
	if err != nil {
		return nil, err
	}
	out := &orderAnswer{RouteList{Items: make([]Route, len(routes))}}
	for i, r := range routes {
		out.Body.Items[i] = viewRoute(r)
	}
	return out, s.warnOfTargets(ctx, by.tenant, pointers(out.Body.Items)...)
}

// parseOrder parses an order, in which a route must not occur twice. If an id cannot be
// parsed, the error is KindMalformed, whatever other faults there are.
func parseOrder(order []RoutePlace, shape eventhook.Faults) (list []eventhook.RoutePriority, err error) {
	var ids, rules eventhook.Faults
	seen := map[eventhook.RouteID]bool{}
	for i, p := range order {
		at, before := fmt.Sprintf("body.order[%d].id", i), len(ids)
		id := idAt[eventhook.Route](&ids, at, p.ID)
		if len(ids) > before {
			continue
		}
		if seen[id] {
			rules.Add(at, "occurs twice")
		}
		seen[id] = true
		list = append(list, eventhook.RoutePriority{ID: id, Priority: p.Priority})
	}
	if unread := join(shape, ids)[len(shape):]; len(unread) > 0 {
		all := append(join(shape, ids), rules...)
		return nil, malformed(all[:min(len(all), maxFaults)])
	}
	return list, combinedError(shape, rules)
}
