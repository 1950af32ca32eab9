package console

import (
	"encoding/json"

	"github.com/eventhook/eventhook/client"
)

// routeView is the data of the page of a route for a person who may not change it.
type routeView struct {
	Source    client.Source
	Tab       string
	Route     routeRow
	Documents []*document
}

// showRoute shows a route without a form. raw is the route as the API returns it.
func (r *request) showRoute(route client.Route, raw []byte) (view, error) {
	source, err := r.api.GetSource(r.Context(), r.tenant, r.PathValue("slug"))
	if err != nil {
		return view{}, err
	}
	var as struct{ Filter, Transform, Targets json.RawMessage }
	if err := json.Unmarshal(raw, &as); err != nil {
		return view{}, err
	}
	documents := documentsOf(documentOf("Pattern filter", as.Filter), documentOf("Transform", as.Transform),
		documentOf("Targets", as.Targets))
	return view{Title: "Route " + route.Name, Page: "route",
		Data: routeView{source, "routes", routeRow{route}, documents}}, nil
}
