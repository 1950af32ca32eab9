package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/cli/input"
)

// retryFlags select failed and dead deliveries.
type retryFlags struct {
	subscription, route, event string
	statuses                   []string
	limit                      int64
	spanFlags
	expectFlag
}

func newDeliveryRetry(r *remote) *cobra.Command {
	var f retryFlags
	cmd := r.verb("retry [ID|latest]", "Retry deliveries now", cobra.MaximumNArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		if err := f.check(args); err != nil {
			return err
		}
		if len(args) > 0 {
			id, err := s.deliveryID(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return s.showDelivery(s.RetryDelivery(cmd.Context(), s.tenant, id, s.keepBody()))
		}
		which, err := f.selection(cmd.Context(), s)
		if err != nil {
			return err
		}
		done, err := s.RetryDeliveries(cmd.Context(), s.tenant, which, s.keepBody())
		if err != nil {
			return err
		}
		return s.answer(func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "Retried: %d\n", done.RetriedCount)
			return err
		})
	})
	cmd.Long = cmd.Short + `: one delivery by its id, or the latest, whether or not it
was delivered, or the failed and dead deliveries that the flags select. The number
of automatic retries starts again at zero.`
	flags := cmd.Flags()
	flags.StringVar(&f.subscription, "subscription", "", "name or id of a subscription")
	flags.StringVar(&f.route, "route", "", "id of a route, for deliveries to its targets")
	flags.StringVar(&f.event, "event", "", "id of an event, or latest for the newest webhook")
	flags.StringSliceVar(&f.statuses, "status", nil, "status: failed, dead; both by default")
	flags.Int64Var(&f.limit, "limit", 0, "maximum number of deliveries; required without an id")
	f.spanFlags.addTo(flags, "published")
	f.expectFlag.addTo(cmd)
	return cmd
}

// check fails unless either an id or a limit is given.
func (f *retryFlags) check(args []string) error {
	selects := f.subscription != "" || f.route != "" || f.event != "" || len(f.statuses) > 0 || f.since != "" || f.until != "" ||
		f.limit != 0 || f.expect != noExpectation
	switch {
	case len(args) > 0 && selects:
		return input.Usagef("an id cannot be combined with --subscription, --route, --event, --status, --since, --until, --limit or --expect")
	case len(args) == 0 && f.limit == 0:
		return input.Usagef("deliveries are required: give an id, or --limit with --subscription, --route, --event, --status, --since or --until")
	}
	return nil
}

// selection returns the body of the request.
func (f *retryFlags) selection(ctx context.Context, s *session) (client.DeliveriesRetry, error) {
	since, until, err := f.bounds(time.Now())
	if err != nil {
		return client.DeliveriesRetry{}, err
	}
	subscription, err := s.subscriptionFlag(ctx, f.subscription)
	if err != nil {
		return client.DeliveriesRetry{}, err
	}
	event, err := s.eventID(ctx, f.event, "")
	return client.DeliveriesRetry{Limit: f.limit, ExpectedCount: f.count(),
		Filter: client.DeliveriesRetryFilter{SubscriptionID: optionalFlag(subscription), RouteID: optionalFlag(f.route),
			EventID: optionalFlag(event), Status: statusFlags(f.statuses), CreatedAfter: since, CreatedBefore: until}}, err
}
