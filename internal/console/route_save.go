package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"

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
	Values  url.Values // of the form, sent again without secrets
	// Asked are the fields of the secrets that must be typed again.
	Asked []settingField
}

// Get and Fault let the fields of Asked be shown as those of a form: they are empty.
func (routeDifference) Get(string) string   { return "" }
func (routeDifference) Fault(string) string { return "" }

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
	e.checkAsked()
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

// updateRoute shows the difference first, and saves it once it is confirmed. A change of nothing but
// secrets, of which a page shows no difference, is saved at once.
func (c *Console) updateRoute(r *request) (view, error) {
	if err := r.ParseForm(); err != nil {
		return view{}, err
	}
	e, err := r.editor(r.PathValue("id"), nil)
	if err != nil {
		return view{}, err
	}
	e.checkAsked()
	patch, err := e.members(true).body()
	if err != nil {
		return view{}, err
	}
	if len(e.Form.Faults) > 0 {
		return r.editorView(e, http.StatusUnprocessableEntity)
	}
	if r.PostForm.Get("confirm") == "" {
		if d, isNeeded, err := r.difference(e, patch); err != nil || isNeeded {
			return view{Title: "Changes of " + d.Name, Data: d}, err
		}
	}
	params := client.UpdateRouteParams{IfMatch: etag(r.PostForm.Get("version"))}
	if _, err := r.api.UpdateRouteFrom(r.detached(), r.tenant, e.Source.Slug, e.ID, params, patch); err != nil {
		return r.refuseRoute(e, err)
	}
	return r.afterRoute("/routes/"+segment(e.ID), "The route is saved.")
}

// difference returns the changes of a route. isNeeded is false if only secrets change.
func (r *request) difference(e *routeEditor, patch json.RawMessage) (d routeDifference, isNeeded bool, err error) {
	var raw []byte
	have, err := r.api.GetRoute(r.Context(), r.tenant, e.Source.Slug, e.ID, client.KeepBody(&raw))
	if err != nil {
		return d, false, err
	}
	same, hasSecrets := masked(patch, redacted)
	if hasSecrets && len(differences(raw, same)) == 0 {
		return d, false, nil
	}
	shown, _ := masked(patch, "[redacted, new value]")
	d = routeDifference{Source: e.Source, Tab: "routes", ID: e.ID, Name: have.Name,
		Changes: differences(raw, shown), Values: url.Values{}}
	e.hideSecrets()
	for _, name := range e.Asked {
		index, member := targetOf(name)
		d.Asked = append(d.Asked, settingField{Member: name, IsLong: isLong(member[1:]),
			Label: fmt.Sprintf("Secret %s of target %d", member[1:], index+1)})
	}
	for name, values := range e.Form.Values {
		if !slices.Contains([]string{"csrf", "confirm", askedField}, name) && !slices.Contains(e.Asked, name) {
			d.Values[name] = values
		}
	}
	return d, true, nil
}

// differences compares the members of two documents. Lists of targets are compared one by one.
func differences(have, want []byte) []change {
	before, after := flat(have), flat(want)
	var all []change
	for _, name := range sortedNames(merged(before, after)) {
		if before[name] != after[name] {
			all = append(all, change{name, web.Pretty([]byte(before[name])), web.Pretty([]byte(after[name]))})
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
	if text := string(plainJSON(v)); text != "{}" {
		texts[name] = text
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
