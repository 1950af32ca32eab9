package console

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/web"
)

// routeEditor is the data of the editor of a route.
type routeEditor struct {
	Source   client.Source
	Tab      string
	ID       string // "" for a new route
	Form     form
	Targets  []targetForm
	Types    []string // of targets
	Warnings []string
	Events   []client.Event // the newest of the source, to choose from
	Verdict  verdict
	Backtest *client.Backtest
	// BacktestFault is why a backtest was not made.
	BacktestFault string
	// Asked are the fields of the secrets that were typed before and must be typed again.
	Asked []string
}

// IsNew is true for a route that does not exist yet.
func (e routeEditor) IsNew() bool { return e.ID == "" }

// IsOther is true if the chosen event is not one of the newest.
func (e routeEditor) IsOther() bool {
	id := e.Form.Get("event")
	return id != "" && !slices.ContainsFunc(e.Events, func(x client.Event) bool { return x.ID == id })
}

// routeMembers are the fields of the editor besides the targets.
var routeMembers = []string{"name", "priority", "is_enabled", "filter_event_types", "filter", "filter_expression", "filter_function",
	"transform.type", "transform.expression", "transform.retry", "payload"}

// editor returns the editor with the values of the form, or those given for a request without one.
func (r *request) editor(id string, values url.Values) (*routeEditor, error) {
	source, err := r.api.GetSource(r.Context(), r.tenant, r.PathValue("slug"))
	if err != nil {
		return nil, err
	}
	e := &routeEditor{
		Source: source, Tab: "routes", ID: id, Form: r.formOf(values, routeMembers...), Types: targetTypes}
	e.Asked = e.Form.Values[askedField]
	e.Events, err = r.recentEvents(source.Slug)
	e.readTargets()
	return e, err
}

// recentEvents returns the newest events of a source without duplicates, which meet no route.
func (r *request) recentEvents(slug string) ([]client.Event, error) {
	const most = 20
	limit := int64(most)
	found, err := r.api.ListEvents(r.Context(), r.tenant, client.ListEventsParams{Limit: &limit, Source: &slug})
	return slices.DeleteFunc(found.Items, func(e client.Event) bool { return e.Status == "duplicate" }), err
}

// readTargets derives the targets from the values, and the names at which faults are shown.
func (e *routeEditor) readTargets() {
	e.Targets = targetsOf(e.Form.Values)
	e.Form.Shown = append([]string{}, routeMembers...)
	for _, t := range e.Targets {
		for _, f := range t.Fields {
			e.Form.Shown = append(e.Form.Shown, t.Name(f.Member))
		}
		e.Form.Shown = append(e.Form.Shown, t.Rest)
	}
	e.Form.Shown = append(e.Form.Shown, "transform", "targets")
}

// members returns the route of the form as the API takes it. Faults go to the form.
func (e *routeEditor) members(isPatch bool) members {
	m := membersOf(&e.Form, isPatch)
	m.texts("name", "filter_expression", "filter_function")
	m.lists("filter_event_types")
	m.documents("filter")
	m.numbers("priority")
	m.boxes("is_enabled")
	if strings.TrimSpace(e.Form.Get("transform.expression")) == "" {
		m.setUnlessEmpty("transform", true, nil)
	} else {
		m.texts("transform.expression")
		m.set("transform.type", cmp.Or(e.Form.Get("transform.type"), "jmespath"))
		m.boxes("transform.retry")
	}
	targets := []any{}
	for _, t := range e.Targets {
		targets = append(targets, t.target(&e.Form))
	}
	m.set("targets", targets)
	return m
}

// valuesOfRoute returns the fields of the editor for a stored route.
func valuesOfRoute(route client.Route, raw []byte) (url.Values, error) {
	v := url.Values{"name": {route.Name}, "priority": {strconv.FormatInt(route.Priority, 10)}, "version": {strconv.FormatInt(route.Version, 10)},
		"filter_event_types": {strings.Join(route.FilterEventTypes, "\n")}, "targets": {strconv.Itoa(len(route.Targets))}}
	put(v, "filter_expression", route.FilterExpression)
	put(v, "filter_function", route.FilterFunction)
	if route.IsEnabled {
		v.Set("is_enabled", "true")
	}
	v.Set("filter", filterText(raw))
	if route.Transform != nil {
		v.Set("transform.type", string(route.Transform.Type))
		v.Set("transform.expression", route.Transform.Expression)
		if route.Transform.Retry != nil && *route.Transform.Retry {
			v.Set("transform.retry", "true")
		}
	}
	for i, t := range route.Targets {
		if err := putTarget(v, i, t); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// filterText returns the filter of a route as it was written, indented: a map would sort it.
func filterText(raw []byte) string {
	var text struct{ Filter json.RawMessage }
	if json.Unmarshal(raw, &text) != nil || len(text.Filter) == 0 || string(text.Filter) == "null" {
		return ""
	}
	return web.Editable(text.Filter)
}

func (c *Console) newRoute(r *request) (view, error) {
	return r.openEditor("", url.Values{"priority": {"0"}, "is_enabled": {"true"}, "targets": {"1"}, "targets[0].type": {"task"}}, nil)
}

// editRoute shows a route in the editor, or without a form to a person who may not change it.
func (c *Console) editRoute(r *request) (view, error) {
	var raw []byte
	route, err := r.api.GetRoute(r.Context(), r.tenant, r.PathValue("slug"), r.PathValue("id"), client.KeepBody(&raw))
	if err != nil {
		return view{}, err
	}
	if !r.can("manage") {
		return r.showRoute(route, raw)
	}
	values, err := valuesOfRoute(route, raw)
	if err != nil {
		return view{}, err
	}
	return r.openEditor(route.ID, values, route.Warnings)
}

// openEditor shows the editor with the event in the URL, or else the newest one.
func (r *request) openEditor(id string, values url.Values, warnings []string) (view, error) {
	event := r.URL.Query().Get("event")
	values.Set("event", event)
	values.Set("back", event)
	e, err := r.editor(id, values)
	if err != nil {
		return view{}, err
	}
	e.Warnings = warnings
	if values.Get("event") == "" && len(e.Events) > 0 {
		values.Set("event", e.Events[0].ID)
	}
	return r.editorView(e, 0)
}

// editorView computes the verdict and returns the page, without the secrets that were typed.
func (r *request) editorView(e *routeEditor, status int) (view, error) {
	var err error
	if e.Verdict, err = r.judge(e); err != nil {
		return view{}, err
	}
	e.hideSecrets()
	title := "New route"
	if !e.IsNew() {
		title = "Route " + e.Form.Get("name")
	}
	return view{Title: title, Data: e, Page: "route_edit", Status: status}, nil
}

// routeForm shows the editor again after an act that saves nothing: a target is added or removed,
// the verdict is computed, or a backtest is made.
func (c *Console) routeForm(r *request) (view, error) {
	if err := r.ParseForm(); err != nil {
		return view{}, err
	}
	e, err := r.editor(r.PostForm.Get("id"), nil)
	if err != nil {
		return view{}, err
	}
	if kind := r.PostForm.Get("add"); kind != "" {
		addTarget(e.Form.Values, cmp.Or(r.PostForm.Get("add_type"), "task"))
	}
	if index, err := strconv.Atoi(r.PostForm.Get("remove")); err == nil {
		removeTarget(e.Form.Values, index)
	}
	e.Asked = e.Form.Values[askedField] // removeTarget renumbers them
	e.readTargets()
	if r.PostForm.Get("backtest") != "" {
		if err := r.backtest(e); err != nil {
			return view{}, err
		}
	}
	return r.editorView(e, http.StatusOK)
}

// backtest counts the stored events that the route of the form would have matched.
func (r *request) backtest(e *routeEditor) error {
	result, err := r.tryBacktest(e, backtestSize, backtestSamples)
	if err == nil {
		e.Backtest = result
		return nil
	}
	e.BacktestFault = faultText(err)
	if e.BacktestFault == "" {
		return err
	}
	return nil
}

const (
	backtestSize    = 1000
	backtestSamples = 5
)

// tryBacktest evaluates the route of the form for the newest stored events. The route needs no name
// for it.
func (r *request) tryBacktest(e *routeEditor, last, samples int) (*client.Backtest, error) {
	route := e.members(false)
	if strings.TrimSpace(e.Form.Get("name")) == "" {
		route.set("name", "new route")
	}
	raw, err := json.Marshal(map[string]any{"source": e.Source.Slug, "last": last, "samples": samples, "route": route.object})
	if err != nil {
		return nil, err
	}
	result, err := r.api.BacktestRouteFrom(r.Context(), r.tenant, raw)
	return &result, err
}
