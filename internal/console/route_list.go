package console

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/eventhook/eventhook/client"
)

var routePages = []page{
	{pattern: "GET /console/t/{tenant}/sources/{slug}/routes", template: "routes", handle: (*Console).routeList},
	{pattern: "POST /console/t/{tenant}/sources/{slug}/routes/order", needs: "manage",
		handle: (*Console).reorderRoutes},
	{pattern: "POST /console/t/{tenant}/sources/{slug}/routes/form", needs: "manage",
		template: "route_edit", handle: (*Console).routeForm},
	{pattern: "GET /console/t/{tenant}/sources/{slug}/routes/new", needs: "manage",
		template: "route_edit", handle: (*Console).newRoute},
	{pattern: "POST /console/t/{tenant}/sources/{slug}/routes/new", needs: "manage",
		template: "route_edit", handle: (*Console).createRoute},
	{pattern: "GET /console/t/{tenant}/sources/{slug}/routes/{id}", template: "route_edit", handle: (*Console).editRoute},
	{pattern: "POST /console/t/{tenant}/sources/{slug}/routes/{id}", needs: "manage",
		template: "route_difference", handle: (*Console).updateRoute},
	{pattern: "POST /console/t/{tenant}/sources/{slug}/routes/{id}/delete", needs: "manage",
		handle: (*Console).deleteRoute},
}

// routeRow is a route in the list.
type routeRow struct{ client.Route }

// Conditions are the conditions of a route in a few words each.
func (r routeRow) Conditions() []string {
	all := slices.Clone(r.FilterEventTypes)
	if len(r.Filter) > 0 {
		all = append(all, "pattern")
	}
	if r.FilterExpression != nil {
		all = append(all, "CEL")
	}
	if r.FilterFunction != nil {
		all = append(all, "JavaScript")
	}
	return all
}

// Summaries name the targets of a route.
func (r routeRow) Summaries() []string {
	var all []string
	for _, t := range r.Targets {
		summary := string(t.Type)
		if name := cmp.Or(t.TaskKind, t.WorkflowKind, t.SignalName, t.EventType, t.Subject, t.Topic, t.RoutingKey, t.Stream, t.QueueURL, t.URL); name != nil {
			summary += " " + *name
		}
		if t.Engine != nil && *t.Engine == client.TargetEngineTemporal {
			summary += onTemporal
		}
		all = append(all, summary)
	}
	return all
}

// IsLast reports whether the route at an index is the last one of n.
func (routeRow) IsLast(n, index int) bool { return index == n-1 }

// Place is the place in the order, from 1.
func (routeRow) Place(index int) int { return index + 1 }

// routes returns the routes of a source in the order of evaluation.
func (r *request) routes(slug string) (rows []routeRow, err error) {
	const perPage = 200
	limit := int64(perPage)
	for route, err := range r.api.AllRoutes(r.Context(), r.tenant, slug, client.ListRoutesParams{Limit: &limit}) {
		if err != nil {
			return nil, err
		}
		rows = append(rows, routeRow{route})
	}
	slices.SortStableFunc(rows, func(a, b routeRow) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), strings.Compare(a.ID, b.ID))
	})
	return rows, nil
}

type routesOf struct {
	Source client.Source
	Tab    string
	Routes []routeRow
}

func (c *Console) routeList(r *request) (view, error) {
	source, err := r.api.GetSource(r.Context(), r.tenant, r.PathValue("slug"))
	if err != nil {
		return view{}, err
	}
	rows, err := r.routes(source.Slug)
	return view{Title: "Routes of " + source.Name, Data: routesOf{source, "routes", rows}}, err
}

// reorderRoutes sets the priorities so that the routes have the order of the form. The buttons up
// and down move one route by one place first.
func (c *Console) reorderRoutes(r *request) (view, error) {
	if err := r.ParseForm(); err != nil {
		return view{}, err
	}
	const step = 10
	order := moved(r.PostForm["order"], r.PostForm.Get("up"), r.PostForm.Get("down"))
	var body client.RouteOrder
	for i, id := range order {
		body.Order = append(body.Order, client.RoutePlace{ID: id, Priority: int64((len(order) - i) * step)})
	}
	if _, err := r.api.ReorderRoutes(r.detached(), r.tenant, r.PathValue("slug"), body); err != nil {
		return view{}, err
	}
	return redirect(r.sourcePath()+"/routes", "The order is saved: the priorities are "+strconv.Itoa(len(order)*step)+" to "+strconv.Itoa(step)+".")
}

// moved returns the ids with one of them moved by one place.
func moved(ids []string, up, down string) []string {
	order := slices.Clone(ids)
	if i := slices.Index(order, up); i > 0 {
		order[i-1], order[i] = order[i], order[i-1]
	}
	if i := slices.Index(order, down); i >= 0 && i < len(order)-1 {
		order[i+1], order[i] = order[i], order[i+1]
	}
	return order
}

func (c *Console) deleteRoute(r *request) (view, error) {
	if err := r.ParseForm(); err != nil {
		return view{}, err
	}
	params := client.DeleteRouteParams{IfMatch: etag(r.PostForm.Get("version"))}
	if err := r.api.DeleteRoute(r.detached(), r.tenant, r.PathValue("slug"), r.PathValue("id"), params); err != nil {
		return view{}, err
	}
	return redirect(r.sourcePath()+"/routes", "The route is deleted.")
}
