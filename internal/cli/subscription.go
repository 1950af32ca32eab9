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
	r := &remote{version: version, ofTenant: true}
	return newNoun("subscription", "Say who gets a tenant's events, and see how that goes", `Say who gets a tenant's events, signed, and see how that goes. A subscription is
known by its name, where only one has it, or by its id.

  eventhook subscription create billing --url https://billing.example/hooks --type 'payment.*'
  eventhook subscription test billing              send a test event now
  eventhook subscription deliveries billing --status dead
  eventhook subscription replay billing --since 24h  send the dead ones again
  eventhook subscription rotate-secret billing     both secrets sign for a day`, r,
		newSubscriptionList(r), newSubscriptionGet(r), newSubscriptionCreate(r), newSubscriptionUpdate(r), newSubscriptionDelete(r),
		newSubscriptionTurn(r, "pause", "Have deliveries wait", (*client.Client).PauseSubscription),
		newSubscriptionTurn(r, "resume", "Send what waits, and go on", (*client.Client).ResumeSubscription),
		newSubscriptionTurn(r, "enable", "Make a subscription active again that was disabled", (*client.Client).EnableSubscription),
		newSubscriptionRotate(r), newSubscriptionPublicKey(r), newSubscriptionTest(r), newSubscriptionStats(r), newSubscriptionReplay(r), newSubscriptionDeliveries(r))
}

var subscriptionColumns = []column[client.Subscription]{
	{"NAME", func(x client.Subscription) string { return x.Name }},
	{"STATUS", func(x client.Subscription) string { return string(x.Status) }},
	{"URL", func(x client.Subscription) string { return x.URL }},
	{"EVENT TYPES", func(x client.Subscription) string { return strings.Join(x.EventTypes, ", ") }},
	{"SENT BY", sentBy},
	{"ID", func(x client.Subscription) string { return x.ID }},
}

// sentBy says who sends to a subscription.
func sentBy(x client.Subscription) string {
	if len(x.TargetLabels) == 0 {
		return "the gateway"
	}
	return "an agent with " + strings.Join(x.TargetLabels, ", ")
}

func newSubscriptionList(r *remote) *cobra.Command {
	var f listFlags
	cmd := r.verb("list", "List subscriptions, newest first", cobra.NoArgs, func(cmd *cobra.Command, s *session, _ []string) error {
		return printList(s, &f, func(limit *int64, cursor *string) ([]client.Subscription, *string, error) {
			p, err := s.ListSubscriptions(cmd.Context(), s.tenant, client.ListSubscriptionsParams{Limit: limit, Cursor: cursor}, s.keep())
			return p.Items, p.NextCursor, err
		}, subscriptionColumns)
	})
	f.addTo(cmd)
	return cmd
}

// isID reports whether a text has the form of an id.
func isID(s string) bool {
	const length, hyphens = 36, 4
	return len(s) == length && strings.Count(s, "-") == hyphens && strings.Trim(strings.ToLower(s), "0123456789abcdef-") == ""
}

// subscriptionID is the id of a subscription that is named, or given by its id.
func (s *session) subscriptionID(ctx context.Context, name string) (string, error) {
	if isID(name) {
		return name, nil
	}
	var ids []string
	for x, err := range s.AllSubscriptions(ctx, s.tenant, client.ListSubscriptionsParams{Limit: new(int64(mostPerPage))}) {
		if err != nil {
			return "", err
		}
		if x.Name == name {
			ids = append(ids, x.ID)
		}
	}
	switch len(ids) {
	case 0:
		return "", fmt.Errorf("there is no subscription %q; eventhook subscription list shows them", terminal.Printable(name))
	case 1:
		return ids[0], nil
	}
	return "", fmt.Errorf("%d subscriptions are called %q: say which by its id, such as %s", len(ids), terminal.Printable(name), ids[0])
}

// aboutOne is a command about the subscription that its argument names.
func (r *remote) aboutOne(verb, short string, run func(cmd *cobra.Command, s *session, id string) error) *cobra.Command {
	return r.verb(verb+" NAME", short, cobra.ExactArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
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
		signing += ", until " + terminal.Time(*x.RotationEndsAt)
	}
	fields := []field{{"name", x.Name}, {"id", x.ID}, {"status", string(x.Status)}, {"disabled because", textOf(x.DisabledReason)}, {"url", x.URL},
		{"event types", strings.Join(x.EventTypes, ", ")}, {"filter", inlineMap(x.Filter)}, {"sent by", sentBy(x)},
		{"authorization", textOf(x.AuthHeader)}, {"headers", inlineMap(x.Headers)}, {"signatures", strings.Join(x.Signatures, ", ")}, {"secrets", signing},
		{"retries", inline(x.Retry)}, {"timeout", fmt.Sprintf("%d s", x.TimeoutSeconds)}, {"disabled after", disabledAfter(x)},
		{"at once", strconv.FormatInt(x.MaxInFlight, 10)}, {"per second", atMost(x.RatePerSecond)}, {"updated", terminal.Time(x.UpdatedAt)}}
	for _, warning := range x.Warnings {
		fields = append(fields, field{"warning", "the url " + warning})
	}
	return printFields(w, fields...)
}

func disabledAfter(x client.Subscription) string {
	if x.DisableAfterFailures == 0 {
		return "never"
	}
	return fmt.Sprintf("%d deliveries dead in a row", x.DisableAfterFailures)
}

// atMost is a limit of which 0 is none.
func atMost(n int64) string {
	if n == 0 {
		return "any"
	}
	return strconv.FormatInt(n, 10)
}

func newSubscriptionGet(r *remote) *cobra.Command {
	return r.aboutOne("get", "Show a subscription; its secrets are never shown", func(cmd *cobra.Command, s *session, id string) error {
		return s.showSubscription(s.GetSubscription(cmd.Context(), s.tenant, id, s.keep()))
	})
}

func newSubscriptionPublicKey(r *remote) *cobra.Command {
	return r.aboutOne("public-key", "Print the key that verifies the signatures v1a", func(cmd *cobra.Command, s *session, id string) error {
		x, err := s.GetSubscriptionPublicKey(cmd.Context(), s.tenant, id, s.keep())
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
	return r.aboutOne("delete", "Delete a subscription, and send it nothing more", func(cmd *cobra.Command, s *session, id string) error {
		if err := s.DeleteSubscription(cmd.Context(), s.tenant, id, client.DeleteSubscriptionParams{}); err != nil {
			return err
		}
		s.Say("The subscription is deleted.")
		return nil
	})
}

// newSubscriptionTurn is a command that gives a subscription another status.
func newSubscriptionTurn(r *remote, verb, short string, turn func(c *client.Client, ctx context.Context, tenant, id string, options ...client.CallOption) (client.Subscription, error)) *cobra.Command {
	return r.aboutOne(verb, short, func(cmd *cobra.Command, s *session, id string) error {
		return s.showSubscription(turn(s.Client, cmd.Context(), s.tenant, id, s.keep()))
	})
}
