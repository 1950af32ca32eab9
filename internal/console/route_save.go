package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/web"
)

// routeDifference is the data of the page that shows a change before it is saved.
type routeDifference struct {
	Source  client.Source
	Tab     string
	ID      string
	Name    string
	Changes []change
	Values  url.Values // of the form, sent again
}

// change is a member of a route before and after; "" means that it has no value.
type change struct{ Name, Old, New string }

func (c *Console) createRoute(r *request) (view, error) {
	if err := r.ParseForm(); err != nil {
		return view{}, err
	}
	e, err := r.editor("", nil)
	if err != nil {
		return view{}, err
	}
	raw, err := e.members(false).body()
	if err != nil {
		return view{}, err
	}
	if len(e.Form.Faults) > 0 {
		return r.editorView(e, http.StatusUnprocessableEntity)
	}
	route, err := r.api.CreateRouteFrom(r.detached(), r.tenant, e.Source.Slug, raw)
	if err != nil {
		return r.refuseRoute(e, err)
	}
	return r.afterRoute("/routes", "The route "+route.Name+" is created.")
}

// afterRoute leads to the event for which the route was written, or else to a page of the source.
func (r *request) afterRoute(path, done string) (view, error) {
	if event := r.PostForm.Get("back"); event != "" {
		return redirect(r.base()+"/events/"+segment(event), done+" Stored events do not meet it by themselves: run this event again to see what it does.")
	}
	return redirect(r.sourcePath()+path, done+" New events meet it within a second.")
}

// refuseRoute shows the editor with the faults of the API.
func (r *request) refuseRoute(e *routeEditor, err error) (view, error) {
	if !e.Form.refuse(err) {
		return view{}, err
	}
	status := http.StatusUnprocessableEntity
	if isStale(err) {
		status, e.Form.Summary = http.StatusPreconditionFailed, staleText("route")
	}
	return r.editorView(e, status)
}

// updateRoute shows the difference first, and saves it once it is confirmed.
func (c *Console) updateRoute(r *request) (view, error) {
	if err := r.ParseForm(); err != nil {
		return view{}, err
	}
	e, err := r.editor(r.PathValue("id"), nil)
	if err != nil {
		return view{}, err
	}
	patch := e.members(true)
	if len(e.Form.Faults) > 0 {
		return r.editorView(e, http.StatusUnprocessableEntity)
	}
	if r.PostForm.Get("confirm") == "" {
		return r.showDifference(e, patch)
	}
	raw, err := patch.body()
	if err != nil {
		return view{}, err
	}
	params := client.UpdateRouteParams{IfMatch: etag(r.PostForm.Get("version"))}
	if _, err := r.api.UpdateRouteFrom(r.detached(), r.tenant, e.Source.Slug, e.ID, params, raw); err != nil {
		return r.refuseRoute(e, err)
	}
	return r.afterRoute("/routes/"+segment(e.ID), "The route is saved.")
}

func (r *request) showDifference(e *routeEditor, patch members) (view, error) {
	var raw []byte
	have, err := r.api.GetRoute(r.Context(), r.tenant, e.Source.Slug, e.ID, client.KeepBody(&raw))
	if err != nil {
		return view{}, err
	}
	want, err := patch.body()
	if err != nil {
		return view{}, err
	}
	d := routeDifference{Source: e.Source, Tab: "routes", ID: e.ID, Name: have.Name, Changes: differences(raw, want), Values: url.Values{}}
	for name, values := range e.Form.Values {
		if name != "csrf" && name != "confirm" {
			d.Values[name] = values
		}
	}
	return view{Title: "Changes of " + have.Name, Data: d}, nil
}

// differences compares the members of two documents. Lists of targets are compared one by one.
func differences(have, want []byte) []change {
	before, after := flat(have), flat(want)
	var all []change
	for _, name := range sortedNames(merged(before, after)) {
		if before[name] != after[name] {
			all = append(all, change{name, before[name], after[name]})
		}
	}
	return all
}

// flat returns the members of a route as texts by name. Members without a value are omitted.
func flat(raw []byte) map[string]string {
	texts := map[string]string{}
	var route map[string]json.RawMessage
	if json.Unmarshal(raw, &route) != nil {
		return texts
	}
	for _, name := range []string{"name", "priority", "is_enabled", "filter_event_types", "filter", "filter_expression", "filter_function", "transform"} {
		putText(texts, name, route[name])
	}
	var targets []json.RawMessage
	_ = json.Unmarshal(route["targets"], &targets) // a document of the API or of the form
	for i, t := range targets {
		putText(texts, targetName(i), t)
	}
	return texts
}

func putText(texts map[string]string, name string, raw json.RawMessage) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil || v == nil {
		return
	}
	if text, ok := v.(string); ok {
		texts[name] = text
		return
	}
	if list, ok := v.([]any); ok {
		for _, item := range list {
			texts[name] += fmt.Sprint(item) + "\n"
		}
		return
	}
	if object, ok := v.(map[string]any); ok && object["retry"] == false {
		delete(object, "retry") // the default of a transform
	}
	sorted, _ := json.Marshal(v) // was decoded from JSON
	if text := string(sorted); text != "{}" {
		texts[name] = web.Pretty(sorted)
	}
}

func merged(a, b map[string]string) map[string]bool {
	all := map[string]bool{}
	for name := range a {
		all[name] = true
	}
	for name := range b {
		all[name] = true
	}
	return all
}
