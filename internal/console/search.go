package console

import (
	"net/http"
	"net/url"
	"time"

	"github.com/eventhook/eventhook/client"
)

// searchPages answer the search field: any id, key or name.
var searchPages = []page{
	{pattern: "GET /console/t/{tenant}/search", template: "search", handle: (*Console).search},
	{pattern: "GET /console/search", template: "search", handle: (*Console).searchAll},
}

// searchPage is the data of the results of a search.
type searchPage struct {
	ID    string
	Items []found
	Until *time.Time // events before it were not searched
}

// found is a resource with the address of its page.
type found struct {
	client.LookupItem
	Tenant string // in a search of all tenants
	Href   string
}

// search opens the page of the id that a person pasted, or lists what fits.
func (c *Console) search(r *request) (view, error) {
	page := searchPage{ID: r.URL.Query().Get("id")}
	if page.ID == "" {
		return page.view(nil)
	}
	answer, err := r.api.Lookup(r.Context(), r.tenant, client.LookupParams{ID: page.ID})
	for _, item := range answer.Items {
		page.Items = append(page.Items, found{item, "", hrefOf(r.base(), item)})
	}
	page.Until = answer.ScannedUntil
	return page.view(err)
}

// searchAll searches in all tenants, or in the tenant of a person who is no admin.
func (c *Console) searchAll(r *request) (view, error) {
	if tenant := r.lastTenant(); !r.isAdmin() && tenant != "" {
		return redirect(withQuery(tenantBase(tenant)+"/search", r.URL), "")
	}
	page := searchPage{ID: r.URL.Query().Get("id")}
	if page.ID == "" {
		return page.view(nil)
	}
	answer, err := r.api.LookupAll(r.Context(), client.LookupAllParams{ID: page.ID})
	for _, i := range answer.Items {
		item := client.LookupItem{At: i.At, ID: i.ID, Label: i.Label, SourceSlug: i.SourceSlug, SubscriptionID: i.SubscriptionID, Type: client.LookupItemType(i.Type)}
		page.Items = append(page.Items, found{item, i.Tenant, hrefOf(tenantBase(i.Tenant), item)})
	}
	page.Until = answer.ScannedUntil
	return page.view(err)
}

// view returns the page, or a redirect to the only result. err is that of the API.
func (p searchPage) view(err error) (view, error) {
	if status := client.StatusOf(err); err != nil && status != http.StatusUnprocessableEntity && status != http.StatusBadRequest {
		return view{}, err
	}
	if len(p.Items) == 1 { // a text that the API refuses is no id, and has no results
		return redirect(p.Items[0].Href, "")
	}
	return view{Title: "Search", Data: p}, nil
}

// hrefOf returns the address of the page of a resource.
func hrefOf(base string, item client.LookupItem) string {
	id := url.PathEscape(item.ID)
	switch item.Type {
	case client.LookupItemTypeEvent:
		return base + "/events/" + id
	case client.LookupItemTypeDelivery:
		return base + "/deliveries/" + id
	case client.LookupItemTypeExecution:
		return base + "/work/" + id
	case client.LookupItemTypePromise:
		return base + "/promises/" + id
	case client.LookupItemTypeSubscription:
		return base + "/subscriptions/" + id
	case client.LookupItemTypeReplay:
		if item.SubscriptionID != nil {
			return base + "/subscriptions/" + url.PathEscape(*item.SubscriptionID)
		}
	case client.LookupItemTypeSource:
		return base + "/sources/" + id
	case client.LookupItemTypeRoute:
		if item.SourceSlug != nil {
			return base + "/sources/" + url.PathEscape(*item.SourceSlug) + "/routes/" + id
		}
	case client.LookupItemTypeAgent:
		return base + "/agents"
	case client.LookupItemTypeEventType:
		return base + "/types/" + id
	}
	return base
}
