package cli

import (
	"context"
	"fmt"

	"github.com/eventhook/eventhook/client"
)

// latest is the argument for the newest item of a list, wherever a command takes an id.
const latest = "latest"

// latestID returns arg, or the id of the first item of a list, which is the newest, if arg is
// latest. things names the items in the error for an empty list, such as "deliveries".
func latestID[T any](arg, things string, read readPage[T], id func(T) string) (string, error) {
	if arg != latest {
		return arg, nil
	}
	items, _, err := read(new(int64(1)), nil)
	switch {
	case err != nil:
		return "", err
	case len(items) == 0:
		return "", fmt.Errorf("there are no %s yet", things)
	}
	return id(items[0]), nil
}

// deliveryID returns arg, or the id of the newest delivery if arg is latest.
func (s *session) deliveryID(ctx context.Context, arg string) (string, error) {
	return latestID(arg, "deliveries", func(limit *int64, _ *string) ([]client.Delivery, *string, error) {
		p, err := s.ListDeliveries(ctx, s.tenant, client.ListDeliveriesParams{Limit: limit})
		return p.Items, nil, err
	}, func(d client.Delivery) string { return d.ID })
}

// keyID returns arg, or the id of the newest API key if arg is latest.
func (s *session) keyID(ctx context.Context, arg string) (string, error) {
	return latestID(arg, "API keys", func(limit *int64, _ *string) ([]client.Key, *string, error) {
		p, err := s.ListKeys(ctx, s.tenant, client.ListKeysParams{Limit: limit})
		return p.Items, nil, err
	}, func(k client.Key) string { return k.ID })
}

// newestSubscription returns arg, or the id of the newest subscription if arg is latest.
func (s *session) newestSubscription(ctx context.Context, arg string) (string, error) {
	return latestID(arg, "subscriptions", func(limit *int64, _ *string) ([]client.Subscription, *string, error) {
		return s.listOfSubscriptions(ctx, client.ListSubscriptionsParams{Limit: limit})
	}, func(x client.Subscription) string { return x.ID })
}

// newestRoute returns arg, or the id of the route of a source that was created last if arg is
// latest. Ids are ordered by their time; the list of routes is ordered by priority.
func (s *session) newestRoute(ctx context.Context, source, arg string) (string, error) {
	return latestID(arg, "routes of "+source, func(*int64, *string) (newest []client.Route, _ *string, _ error) {
		for r, err := range s.AllRoutes(ctx, s.tenant, source, client.ListRoutesParams{Limit: new(int64(maxPerPage))}) {
			if err != nil {
				return nil, nil, err
			}
			if len(newest) == 0 || r.ID > newest[0].ID {
				newest = []client.Route{r}
			}
		}
		return newest, nil, nil
	}, func(r client.Route) string { return r.ID })
}
