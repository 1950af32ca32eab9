package portal

import (
	"net/http"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/client"
)

// The refusals of the gate. errNotFound is the same for an id that does not exist, an id of another
// customer and an id of another tenant, so that it reveals none of them.
var (
	errNotFound = &client.Problem{Title: "Not Found", Status: http.StatusNotFound,
		Detail: "There is no such page, or it is not part of your account. Choose an endpoint from the list."}
	errReadOnly = &client.Problem{Title: "Forbidden", Status: http.StatusForbidden,
		Detail: "Your link lets you look, and change nothing. Ask for a link that permits changes."}
)

// admit decides whether the customer of a request may open a page. It loads what the ids in the path
// name into the request: the endpoint, and the delivery. An id that does not exist or that is not of
// the customer's scope is errNotFound. An act in a session for reading is errReadOnly, without a call
// of the API.
func (r *request) admit(p page) error {
	if p.changes() && r.session.ReadOnly {
		return errReadOnly
	}
	if p.has("delivery") {
		return r.admitDelivery(r.PathValue("delivery"))
	}
	if p.has("replay") {
		if _, err := eventhook.ParseID[eventhook.Replay](r.PathValue("replay")); err != nil {
			return errNotFound
		}
	}
	if p.has("endpoint") {
		return r.admitEndpoint(r.PathValue("endpoint"))
	}
	return nil
}

// admitEndpoint loads an endpoint if the customer may see it.
func (r *request) admitEndpoint(id string) error {
	if _, err := eventhook.ParseID[eventhook.Subscription](id); err != nil {
		return errNotFound
	}
	found, err := r.api.GetSubscription(r.Context(), r.session.TenantSlug, id)
	switch {
	case client.StatusOf(err) == http.StatusNotFound:
		return errNotFound
	case err != nil:
		return err
	case found.ID != id || !r.sees(found):
		return errNotFound
	}
	r.endpoint = found
	return nil
}

// admitDelivery loads a delivery and its endpoint. A delivery to a route's target has no endpoint. The
// API answers 404 to a delivery whose event is not of the customer's scope.
func (r *request) admitDelivery(id string) error {
	if _, err := eventhook.ParseID[eventhook.Delivery](id); err != nil {
		return errNotFound
	}
	found, err := r.api.GetDelivery(r.Context(), r.session.TenantSlug, id)
	switch {
	case client.StatusOf(err) == http.StatusNotFound:
		return errNotFound
	case err != nil:
		return err
	case found.ID != id || found.SubscriptionID == nil || found.RouteID != nil:
		return errNotFound
	}
	if err := r.admitEndpoint(*found.SubscriptionID); err != nil {
		return err
	}
	r.delivery = found
	return nil
}

// sees reports whether a subscription is an endpoint of the customer.
func (r *request) sees(s client.Subscription) bool {
	isOperator := s.IsOperator != nil && *s.IsOperator
	return !isOperator && eventhook.SubscriptionSettings{ScopeFilter: s.ScopeFilter}.IsVisibleTo(r.scope())
}

// endpoints returns a page of the endpoints that the customer may see.
func (r *request) endpoints(limit int64) (found []client.Subscription, next *string, err error) {
	scope := r.scope()
	params := client.ListSubscriptionsParams{Scope: &scope, Limit: &limit, Cursor: r.filter("cursor")}
	page, err := r.api.ListSubscriptions(r.Context(), r.session.TenantSlug, params)
	if err != nil {
		return nil, nil, err
	}
	for _, s := range page.Items {
		if r.sees(s) {
			found = append(found, s)
		}
	}
	return found, page.NextCursor, nil
}

// isOffered reports whether a customer may subscribe to an event type.
func isOffered(t client.EventType) bool {
	return t.Visibility == client.EventTypeVisibilityPortal && !t.IsBuiltin
}
