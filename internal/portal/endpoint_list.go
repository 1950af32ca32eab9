package portal

import (
	"slices"

	"github.com/eventhook/eventhook/client"
)

var endpointPages = []page{
	{pattern: "GET /portal", template: "endpoints", handle: (*Portal).endpointList},
	{pattern: "GET /portal/{$}", handle: (*Portal).home},
	{pattern: "GET /portal/endpoints", handle: (*Portal).home},
	{pattern: "GET /portal/endpoints/{endpoint}", template: "endpoint", handle: (*Portal).endpointPage},
}

func (*Portal) home(*request) (view, error) { return redirect(Root, "") }

// endpointRow is an endpoint in the list.
type endpointRow struct {
	client.Subscription
	Health health
	Stats  client.SubscriptionStats
}

// endpointListPage is the data of the list of endpoints.
type endpointListPage struct {
	Endpoints []endpointRow
	Pager     pager
}

func (p *Portal) endpointList(r *request) (view, error) {
	const rows = 20
	found, next, err := r.endpoints(rows)
	if err != nil {
		return view{}, err
	}
	list := endpointListPage{Pager: r.pager(next)}
	for _, s := range found {
		stats, err := r.api.GetSubscriptionStats(r.Context(), r.tenant(), s.ID)
		if err != nil {
			return view{}, err
		}
		list.Endpoints = append(list.Endpoints, endpointRow{s, healthOf(s), stats})
	}
	return view{Title: "Endpoints", Data: list}, nil
}

// endpointDetail is the data of the page of an endpoint.
type endpointDetail struct {
	client.Subscription
	Health     health
	Stats      client.SubscriptionStats
	Deliveries []client.Delivery
	Strip      []client.Delivery // the latest deliveries, the oldest first
	Blanks     int               // cells of the strip that have no delivery
	Statuses   []deliveryState
	Filter     string // status of the listed deliveries; "" for all
	Missed     int64  // deliveries that an outage has held
	Pager      pager
	Replays    []client.Replay
	IsBusy     bool // the status changes by itself, a replay is running, or deliveries are in flight
}

func (p *Portal) endpointPage(r *request) (view, error) {
	data := endpointDetail{Subscription: r.endpoint, Health: healthOf(r.endpoint), Statuses: deliveryStates,
		Filter: r.URL.Query().Get("status")}
	if r.endpoint.MissedCount != nil {
		data.Missed = *r.endpoint.MissedCount
	}
	var err error
	if data.Stats, err = r.api.GetSubscriptionStats(r.Context(), r.tenant(), r.endpoint.ID); err != nil {
		return view{}, err
	}
	if err := p.readDeliveries(r, &data); err != nil {
		return view{}, err
	}
	const lastReplays = 5
	limit := int64(lastReplays)
	replays, err := r.api.ListReplays(r.Context(), r.tenant(), r.endpoint.ID, client.ListReplaysParams{Limit: &limit})
	if err != nil {
		return view{}, err
	}
	data.Replays = replays.Items
	data.IsBusy = data.Health.Kind == "running" || slices.ContainsFunc(data.Replays, func(x client.Replay) bool { return x.Status == client.ReplayStatusRunning }) ||
		data.Health.Kind == "ok" && slices.ContainsFunc(data.Deliveries, isOpen)
	return view{Title: r.endpoint.Name, Data: data}, nil
}

// readDeliveries reads a page of the deliveries, and the latest ones for the strip.
func (p *Portal) readDeliveries(r *request, data *endpointDetail) error {
	const rows, cells = 20, 50
	list := func(limit int64, status, cursor *string) (client.DeliveryPage, error) {
		params := client.ListSubscriptionDeliveriesParams{Limit: &limit, Cursor: cursor}
		if status != nil {
			s := client.DeliveryStatus(*status)
			params.Status = &s
		}
		return r.api.ListSubscriptionDeliveries(r.Context(), r.tenant(), r.endpoint.ID, params)
	}
	latest, err := list(cells, nil, nil)
	if err != nil {
		return err
	}
	data.Strip, data.Blanks = slices.Clone(latest.Items), cells-len(latest.Items)
	slices.Reverse(data.Strip)
	found, err := list(rows, r.filter("status"), r.filter("cursor"))
	if err != nil {
		return err
	}
	data.Deliveries, data.Pager = found.Items, r.pager(found.NextCursor)
	return nil
}

// isOpen reports whether a delivery is being sent or is about to be sent.
func isOpen(d client.Delivery) bool { return isOpenStatus(d.Status) }

func isOpenStatus(s client.DeliveryStatus) bool {
	return s == client.DeliveryStatusAcquired || s == client.DeliveryStatusPending
}
