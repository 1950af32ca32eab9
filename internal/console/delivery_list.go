package console

import (
	"github.com/eventhook/eventhook/client"
)

var deliveryPages = []page{
	{pattern: "GET /console/t/{tenant}/deliveries", template: "deliveries", handle: (*Console).deliveries, isLive: true},
	{pattern: "GET /console/t/{tenant}/deliveries/dead", template: "dead_letters", handle: (*Console).deadLetters},
	{pattern: "POST /console/t/{tenant}/deliveries/retry", needs: "manage",
		template: "delivery_retry", handle: (*Console).retryDeliveries},
	{pattern: "POST /console/t/{tenant}/deliveries/chosen", needs: "manage", handle: (*Console).retryChosen},
	{pattern: "GET /console/t/{tenant}/deliveries/{id}", template: "delivery", handle: (*Console).delivery, isLive: true},
	{pattern: "POST /console/t/{tenant}/deliveries/{id}/retry", needs: "manage", handle: (*Console).retryDelivery},
}

// deliveryStatuses are the values of the filter for the status.
var deliveryStatuses = []string{"pending", "acquired", "success", "failed", "dead"}

// deliveryFilters are the filters of the list, which are the API's own.
var deliveryFilters = []string{"status", "subscription_id", "route_id", "event_id", "event_type", "created_after", "created_before"}

// deliveryList is the data of the list of deliveries.
type deliveryList struct {
	Deliveries []client.Delivery
	Filter     form
	Statuses   []string
	// Subscriptions are the choices of the filter; empty if they cannot be read.
	Subscriptions []client.Subscription
	Selected      map[string]bool
	Pager         pager
	IsFiltered    bool
	// CanRetryAll is true if an act can have the filters of the page.
	CanRetryAll bool
}

// choices is the number of subscriptions that a filter offers.
var choices = int64(250)

func (c *Console) deliveries(r *request) (view, error) {
	times, err := r.times("created_after", "created_before")
	if err != nil {
		return view{}, err
	}
	cursor, limit := r.cursor()
	found, err := r.api.ListDeliveries(r.Context(), r.tenant, client.ListDeliveriesParams{Cursor: cursor, Limit: limit,
		Status: filterAs[client.DeliveryStatus](r, "status"), SubscriptionID: r.filter("subscription_id"), RouteID: r.filter("route_id"),
		EventID: r.filter("event_id"), EventType: r.filter("event_type"), CreatedAfter: times[0], CreatedBefore: times[1]})
	if err != nil {
		return view{}, err
	}
	list := deliveryList{Deliveries: found.Items, Filter: form{Values: r.URL.Query()}, Statuses: deliveryStatuses,
		Pager: r.pager(found.NextCursor), Selected: map[string]bool{}}
	for _, id := range r.URL.Query()["selected"] {
		list.Selected[id] = true
	}
	for _, name := range deliveryFilters {
		list.IsFiltered = list.IsFiltered || r.filter(name) != nil
	}
	list.CanRetryAll = len(found.Items) > 0 && r.filter("event_type") == nil && isRetried(list.Filter.Get("status"))
	if of, err := r.api.ListSubscriptions(r.Context(), r.tenant, client.ListSubscriptionsParams{Limit: &choices}); err == nil {
		list.Subscriptions = of.Items
	}
	return view{Title: "Deliveries", Data: list}, nil
}

// isRetried reports whether the retry of many deliveries includes a status: it is for failed and
// dead deliveries.
func isRetried(status string) bool { return status == "" || status == "failed" || status == "dead" }
