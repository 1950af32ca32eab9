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

// retryFlags select deliveries that failed or are dead.
type retryFlags struct {
	subscription, route, event string
	statuses                   []string
	limit                      int64
	spanFlags
}

func newDeliveryRetry(r *remote) *cobra.Command {
	var f retryFlags
	cmd := r.verb("retry [ID]", "Send deliveries again now", cobra.MaximumNArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		if err := f.check(args); err != nil {
			return err
		}
		if len(args) > 0 {
			return s.showDelivery(s.RetryDelivery(cmd.Context(), s.tenant, args[0], s.keep()))
		}
		which, err := f.selection(cmd.Context(), s)
		if err != nil {
			return err
		}
		done, err := s.RetryDeliveries(cmd.Context(), s.tenant, which, s.keep())
		if err != nil {
			return err
		}
		return s.answer(func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "Sent again: %d\n", done.RetriedCount)
			return err
		})
	})
	cmd.Long = cmd.Short + `, with all their retries before them: one by its id,
whether or not it was delivered, or those that failed or are dead by what they
have in common.`
	flags := cmd.Flags()
	flags.StringVar(&f.subscription, "subscription", "", "to one subscription, by its name or id")
	flags.StringVar(&f.route, "route", "", "to the http targets of one route, by its id")
	flags.StringVar(&f.event, "event", "", "of one event, by its id")
	flags.StringSliceVar(&f.statuses, "status", nil, "failed, dead; both by default")
	flags.Int64Var(&f.limit, "limit", 0, "how many at most; needed without an id")
	f.addTo(cmd)
	return cmd
}

func (f *retryFlags) check(args []string) error {
	selects := f.subscription != "" || f.route != "" || f.event != "" || len(f.statuses) > 0 || f.since != "" || f.until != "" || f.limit != 0
	switch {
	case len(args) > 0 && selects:
		return input.Usagef("an id, or flags that select: not both")
	case len(args) == 0 && f.limit == 0:
		return input.Usagef("which deliveries? Give an id, or --limit with --subscription, --route, --event, --status, --since or --until")
	}
	return nil
}

func (f *retryFlags) selection(ctx context.Context, s *session) (client.DeliveriesRetry, error) {
	since, until, err := f.bounds(time.Now())
	if err != nil {
		return client.DeliveriesRetry{}, err
	}
	subscription, err := s.subscriptionFlag(ctx, f.subscription)
	return client.DeliveriesRetry{Limit: f.limit, Filter: client.DeliveriesRetryFilter{SubscriptionID: optionalFlag(subscription), RouteID: optionalFlag(f.route),
		EventID: optionalFlag(f.event), Status: statusFlags(f.statuses), CreatedAfter: since, CreatedBefore: until}}, err
}
