package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/cli/terminal"
)

// topLists are the slowest and the failing receivers, and the failing sources. A latest page of all
// deliveries is a fraction of a second of a busy gateway, so the receivers come from pages of
// failed, dead, waiting and successful deliveries, and the numbers of subscriptions from the
// gateway's counters of the last hour.
type topLists struct {
	Slowest []topReceiver `json:"slowest_receivers"` // by the mean duration of attempts
	Failing []topReceiver `json:"failing_receivers"`
	Sources []topSource   `json:"failing_sources"`
	Error   string        `json:"error,omitempty"` // why the lists are missing
}

// topReceiver has the numbers of the last hour of a subscription, and those of the inspected pages
// for a route.
type topReceiver struct {
	Tenant      string  `json:"tenant"`
	Name        string  `json:"name"`
	Delivered   int     `json:"delivered"`
	Failed      int     `json:"failed"`       // attempts
	MeanSeconds float64 `json:"mean_seconds"` // of the attempts of a day; 0 for a route
	LastError   string  `json:"last_error,omitempty"`

	subscription string // id, or ""
}

type topSource struct {
	Tenant string `json:"tenant"`
	Source string `json:"source"`
	Failed int    `json:"failed"` // among the latest failed and the latest dead events
}

// topEntries is the length of each list, topPage the number of deliveries or events of a page of
// the API, and topStats the number of subscriptions whose counters are read.
const (
	topEntries = 5
	topPage    = 250
	topStats   = 20
)

// readTopLists asks the API of all tenants: six pages, and the counters of up to topStats
// subscriptions. It requires an admin or admin read key.
func readTopLists(ctx context.Context, c *client.Client) (lists topLists, err error) {
	var deliveries []client.DeliveryOfTenant
	for _, status := range []client.ListAllDeliveriesParamsStatus{"failed", "dead", "pending", "success"} {
		page, err := c.ListAllDeliveries(ctx, client.ListAllDeliveriesParams{Status: &status, Limit: new(int64(topPage))})
		if err != nil {
			return lists, err
		}
		deliveries = append(deliveries, page.Items...)
	}
	var events []client.EventOfTenant
	for _, status := range []client.ListAllEventsParamsStatus{"failed", "dead"} {
		page, err := c.ListAllEvents(ctx, client.ListAllEventsParams{Status: &status, Limit: new(int64(topPage))})
		if err != nil {
			return lists, err
		}
		events = append(events, page.Items...)
	}
	receivers := receiversOf(deliveries)
	readStats(ctx, c, receivers)
	lists.Slowest = first(receivers, func(r topReceiver) float64 { return r.MeanSeconds })
	lists.Failing = first(receivers, func(r topReceiver) float64 { return float64(r.Failed) })
	lists.Sources = first(sourcesOf(events), func(s topSource) float64 { return float64(s.Failed) })
	return lists, nil
}

// readStats replaces the numbers of the first topStats subscriptions by those of the gateway's
// counters. A subscription that was deleted meanwhile, or that is an operator's, keeps its numbers.
func readStats(ctx context.Context, c *client.Client, receivers []topReceiver) {
	read := 0
	for i := range receivers {
		r := &receivers[i]
		if r.subscription == "" || read == topStats {
			continue
		}
		read++
		stats, err := c.GetSubscriptionStats(ctx, r.Tenant, r.subscription)
		if err != nil {
			continue
		}
		r.Delivered, r.Failed = int(stats.DeliveredLastHour), int(stats.FailedLastHour)
		r.MeanSeconds = stats.MeanDurationMs / 1e3 //nolint:mnd // milliseconds
	}
}

// first returns the entries with the largest values above zero, the largest first.
func first[T any](list []T, value func(T) float64) []T {
	list = slices.DeleteFunc(slices.Clone(list), func(x T) bool { return value(x) <= 0 })
	slices.SortStableFunc(list, func(a, b T) int { return cmp.Compare(value(b), value(a)) })
	return list[:min(len(list), topEntries)]
}

// receiversOf returns the receivers of deliveries, in the order of the deliveries.
func receiversOf(deliveries []client.DeliveryOfTenant) (list []topReceiver) {
	index := map[[2]string]int{}
	for _, d := range deliveries {
		name := "route " + deref(d.RouteID)
		if d.SubscriptionID != nil {
			name = cmp.Or(deref(d.SubscriptionName), *d.SubscriptionID)
		}
		key := [2]string{d.Tenant, name}
		i, ok := index[key]
		if !ok {
			i, index[key] = len(list), len(list)
			list = append(list, topReceiver{Tenant: d.Tenant, Name: name, subscription: deref(d.SubscriptionID)})
		}
		list[i].add(d)
	}
	return list
}

func (r *topReceiver) add(d client.DeliveryOfTenant) {
	switch d.Status {
	case "failed", "dead":
		r.Failed++
		r.LastError = cmp.Or(r.LastError, deref(d.LastError))
	case "success":
		r.Delivered++
	case "acquired", "pending": // not ended
	}
}

func sourcesOf(events []client.EventOfTenant) (list []topSource) {
	index := map[[2]string]int{}
	for _, e := range events {
		if e.Source == nil {
			continue
		}
		key := [2]string{e.Tenant, *e.Source}
		i, ok := index[key]
		if !ok {
			i, index[key] = len(list), len(list)
			list = append(list, topSource{Tenant: e.Tenant, Source: *e.Source})
		}
		list[i].Failed++
	}
	return list
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func (l *topLists) write(w io.Writer) {
	if l.Error != "" {
		_, _ = fmt.Fprintf(w, "\nreceivers and sources: %s\n", terminal.Quote(l.Error))
		return
	}
	const maxName, maxError = 40, 60
	_, _ = fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "SLOWEST RECEIVERS\tTENANT\tMEAN\tDELIVERED IN 1H")
	for _, r := range l.Slowest {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%d\n", terminal.Cell(r.Name, maxName), r.Tenant, seconds(r.MeanSeconds), r.Delivered)
	}
	_, _ = fmt.Fprintln(table, "FAILING RECEIVERS\tTENANT\tFAILED IN 1H\tDELIVERED IN 1H\tLAST ERROR")
	for _, r := range l.Failing {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%s\n", terminal.Cell(r.Name, maxName), r.Tenant, r.Failed, r.Delivered, terminal.Cell(r.LastError, maxError))
	}
	_, _ = fmt.Fprintln(table, "FAILING SOURCES\tTENANT\tRECENT FAILED EVENTS")
	for _, s := range l.Sources {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%d\n", terminal.Cell(s.Source, maxName), s.Tenant, s.Failed)
	}
	_ = table.Flush()
}
