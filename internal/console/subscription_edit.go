package console

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/eventhook/eventhook/client"
)

// subscriptionForm is the data of the form of a subscription.
type subscriptionForm struct {
	Form      form
	ID        string // "" for a new one
	Name      string // as stored
	Types     []client.EventType
	Formats   []string
	AuthTypes []authChoice
	// HasSecrets is true if the subscription has secrets for its receiver, which the form does not
	// show.
	HasSecrets bool
	// IsLost is true if the stored URL and secrets cannot be decrypted.
	IsLost bool
}

// authChoice is an option of the authentication to a receiver.
type authChoice struct{ Type, Label string }

var authChoices = []authChoice{{authNone, "none"}, {authHeader, "Authorization header"}, {"basic", "user and password"}, {"oauth2", "OAuth 2 client credentials"},
	{"mtls", "TLS client certificate"}, {"aws_sigv4", "AWS Signature Version 4"}}

var subscriptionFormats = []string{"eventhook", "cloudevents", "slack", "teams", "pagerduty"}

func (c *Console) newSubscription(r *request) (view, error) {
	values := newSubscriptionValues()
	for name, v := range r.URL.Query() { // a link can suggest values
		values[name] = v
	}
	return r.subscriptionForm(r.formOf(values, subscriptionFields...), client.Subscription{}), nil
}

// subscriptionForm returns the page with the form. of is the stored subscription.
func (r *request) subscriptionForm(f form, of client.Subscription) view {
	data := subscriptionForm{Form: f, ID: of.ID, Name: of.Name, Formats: subscriptionFormats, AuthTypes: authChoices,
		HasSecrets: of.AuthHeader != nil || of.Auth != nil, IsLost: of.SecretsLost != nil && *of.SecretsLost}
	if found, err := r.api.ListEventTypes(r.Context(), r.tenant, client.ListEventTypesParams{Limit: &choices}); err == nil {
		data.Types = found.Items
	}
	v := view{Title: "New subscription", Data: data}
	if of.ID != "" {
		v.Title = "Edit " + of.Name
	}
	return v
}

// TypeFields returns the values of the fields of event types: those of the form and some empty ones.
func (s subscriptionForm) TypeFields() []string {
	const more = 3
	var list []string
	for _, t := range s.Form.Values["event_types"] {
		if t != "" {
			list = append(list, t)
		}
	}
	return append(list, make([]string, more)...)
}

// createSubscription creates the subscription and shows its signing secret once.
func (c *Console) createSubscription(r *request) (view, error) {
	if err := r.ParseForm(); err != nil {
		return view{}, err
	}
	f := r.formOf(nil, subscriptionFields...)
	body := bodyOf(f.Values)
	if f.Has("validate", "true") {
		body["validate"] = true
	}
	made, err := r.api.CreateSubscriptionFrom(r.detached(), r.tenant, body.created())
	if err != nil {
		return r.refusedSubscription(f, client.Subscription{}, err)
	}
	v, err := r.subscriptionView(subscriptionPage{Subscription: client.Subscription{ID: made.ID}, Created: made.SigningSecret})
	v.Page = "subscription"
	return v, err
}

func (r *request) refusedSubscription(f form, of client.Subscription, err error) (view, error) {
	if !f.refuse(err) {
		return view{}, err
	}
	f.hide(subscriptionSecrets...)
	v := r.subscriptionForm(f, of)
	v.Status = http.StatusUnprocessableEntity
	return v, nil
}

func (c *Console) editSubscription(r *request) (view, error) {
	s, err := r.api.GetSubscription(r.Context(), r.tenant, r.PathValue("id"))
	if err != nil {
		return view{}, err
	}
	return r.subscriptionForm(r.formOf(valuesOf(s), subscriptionFields...), s), nil
}

// updateSubscription changes the members that the person has changed, if the subscription is still
// the version that the form showed.
func (c *Console) updateSubscription(r *request) (view, error) {
	if err := r.ParseForm(); err != nil {
		return view{}, err
	}
	id := r.PathValue("id")
	s, err := r.api.GetSubscription(r.Context(), r.tenant, id)
	if err != nil {
		return view{}, err
	}
	f := r.formOf(nil, subscriptionFields...)
	patch := bodyOf(f.Values).changedFrom(bodyOf(valuesOf(s)))
	if _, err := r.api.UpdateSubscriptionFrom(r.detached(), r.tenant, id, client.UpdateSubscriptionParams{IfMatch: r.version()}, patch); err != nil {
		return r.refusedSubscription(f, s, err)
	}
	return redirect(r.base()+"/subscriptions/"+url.PathEscape(id), "The subscription is changed.")
}

// Blank returns the form for fields of secrets: it has the faults, but no values, so that a page
// never contains a secret.
func (s subscriptionForm) Blank() form { return form{Faults: s.Form.Faults} }

// IsOpen reports whether a field of the folded part has a fault.
func (s subscriptionForm) IsOpen() bool {
	for name := range s.Form.Faults {
		if i := slices.Index(subscriptionFields, name); i >= slices.Index(subscriptionFields, "retry.max_retries") || name == "target_labels" || name == "header_prefix" {
			return true
		}
	}
	return false
}
