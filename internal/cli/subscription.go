package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/cli/terminal"
)

func newSubscription(version string) *cobra.Command {
	r := &remote{version: version, ofTenant: true, takesOperator: true}
	return newNoun("subscription", "Create, list, update, pause, resume, replay and delete subscriptions", `Create, list, update, test, pause, resume, replay and delete subscriptions, and rotate
their secrets. A subscription delivers events of a tenant to a URL, signed. NAME is
the id of a subscription, or its name if the name is unique.

  eventhook subscription create billing --url https://billing.example/hooks --type 'payment.*'
  eventhook subscription test billing              send a test event now
  eventhook subscription deliveries billing --status dead
  eventhook subscription replay billing --since 24h  send its dead deliveries again
  eventhook subscription replay billing --since 24h --missing  also events that it never got
  eventhook subscription rotate-secret billing     rotate; both secrets sign for a day
  eventhook subscription list --operator           the operator subscriptions`, r,
		newSubscriptionList(r), newSubscriptionGet(r), newSubscriptionCreate(r), newSubscriptionUpdate(r), newSubscriptionDelete(r),
		newSubscriptionAction(r, "pause", "Pause a subscription; its deliveries wait until resume",
			statusCalls{(*client.Client).PauseSubscription, (*client.Client).PauseOperatorSubscription,
				(*client.Client).PauseSubscriptions}),
		newSubscriptionAction(r, "resume", "Resume a subscription and send the waiting deliveries",
			statusCalls{(*client.Client).ResumeSubscription, (*client.Client).ResumeOperatorSubscription,
				(*client.Client).ResumeSubscriptions}),
		newSubscriptionAction(r, "enable", "Enable a subscription that was disabled",
			statusCalls{(*client.Client).EnableSubscription, (*client.Client).EnableOperatorSubscription,
				(*client.Client).EnableSubscriptions}),
		newSubscriptionAction(r, "disable", "Disable a subscription: nothing is stored for it until it is enabled",
			statusCalls{(*client.Client).DisableSubscription, (*client.Client).DisableOperatorSubscription,
				(*client.Client).DisableSubscriptions}),
		newSubscriptionRotate(r), newSubscriptionPublicKey(r), newSubscriptionTest(r), newSubscriptionStats(r),
		newSubscriptionReplay(r), newSubscriptionReplays(r), newSubscriptionReplayCancel(r), newSubscriptionDeliveries(r))
}

var subscriptionColumns = []column[client.Subscription]{
	{"NAME", func(x client.Subscription) string { return x.Name }},
	{"STATUS", func(x client.Subscription) string { return string(x.Status) }},
	{"URL", func(x client.Subscription) string { return x.URL }},
	{"EVENT TYPES", func(x client.Subscription) string { return strings.Join(x.EventTypes, ", ") }},
	{"SENT BY", sentBy},
	{"ID", func(x client.Subscription) string { return x.ID }},
}

// sentBy returns the sender of the deliveries of a subscription.
func sentBy(x client.Subscription) string {
	if len(x.TargetLabels) == 0 {
		return "gateway"
	}
	return "agents with " + strings.Join(x.TargetLabels, ", ")
}

func newSubscriptionList(r *remote) *cobra.Command {
	var f listFlags
	var status, eventType string
	cmd := r.verb("list", "List subscriptions, newest first", cobra.NoArgs, func(cmd *cobra.Command, s *session, _ []string) error {
		params := client.ListSubscriptionsParams{Status: optionalFlag(client.ListSubscriptionsParamsStatus(status)),
			EventType: optionalFlag(eventType)}
		if isOfAllTenants(cmd) {
			return s.listAllSubscriptions(cmd, &f, params)
		}
		return printList(s, &f, func(limit *int64, cursor *string) ([]client.Subscription, *string, error) {
			params.Limit, params.Cursor = limit, cursor
			return s.listOfSubscriptions(cmd.Context(), params)
		}, subscriptionColumns)
	})
	cmd.Flags().StringVar(&status, "status", "", "status: active, paused or disabled")
	cmd.Flags().StringVar(&eventType, "type", "", "subscriptions to this event type, or to a pattern such as 'payment.*'")
	f.addTo(cmd)
	addAllTenants(cmd)
	return cmd
}

// isID reports whether a text has the form of an id.
func isID(s string) bool {
	const length, hyphens = 36, 4
	return len(s) == length && strings.Count(s, "-") == hyphens && strings.Trim(strings.ToLower(s), "0123456789abcdef-") == ""
}

// subscriptionID returns the id of the subscription with this name or id, or of the newest one
// for latest. It fails if
// several subscriptions have the name.
func (s *session) subscriptionID(ctx context.Context, name string) (string, error) {
	if isID(name) || name == latest {
		return s.newestSubscription(ctx, name)
	}
	var ids []string
	for page := (client.ListSubscriptionsParams{Limit: new(int64(maxPerPage))}); ; {
		list, next, err := s.listOfSubscriptions(ctx, page)
		if err != nil {
			return "", err
		}
		for _, x := range list {
			if x.Name == name {
				ids = append(ids, x.ID)
			}
		}
		if page.Cursor = next; next == nil {
			break
		}
	}
	switch len(ids) {
	case 0:
		return "", fmt.Errorf("there is no subscription %q; %s shows all subscriptions", terminal.Printable(name),
			s.withOperator("eventhook subscription list"))
	case 1:
		return ids[0], nil
	}
	return "", fmt.Errorf("%d subscriptions have the name %q: use an id, such as %s", len(ids), terminal.Printable(name), ids[0])
}

// subscriptionVerb returns a command for the subscription that its argument names.
func (r *remote) subscriptionVerb(verb, short string, run func(cmd *cobra.Command, s *session, id string) error) *cobra.Command {
	return r.verb(verb+" NAME|latest", short, cobra.ExactArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		id, err := s.subscriptionID(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return run(cmd, s, id)
	})
}

func (s *session) showSubscription(x client.Subscription, err error) error {
	if err != nil {
		return err
	}
	return s.answer(func(w io.Writer) error { return printSubscription(w, x) })
}

func printSubscription(w io.Writer, x client.Subscription) error {
	signing := strconv.FormatInt(x.SigningSecretsCount, 10)
	if x.RotationEndsAt != nil {
		signing += "; the previous one signs until " + terminal.Time(*x.RotationEndsAt)
	}
	fields := []field{{"name", x.Name}, {"id", x.ID}, {"status", string(x.Status)}, {"disabled reason", textOf(x.DisabledReason)},
		{"circuit", circuitText(x)}, {"missed", missedText(x)}, {"url", x.URL},
		{"events of", eventsOfText(x)}, {"event types", strings.Join(x.EventTypes, ", ")}, {"filter", inlineMap(x.Filter)},
		{"sent by", sentBy(x)},
		{"authorization", textOf(x.AuthHeader)}, {"auth", authText(x.Auth)}, {"headers", inlineMap(x.Headers)},
		{"signatures", strings.Join(x.Signatures, ", ")}, {"secrets", signing},
		{"retries", inline(x.Retry)}, {"timeout", fmt.Sprintf("%d s", x.TimeoutSeconds)}, {"disabled after", disabledAfter(x)},
		{"max in flight", strconv.FormatInt(x.MaxInFlight, 10)}, {"per second", limitText(x.RatePerSecond)}, {"updated", terminal.Time(x.UpdatedAt)}}
	for _, warning := range x.Warnings {
		fields = append(fields, field{"warning", warning})
	}
	return printFields(w, fields...)
}

// eventsOfText names the tenants whose events an operator subscription receives; "" for a
// tenant's subscription.
func eventsOfText(x client.Subscription) string {
	switch {
	case x.IsOperator == nil || !*x.IsOperator:
		return ""
	case len(x.Tenants) == 0:
		return "all tenants"
	}
	return strings.Join(x.Tenants, ", ")
}

// authText describes how the gateway authenticates, without secrets; "" without auth.
func authText(a *client.Auth) string {
	if a == nil {
		return ""
	}
	switch a.Type {
	case client.AuthTypeBasic:
		return "basic as " + textOf(a.Username)
	case client.AuthTypeOauth2:
		return "oauth2 as " + textOf(a.ClientID) + " with tokens from " + textOf(a.TokenURL)
	case client.AuthTypeAwsSigv4:
		return "aws_sigv4 as " + textOf(a.AccessKeyID) + " for " + textOf(a.Service) + " in " + textOf(a.Region)
	default:
		return string(a.Type)
	}
}

// circuitText describes the circuit breaker; "" in lists.
func circuitText(x client.Subscription) string {
	switch c := x.Circuit; {
	case c == nil:
		return ""
	case c.NextProbeAt == nil:
		return string(c.State)
	default:
		return string(c.State) + "; next probe " + terminal.Time(*c.NextProbeAt)
	}
}

// missedText describes the missed deliveries and the running recovery; "" if none was missed.
func missedText(x client.Subscription) string {
	text := ""
	if n := x.MissedCount; n != nil && *n > 0 {
		text = fmt.Sprintf("%d deliveries", *n)
	}
	if r := x.Recovery.Running; r != nil {
		text += fmt.Sprintf("; recovery has sent %d of %d, %d failed", r.Sent, r.Queued, r.Failed)
	}
	return strings.TrimPrefix(text, "; ")
}

func disabledAfter(x client.Subscription) string {
	if x.DisableAfterFailures == 0 {
		return "never"
	}
	return fmt.Sprintf("%d dead deliveries in a row", x.DisableAfterFailures)
}

// limitText returns a limit; 0 means unlimited.
func limitText(n int64) string {
	if n == 0 {
		return "unlimited"
	}
	return strconv.FormatInt(n, 10)
}

func newSubscriptionGet(r *remote) *cobra.Command {
	return r.subscriptionVerb("get", "Show a subscription; its secrets are never shown", func(cmd *cobra.Command, s *session, id string) error {
		return s.showSubscription(callSubscription(cmd.Context(), s, id, (*client.Client).GetSubscription,
			(*client.Client).GetOperatorSubscription))
	})
}

func newSubscriptionPublicKey(r *remote) *cobra.Command {
	return r.subscriptionVerb("public-key", "Print the public key for v1a signatures", func(cmd *cobra.Command, s *session, id string) error {
		x, err := callSubscription(cmd.Context(), s, id, (*client.Client).GetSubscriptionPublicKey,
			(*client.Client).GetOperatorSubscriptionPublicKey)
		if err != nil {
			return err
		}
		return s.answer(func(w io.Writer) error {
			_, err := fmt.Fprintln(w, x.PublicKey)
			return err
		})
	})
}

func newSubscriptionDelete(r *remote) *cobra.Command {
	return deletes("subscription", r.subscriptionVerb("delete", "Delete a subscription; its open deliveries are not sent",
		func(cmd *cobra.Command, s *session, id string) error {
			if err := s.deleteSubscription(cmd.Context(), id); err != nil {
				return err
			}
			s.Say("The subscription is deleted.")
			return nil
		}))
}
