package portal

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/web"
)

var editPages = []page{
	{pattern: "GET /portal/endpoints/new", template: "endpoint_new", handle: (*Portal).newEndpoint},
	{pattern: "POST /portal/endpoints/new", template: "endpoint_new", handle: (*Portal).createEndpoint, isTest: true},
	{pattern: "GET /portal/endpoints/{endpoint}/edit", template: "endpoint_edit", handle: (*Portal).editEndpoint},
	{pattern: "POST /portal/endpoints/{endpoint}/edit", template: "endpoint_edit", handle: (*Portal).updateEndpoint},
}

// endpointFields are the fields of the form of an endpoint, by the names of the API.
var endpointFields = []string{"name", "url", "event_types", "headers", "validate"}

// endpointForm is the data of the form of an endpoint.
type endpointForm struct {
	Form  web.Form
	Types []category
	// Kept are the patterns and types of an endpoint that the sender chose, and that are not offered.
	Kept []string
	// Endpoint is the endpoint that is edited.
	Endpoint client.Subscription
}

// Count returns the number of the types.
func (f endpointForm) Count() (n int) {
	for _, c := range f.Types {
		n += len(c.Types)
	}
	return n
}

func (p *Portal) newEndpoint(r *request) (view, error) {
	types, err := r.offeredTypes()
	if err != nil {
		return view{}, err
	}
	return view{Title: "Add an endpoint", Data: endpointForm{Form: web.Form{Values: r.URL.Query()}, Types: categoriesOf(types)}}, nil
}

// createEndpoint creates an endpoint of the customer's scope. The scope is that of the session:
// nothing that the browser sends can change it.
func (p *Portal) createEndpoint(r *request) (view, error) {
	types, err := r.offeredTypes()
	if err != nil {
		return view{}, err
	}
	data := endpointForm{Form: web.Form{Values: r.PostForm, Shown: endpointFields}, Types: categoriesOf(types)}
	chosen := r.chosenTypes(&data.Form, types, nil)
	headers := parseHeaders(&data.Form)
	if len(data.Form.Faults) > 0 {
		return refused("Add an endpoint", data), nil
	}
	validate := r.PostForm.Get("validate") != ""
	body := client.SubscriptionCreate{Name: strings.TrimSpace(r.PostForm.Get("name")), URL: strings.TrimSpace(r.PostForm.Get("url")),
		EventTypes: chosen, ScopeFilter: []string{r.scope()}, Headers: headers, Validate: &validate}
	created, err := r.api.CreateSubscription(r.detached(), r.tenant(), body)
	if data.Form.Refuse(err) {
		return refused("Add an endpoint", data), nil
	}
	if err != nil {
		return view{}, err
	}
	return view{Title: "Endpoint added", Page: "secret", Data: secretPage{Title: "Endpoint added", Name: created.Name, ID: created.ID,
		Secret: created.SigningSecret, IsNew: true}}, nil
}

// refused returns the form again with what is wrong with it.
func refused(title string, data endpointForm) view {
	return view{Title: title, Data: data, Status: http.StatusUnprocessableEntity}
}

func (p *Portal) editEndpoint(r *request) (view, error) {
	types, err := r.offeredTypes()
	if err != nil {
		return view{}, err
	}
	e := r.endpoint
	values := url.Values{"name": {e.Name}, "url": {e.URL}, "event_types": e.EventTypes, "headers": {headersText(e.Headers)},
		"version": {strconv.FormatInt(e.Version, 10)}}
	return view{Title: "Edit " + e.Name, Data: r.editForm(web.Form{Values: values}, types)}, nil
}

func (r *request) editForm(f web.Form, types []client.EventType) endpointForm {
	return endpointForm{Form: f, Types: categoriesOf(types), Kept: keptTypes(r.endpoint.EventTypes, types), Endpoint: r.endpoint}
}

// updateEndpoint changes the name, the URL, the event types and the headers. The condition If-Match
// makes sure that the change applies to the version that passed the gate.
func (p *Portal) updateEndpoint(r *request) (view, error) {
	types, err := r.offeredTypes()
	if err != nil {
		return view{}, err
	}
	data := r.editForm(web.Form{Values: r.PostForm, Shown: endpointFields}, types)
	title := "Edit " + r.endpoint.Name
	if r.PostForm.Get("version") != strconv.FormatInt(r.endpoint.Version, 10) {
		data.Form.Summary = "The endpoint was changed meanwhile. Open it again to see the current settings, then repeat your change."
		return refused(title, data), nil
	}
	patch := r.endpointPatch(&data.Form, types, data.Kept)
	if sent := data.Form.Get("url"); r.isForAgents() && sent != "" && sent != r.endpoint.URL {
		data.Form.AddFault("url", "is set by the sender")
	}
	if len(data.Form.Faults) > 0 {
		return refused(title, data), nil
	}
	raw, err := json.Marshal(patch)
	if err != nil {
		return view{}, err
	}
	match := fmt.Sprintf(`"%d"`, r.endpoint.Version)
	checked := client.UpdateSubscriptionParams{IfMatch: &match}
	_, err = r.api.UpdateSubscriptionFrom(r.detached(), r.tenant(), r.endpoint.ID, checked, raw)
	if data.Form.Refuse(err) {
		return refused(title, data), nil
	}
	if err != nil {
		return view{}, err
	}
	return redirect(r.base(), "The endpoint was changed.")
}

// endpointPatch returns the members to change. The shown URL keeps the stored one, and the URL of an
// endpoint for agents is not changed. A header that the form no longer has is deleted with null.
func (r *request) endpointPatch(f *web.Form, types []client.EventType, kept []string) map[string]any {
	headers := map[string]any{}
	for name := range r.endpoint.Headers {
		headers[name] = nil
	}
	for name, value := range parseHeaders(f) {
		headers[name] = value
	}
	patch := map[string]any{"name": strings.TrimSpace(f.Get("name")), "event_types": r.chosenTypes(f, types, kept), "headers": headers}
	if !r.isForAgents() {
		patch["url"] = strings.TrimSpace(f.Get("url"))
	}
	return patch
}

// isForAgents reports whether an agent in the network of the sender delivers to the endpoint. The
// gateway does not check addresses there, so only the sender chooses the URL.
func (r *request) isForAgents() bool { return len(r.endpoint.TargetLabels) > 0 }

// chosenTypes returns the event types of a form: those that are offered, and the kept ones.
func (r *request) chosenTypes(f *web.Form, offered []client.EventType, kept []string) []string {
	chosen := slices.Clone(kept)
	for _, name := range f.Values["event_types"] {
		isOffered := slices.ContainsFunc(offered, func(t client.EventType) bool { return t.Name == name })
		switch {
		case !isOffered && !slices.Contains(kept, name):
			f.AddFault("event_types", "has a type that is not offered: choose from the list")
		case !slices.Contains(chosen, name):
			chosen = append(chosen, name)
		}
	}
	if len(chosen) == 0 && f.Fault("event_types") == "" {
		f.AddFault("event_types", "choose at least one event type")
	}
	return chosen
}

// keptTypes returns the patterns of an endpoint that are not in the catalogue of customers.
func keptTypes(patterns []string, offered []client.EventType) (kept []string) {
	for _, pattern := range patterns {
		if !slices.ContainsFunc(offered, func(t client.EventType) bool { return t.Name == pattern }) {
			kept = append(kept, pattern)
		}
	}
	return kept
}

// offeredTypes returns the event types to which customers may subscribe.
func (r *request) offeredTypes() (offered []client.EventType, err error) {
	return listTypes(r.Context(), r.api, r.tenant())
}

// maxTypes limits the catalogue on a page.
const maxTypes = 1000

func listTypes(ctx context.Context, gateway *client.Client, tenant string) (offered []client.EventType, err error) {
	for t, err := range gateway.AllEventTypes(ctx, tenant, client.ListEventTypesParams{}) {
		if err != nil {
			return nil, err
		}
		if isOffered(t) {
			offered = append(offered, t)
		}
		if len(offered) == maxTypes {
			break
		}
	}
	return offered, nil
}
