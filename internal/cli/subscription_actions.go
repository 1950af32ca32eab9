package cli

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/cli/input"
	"github.com/eventhook/eventhook/internal/cli/terminal"
)

func newSubscriptionRotate(r *remote) *cobra.Command {
	var secret input.Secrets
	var grace time.Duration
	cmd := r.subscriptionVerb("rotate-secret", "Rotate the signing secret; the previous secret also signs for a grace period", func(cmd *cobra.Command, s *session, id string) error {
		request := client.SecretRotation{GraceSeconds: new(int64(grace / time.Second))}
		if secret.Given() {
			text, err := secret.ReadOne(cmd.InOrStdin())
			if err != nil {
				return input.Usage(err)
			}
			request.SigningSecret = &text
		}
		done, err := s.rotateSecret(cmd.Context(), id, request)
		if err != nil {
			return err
		}
		return s.answer(func(io.Writer) error {
			if request.SigningSecret != nil {
				s.Say("The given secret signs now.")
			} else {
				s.Say("The new secret, which is shown only once:\n  %s", done.SigningSecret)
			}
			if done.PreviousExpiresAt == nil {
				s.Say("The previous secret does not sign any more.")
			} else {
				s.Say("The previous secret also signs until %s: configure the new secret at the receiver before that time.", terminal.Time(*done.PreviousExpiresAt))
			}
			return nil
		})
	})
	input.DurationVar(cmd.Flags(), &grace, "grace", 24*time.Hour, "how long the previous secret also signs")
	secret.AddTo(cmd.Flags())
	return cmd
}

func newSubscriptionTest(r *remote) *cobra.Command {
	cmd := r.subscriptionVerb("test", "Send a test event now and show the answer", func(cmd *cobra.Command, s *session, id string) error {
		x, err := callSubscription(cmd.Context(), s, id, (*client.Client).TestSubscription, (*client.Client).TestOperatorSubscription)
		if err != nil {
			return err
		}
		if err := s.answer(func(w io.Writer) error { return showTested(w, x) }); err != nil {
			return err
		}
		if !x.Delivered {
			return terminal.ErrPrinted
		}
		return nil
	})
	cmd.Long = cmd.Short + `. The event is sent
to this subscription only, and ignores its event types. The command fails unless
the answer is 2xx.`
	return cmd
}

func showTested(w io.Writer, x client.SubscriptionTested) error {
	verdict := "yes"
	if !x.Delivered {
		verdict = "no: " + textOf(x.Error)
	}
	return printFields(w, field{"delivered", verdict}, field{"status code", numberOr(x.StatusCode, "none")}, field{"duration", fmt.Sprintf("%d ms", x.DurationMs)},
		field{"response", textOf(x.ResponseExcerpt)}, field{"event", x.EventID}, field{"delivery", x.DeliveryID})
}

func newSubscriptionStats(r *remote) *cobra.Command {
	return r.subscriptionVerb("stats", "Show delivery statistics of a subscription", func(cmd *cobra.Command, s *session, id string) error {
		x, err := callSubscription(cmd.Context(), s, id, (*client.Client).GetSubscriptionStats,
			(*client.Client).GetOperatorSubscriptionStats)
		if err != nil {
			return err
		}
		return s.answer(func(w io.Writer) error { return showStats(w, x) })
	})
}

func showStats(w io.Writer, x client.SubscriptionStats) error {
	text := func(delivered, failed, dead int64) string {
		return fmt.Sprintf("%d delivered, %d failed attempts, %d dead", delivered, failed, dead)
	}
	return printFields(w, field{"last hour", text(x.DeliveredLastHour, x.FailedLastHour, x.DeadLastHour)},
		field{"last 24 hours", text(x.DeliveredLast24H, x.FailedLast24H, x.DeadLast24H)}, field{"mean duration", strconv.FormatFloat(x.MeanDurationMs, 'f', 1, 64) + " ms"},
		field{"waiting", strconv.FormatInt(x.Waiting, 10)}, field{"oldest waiting", timeOr(x.OldestWaitingAt, "")}, field{"dead in a row", strconv.FormatInt(x.DeadInRow, 10)})
}

func statusFlags(texts []string) (list []client.DeliveryStatus) {
	for _, text := range texts {
		list = append(list, client.DeliveryStatus(text))
	}
	return list
}

func newSubscriptionDeliveries(r *remote) *cobra.Command {
	var f listFlags
	var which deliveryFlags
	cmd := r.subscriptionVerb("deliveries", "List deliveries of a subscription, newest first", func(cmd *cobra.Command, s *session, id string) error {
		which.subscription = id
		return s.listDeliveries(cmd, &f, which)
	})
	which.addTo(cmd)
	f.addTo(cmd)
	return cmd
}
