package console

import (
	"slices"

	"github.com/eventhook/eventhook/client"
)

var subscriptionPages = []page{
	{pattern: "GET /console/t/{tenant}/subscriptions", template: "subscriptions", handle: (*Console).subscriptions, isLive: true},
	{pattern: "GET /console/t/{tenant}/subscriptions/new", needs: "manage",
		template: "subscription_form", handle: (*Console).newSubscription},
	{pattern: "POST /console/t/{tenant}/subscriptions/new", needs: "manage",
		template: "subscription_form", handle: (*Console).createSubscription},
	{pattern: "POST /console/t/{tenant}/subscriptions/bulk", needs: "manage",
		template: "subscription_bulk", handle: (*Console).changeSubscriptions},
	{pattern: "POST /console/t/{tenant}/subscriptions/chosen", needs: "manage", handle: (*Console).changeChosen},
	{pattern: "GET /console/t/{tenant}/subscriptions/{id}", template: "subscription", handle: (*Console).subscription, isLive: true},
	{pattern: "GET /console/t/{tenant}/subscriptions/{id}/edit", needs: "manage",
		template: "subscription_form", handle: (*Console).editSubscription},
	{pattern: "POST /console/t/{tenant}/subscriptions/{id}/edit", needs: "manage",
		template: "subscription_form", handle: (*Console).updateSubscription},
	{pattern: "POST /console/t/{tenant}/subscriptions/{id}/status", needs: "manage",
		handle: (*Console).changeSubscription},
	{pattern: "POST /console/t/{tenant}/subscriptions/{id}/test", needs: "manage",
		template: "subscription", handle: (*Console).testSubscription, isLive: true},
	{pattern: "POST /console/t/{tenant}/subscriptions/{id}/secret", needs: "manage",
		template: "subscription", handle: (*Console).rotateSecret, isLive: true},
	{pattern: "POST /console/t/{tenant}/subscriptions/{id}/delete", needs: "manage",
		handle: (*Console).deleteSubscription},
	{pattern: "GET /console/t/{tenant}/subscriptions/{id}/replay", template: "subscription_replay", handle: (*Console).replayForm, isLive: true},
	{pattern: "POST /console/t/{tenant}/subscriptions/{id}/replay", needs: "manage",
		template: "subscription_replay", handle: (*Console).startReplay},
	{pattern: "POST /console/t/{tenant}/subscriptions/{id}/replays/{replay}/cancel", needs: "manage",
		handle: (*Console).cancelReplay},
}

// subscriptionStatuses are the values of the filter for the status.
var subscriptionStatuses = []string{"active", "paused", "disabled"}

// subscriptionList is the data of the list of subscriptions.
type subscriptionList struct {
	Rows     []subscriptionRow
	Filter   form
	Statuses []string
	Selected map[string]bool
	Pager    pager
	// Elsewhere are failing subscriptions that are on other pages of the list.
	Elsewhere  []client.SubscriptionOverview
	IsFiltered bool
	// CanChangeAll is true if an act can have the filters of the page.
	CanChangeAll bool
}

// subscriptionRow is a subscription in the list.
type subscriptionRow struct {
	client.Subscription
	// Recent is the traffic of the last 24 hours; nil if the overview does not have the subscription.
	Recent *client.SubscriptionOverview
}

// IsFailing reports whether the subscription needs a person: its receiver fails, or the gateway has
// disabled it.
func (s subscriptionRow) IsFailing() bool {
	isDisabled := s.DisabledBy != nil && *s.DisabledBy != "user"
	return isDisabled || s.Recent != nil && isFailing(*s.Recent)
}

func isFailing(s client.SubscriptionOverview) bool {
	return s.FailingSince != nil || s.Circuit != "closed"
}

// LastError tells why the subscription fails; "" if it does not.
func (s subscriptionRow) LastError() string {
	if s.Recent != nil && s.Recent.LastError != "" {
		return s.Recent.LastError
	}
	if s.DisabledReason != nil {
		return *s.DisabledReason
	}
	return ""
}

func (c *Console) subscriptions(r *request) (view, error) {
	cursor, limit := r.cursor()
	found, err := r.api.ListSubscriptions(r.Context(), r.tenant, client.ListSubscriptionsParams{Cursor: cursor, Limit: limit,
		Status: filterAs[client.ListSubscriptionsParamsStatus](r, "status"), EventType: r.filter("event_type"), Scope: r.filter("scope")})
	if err != nil {
		return view{}, err
	}
	list := subscriptionList{Filter: form{Values: r.URL.Query()}, Statuses: subscriptionStatuses, Pager: r.pager(found.NextCursor),
		Selected: map[string]bool{}, CanChangeAll: len(found.Items) > 0 && r.filter("scope") == nil,
		IsFiltered: r.filter("status") != nil || r.filter("event_type") != nil || r.filter("scope") != nil}
	for _, id := range r.URL.Query()["selected"] {
		list.Selected[id] = true
	}
	recent := r.recentOf()
	for _, s := range found.Items {
		list.Rows = append(list.Rows, subscriptionRow{s, recent[s.ID]})
		delete(recent, s.ID)
	}
	slices.SortStableFunc(list.Rows, func(a, b subscriptionRow) int { return rank(a.IsFailing()) - rank(b.IsFailing()) })
	for _, s := range recent {
		if isFailing(*s) && (list.Pager.Next != "" || list.Pager.First != "") {
			list.Elsewhere = append(list.Elsewhere, *s)
		}
	}
	return view{Title: "Subscriptions", Data: list}, nil
}

// rank orders failing subscriptions before the healthy ones.
func rank(isFailing bool) int {
	if isFailing {
		return 0
	}
	return 1
}

// recentOf returns the traffic of the tenant's subscriptions by their ids; nil if the overview
// cannot be read, because the list does not depend on it.
func (r *request) recentOf() map[string]*client.SubscriptionOverview {
	window := client.GetOverviewParamsWindowN24H
	found, err := r.api.GetOverview(r.Context(), r.tenant, client.GetOverviewParams{Window: &window})
	if err != nil {
		return nil
	}
	recent := make(map[string]*client.SubscriptionOverview, len(found.Subscriptions))
	for i := range found.Subscriptions {
		recent[found.Subscriptions[i].ID] = &found.Subscriptions[i]
	}
	return recent
}
