package console

import (
	"strconv"
	"time"

	"github.com/eventhook/eventhook/client"
)

// deadLetters is the data of the page with the groups of dead deliveries.
type deadLetters struct {
	client.DeadGroups
	Filter        form
	Subscriptions []client.Subscription
	IsFiltered    bool
	// Earlier is the address of the page with the deliveries that were not counted; "" if all were.
	Earlier string
	// Total is the number of deliveries in the groups shown.
	Total int64
}

func (c *Console) deadLetters(r *request) (view, error) {
	times, err := r.times("created_after", "created_before")
	if err != nil {
		return view{}, err
	}
	found, err := r.api.ListDeadGroups(r.Context(), r.tenant, client.ListDeadGroupsParams{SubscriptionID: r.filter("subscription_id"),
		CreatedAfter: times[0], CreatedBefore: times[1]})
	if err != nil {
		return view{}, err
	}
	d := deadLetters{DeadGroups: found, Filter: form{Values: r.URL.Query()},
		IsFiltered: r.filter("subscription_id") != nil || times[0] != nil || times[1] != nil}
	for _, g := range found.Items {
		d.Total += g.Count
	}
	if found.ScannedUntil != nil {
		d.Earlier = r.with("created_before", found.ScannedUntil.UTC().Format(time.RFC3339Nano))
	}
	if of, err := r.api.ListSubscriptions(r.Context(), r.tenant, client.ListSubscriptionsParams{Limit: &choices}); err == nil {
		d.Subscriptions = of.Items
	}
	return view{Title: "Dead letters", Data: d}, nil
}

// beforeDead is how long before a delivery became dead its event was published, at most, for the
// suggestion of a replay's window.
const beforeDead = 24 * time.Hour

// SinceOf returns the start of a replay's window that has the deliveries of a group.
func (d deadLetters) SinceOf(g client.DeadGroup) string {
	return g.FirstAt.Add(-beforeDead).UTC().Format(formTime)
}

// formTime is the form of a datetime-local field.
const formTime = "2006-01-02T15:04:05"

// DestinationOf returns the name of a group's destination.
func (d deadLetters) DestinationOf(g client.DeadGroup) string {
	switch {
	case g.Name != nil && g.TargetIndex != nil:
		return *g.Name + ", target " + strconv.FormatInt(*g.TargetIndex+1, 10)
	case g.Name != nil:
		return *g.Name
	case g.Host != nil:
		return *g.Host
	}
	return "deleted destination"
}

// IsCut reports whether there are more groups than the page shows.
func (d deadLetters) IsCut() bool { return int64(len(d.Items)) < d.GroupsCount }

// Tail returns the end of an id, which differs between the samples of a group.
func (d deadLetters) Tail(id string) string {
	const tail = 6
	return "…" + id[max(0, len(id)-tail):]
}
