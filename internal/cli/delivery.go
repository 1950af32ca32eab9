package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/cli/input"
	"github.com/eventhook/eventhook/internal/cli/terminal"
)

func newDelivery(version string) *cobra.Command {
	r := &remote{version: version, ofTenant: true}
	return newNoun("delivery", "List, show and retry deliveries to subscriptions and targets of routes", `List, show and retry deliveries to subscriptions and to targets of routes.

  eventhook delivery list --status dead --since 24h
  eventhook delivery get 0199…                   show each attempt and its answer
  eventhook delivery get latest --wait success   wait until it is delivered
  eventhook delivery retry 0199…                 retry it now
  eventhook delivery retry --subscription billing --status dead --limit 100`, r,
		newDeliveryList(r), newDeliveryGet(r), newDeliveryRetry(r))
}

var deliveryColumns = []column[client.Delivery]{
	{"ID", func(d client.Delivery) string { return d.ID }},
	{"PUBLISHED", func(d client.Delivery) string { return terminal.Time(d.CreatedAt) }},
	{"EVENT TYPE", func(d client.Delivery) string { return d.EventType }},
	{"TO", deliveredTo},
	{"STATUS", func(d client.Delivery) string { return string(d.Status) }},
	{"ATTEMPTS", func(d client.Delivery) string { return strconv.FormatInt(d.AttemptCount, 10) }},
	{"STATUS CODE", func(d client.Delivery) string { return numberOr(d.StatusCode, "") }},
	{"NEXT ATTEMPT", func(d client.Delivery) string { return timeOr(d.NextAttemptAt, "") }},
	{"LAST ERROR", func(d client.Delivery) string { return textOf(d.LastError) }},
}

// deliveredTo returns the name of the destination of a delivery.
func deliveredTo(d client.Delivery) string {
	return destinationName(d.SubscriptionName, d.TargetIndex)
}

// destinationName returns the name of a subscription or, if target is not nil, the
// number of a route's target.
func destinationName(subscription *string, target *int64) string {
	if target != nil {
		return fmt.Sprintf("route's target %d", *target+1)
	}
	return cmp.Or(textOf(subscription), "a deleted subscription")
}

// deliveryFlags filter a list of deliveries.
type deliveryFlags struct {
	subscription, route, event, status, eventType string
	spanFlags
}

func (f *deliveryFlags) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.status, "status", "", "status: pending, acquired, success, failed or dead")
	cmd.Flags().StringVar(&f.event, "event", "", "id of an event, or latest for the newest webhook")
	cmd.Flags().StringVar(&f.eventType, "type", "", "event type, or a pattern such as 'payment.*'")
	f.spanFlags.addTo(cmd.Flags(), "published")
}

// listDeliveries prints the deliveries that which selects. which.subscription is an
// id, or "".
func (s *session) listDeliveries(cmd *cobra.Command, f *listFlags, which deliveryFlags) error {
	since, until, err := which.bounds(time.Now())
	isOfTenants := s.isOperator || isOfAllTenants(cmd)
	switch {
	case err != nil:
		return err
	case isOfTenants && which.event == latest:
		return input.Usagef("--event %s requires a tenant: give the id of an event", latest)
	}
	if which.event, err = s.eventID(cmd.Context(), which.event, ""); err != nil {
		return err
	}
	params := client.ListDeliveriesParams{SubscriptionID: optionalFlag(which.subscription), RouteID: optionalFlag(which.route),
		EventID: optionalFlag(which.event), Status: optionalFlag(client.DeliveryStatus(which.status)),
		EventType: optionalFlag(which.eventType), CreatedAfter: since, CreatedBefore: until}
	if isOfTenants {
		return s.listDeliveriesOfTenants(cmd, f, params)
	}
	return printList(s, f, func(limit *int64, cursor *string) ([]client.Delivery, *string, error) {
		params.Limit, params.Cursor = limit, cursor
		p, err := s.ListDeliveries(cmd.Context(), s.tenant, params, s.keepBody())
		return p.Items, p.NextCursor, err
	}, deliveryColumns)
}

func newDeliveryList(r *remote) *cobra.Command {
	var f listFlags
	var which deliveryFlags
	cmd := r.verb("list", "List deliveries, newest events first", cobra.NoArgs, func(cmd *cobra.Command, s *session, _ []string) (err error) {
		which := which
		if isOfAllTenants(cmd) && which.subscription != "" && !isID(which.subscription) {
			return input.Usagef("--all-tenants requires the id of the subscription, since tenants choose names")
		}
		if which.subscription, err = s.subscriptionFlag(cmd.Context(), which.subscription); err != nil {
			return err
		}
		return s.listDeliveries(cmd, &f, which)
	})
	cmd.Flags().StringVar(&which.subscription, "subscription", "", "name or id of a subscription")
	cmd.Flags().StringVar(&which.route, "route", "", "id of a route, for deliveries to its targets")
	which.addTo(cmd)
	f.addTo(cmd)
	addAllTenants(cmd)
	return cmd
}

// subscriptionFlag returns the id of the subscription that a flag names, "" if the
// flag is empty.
func (s *session) subscriptionFlag(ctx context.Context, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	return s.subscriptionID(ctx, name)
}

var attemptColumns = []column[client.DeliveryAttempt]{
	{"STARTED", func(a client.DeliveryAttempt) string {
		return a.StartedAt.UTC().Format("2006-01-02T15:04:05.000Z07:00")
	}},
	{"DURATION", func(a client.DeliveryAttempt) string { return fmt.Sprintf("%d ms", a.DurationMs) }},
	{"STATUS CODE", func(a client.DeliveryAttempt) string { return numberOr(a.StatusCode, "") }},
	{"ERROR CLASS", func(a client.DeliveryAttempt) string { return textOf(a.ErrorClass) }},
	{"ERROR", func(a client.DeliveryAttempt) string { return textOf(a.Error) }},
	{"RESPONSE", func(a client.DeliveryAttempt) string { return textOf(a.ResponseExcerpt) }},
}

var deliveryStatuses = []string{"pending", "acquired", "success", "failed", "dead"}

func newDeliveryGet(r *remote) *cobra.Command {
	var until string
	cmd := r.verb("get ID|latest", "Show a delivery with each attempt", cobra.ExactArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		if until != "" && !slices.Contains(deliveryStatuses, until) {
			return input.Usagef("--wait %q, want one of %s", until, strings.Join(deliveryStatuses, ", "))
		}
		id, err := s.deliveryID(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		d, err := s.readDelivery(cmd.Context(), id, client.DeliveryStatus(until))
		if err := s.showDelivery(d, err); err != nil {
			return err
		}
		if until != "" && string(d.Status) != until {
			return fmt.Errorf("the delivery is %s, not %s", d.Status, until)
		}
		return nil
	})
	cmd.Flags().StringVar(&until, "wait", "", "wait up to 30 s for this status; success and dead also end the wait; fail if the status differs")
	return cmd
}

// readDelivery reads a delivery. If until is not empty, readDelivery polls until the
// delivery has this status or a final one, for at most 30 seconds.
func (s *session) readDelivery(ctx context.Context, id string, until client.DeliveryStatus) (client.DeliveryDetail, error) {
	const maxWait, interval = 30 * time.Second, 100 * time.Millisecond
	timeout := time.After(maxWait)
	for {
		d, err := s.GetDelivery(ctx, s.tenant, id, s.keepBody())
		if err != nil || until == "" || d.Status == until || d.Status == client.DeliveryStatusSuccess || d.Status == client.DeliveryStatusDead {
			return d, err
		}
		select {
		case <-ctx.Done():
			return d, ctx.Err()
		case <-timeout:
			return d, nil
		case <-time.After(interval):
		}
	}
}

func (s *session) showDelivery(d client.DeliveryDetail, err error) error {
	if err != nil {
		return err
	}
	return s.answer(func(w io.Writer) error {
		err := printFields(w, field{"delivery", d.ID}, field{"event", d.EventID}, field{"event type", d.EventType},
			field{"to", destinationName(d.SubscriptionName, d.TargetIndex)}, field{"subscription", textOf(d.SubscriptionID)}, field{"route", textOf(d.RouteID)},
			field{"status", string(d.Status)}, field{"published", terminal.Time(d.CreatedAt)}, field{"next attempt", timeOr(d.NextAttemptAt, "")},
			field{"sent by", textOf(d.AcquiredBy)}, field{"sent until", timeOr(d.AcquiredUntil, "")},
			field{"completed", timeOr(d.CompletedAt, "")}, field{"attempts", strconv.FormatInt(d.AttemptCount, 10)}, field{"last error", textOf(d.LastError)})
		if err != nil || len(d.Attempts) == 0 {
			return err
		}
		_, _ = fmt.Fprintln(w)
		return printTable(w, attemptColumns, d.Attempts, false)
	})
}
