package cli

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/cli/input"
)

// statusCalls are the calls that change the status of one subscription, or of several ones of a
// tenant.
type statusCalls struct {
	ofTenant   tenantCall[client.Subscription]
	ofOperator operatorCall[client.Subscription]
	several    func(c *client.Client, ctx context.Context, tenant string, body client.SubscriptionsBulk,
		options ...client.CallOption) (client.SubscriptionsChanged, error)
}

// bulkFlags select several subscriptions.
type bulkFlags struct {
	all               bool
	status, eventType string
	limit             int64
	expectFlag
}

// expectFlag is the flag for the expected number of matches.
type expectFlag struct{ expect int64 }

const noExpectation = -1

func (f *expectFlag) addTo(cmd *cobra.Command) {
	f.define(cmd, "number that must match, regardless of --limit; otherwise nothing is changed")
}

// define defines the flag for a command to which the text of addTo does not apply.
func (f *expectFlag) define(cmd *cobra.Command, usage string) {
	cmd.Flags().Int64Var(&f.expect, "expect", noExpectation, usage)
}

// count returns the expected number, or nil.
func (f *expectFlag) count() *int64 {
	if f.expect == noExpectation {
		return nil
	}
	return &f.expect
}

// newSubscriptionAction returns a command that changes the status of one subscription, or of
// all subscriptions that flags select.
func newSubscriptionAction(r *remote, verb, short string, calls statusCalls) *cobra.Command {
	var f bulkFlags
	cmd := r.verb(verb+" [NAME|latest]", short, cobra.MaximumNArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		if err := f.check(args, s.isOperator); err != nil {
			return err
		}
		if len(args) > 0 {
			id, err := s.subscriptionID(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return s.showSubscription(callSubscription(cmd.Context(), s, id, calls.ofTenant, calls.ofOperator))
		}
		done, err := calls.several(s.Client, cmd.Context(), s.tenant, f.selection(), s.keepBody())
		if err != nil {
			return err
		}
		return s.answer(func(io.Writer) error {
			s.Say("Changed: %d of %d", done.ChangedCount, done.MatchedCount)
			return nil
		})
	})
	cmd.Long = short + `.
Without NAME, the command changes all subscriptions that --all, --status or --type
selects, in one transaction.`
	flags := cmd.Flags()
	flags.BoolVar(&f.all, "all", false, "all subscriptions")
	flags.StringVar(&f.status, "status", "", "status: active, paused or disabled")
	flags.StringVar(&f.eventType, "type", "", "subscriptions to this event type, or to a pattern such as 'payment.*'")
	flags.Int64Var(&f.limit, "limit", 1000, "maximum number of subscriptions, oldest first")
	f.addTo(cmd)
	return cmd
}

// check fails unless either a name or a selection is given.
func (f *bulkFlags) check(args []string, isOperator bool) error {
	selects := f.all || f.status != "" || f.eventType != ""
	switch {
	case len(args) > 0 && (selects || f.expect != noExpectation):
		return input.Usagef("a name cannot be combined with --all, --status, --type or --expect")
	case len(args) == 0 && isOperator:
		return input.Usagef("--operator requires the name or id of one subscription")
	case len(args) == 0 && !selects:
		return input.Usagef("a subscription is required: give its name or id, or select several with --all, --status or --type")
	}
	return nil
}

func (f *bulkFlags) selection() client.SubscriptionsBulk {
	filter := client.SubscriptionsBulkFilter{EventType: optionalFlag(f.eventType)}
	if f.status != "" {
		filter.Status = []client.SubscriptionStatus{client.SubscriptionStatus(strings.ToLower(f.status))}
	}
	return client.SubscriptionsBulk{Limit: &f.limit, ExpectedCount: f.count(), Filter: filter}
}
