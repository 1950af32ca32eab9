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
	cmd := r.aboutOne("rotate-secret", "Sign with a new secret, and with the old one for a while", func(cmd *cobra.Command, s *session, id string) error {
		asked := client.SecretRotation{GraceSeconds: new(int64(grace / time.Second))}
		if secret.Given() {
			text, err := secret.ReadOne(cmd.InOrStdin())
			if err != nil {
				return input.Usage(err)
			}
			asked.SigningSecret = &text
		}
		done, err := s.RotateSubscriptionSecret(cmd.Context(), s.tenant, id, asked, s.keep())
		if err != nil {
			return err
		}
		return s.answer(func(io.Writer) error {
			s.Say("The new secret, which is not shown again:\n  %s", done.SigningSecret)
			if done.PreviousExpiresAt == nil {
				s.Say("The one before it does not sign any more.")
			} else {
				s.Say("The one before it signs, too, until %s: give the receiver the new one before then.", terminal.Time(*done.PreviousExpiresAt))
			}
			return nil
		})
	})
	cmd.Flags().DurationVar(&grace, "grace", 24*time.Hour, "for how long the one before it signs, too")
	secret.AddTo(cmd.Flags())
	return cmd
}

func newSubscriptionTest(r *remote) *cobra.Command {
	cmd := r.aboutOne("test", "Send a test event now, and tell what came of it", func(cmd *cobra.Command, s *session, id string) error {
		x, err := s.TestSubscription(cmd.Context(), s.tenant, id, s.keep())
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
	cmd.Long = cmd.Short + `. It goes to this
subscription alone, whatever its event types. It fails unless the answer is 2xx.`
	return cmd
}

func showTested(w io.Writer, x client.SubscriptionTested) error {
	verdict := "yes"
	if !x.Delivered {
		verdict = "no: " + textOf(x.Error)
	}
	return printFields(w, field{"delivered", verdict}, field{"answer", numberOr(x.StatusCode, "none")}, field{"took", fmt.Sprintf("%d ms", x.DurationMs)},
		field{"it said", textOf(x.ResponseExcerpt)}, field{"event", x.EventID}, field{"delivery", x.DeliveryID})
}

func newSubscriptionStats(r *remote) *cobra.Command {
	return r.aboutOne("stats", "Tell what a subscription has received lately, and what waits", func(cmd *cobra.Command, s *session, id string) error {
		x, err := s.GetSubscriptionStats(cmd.Context(), s.tenant, id, s.keep())
		if err != nil {
			return err
		}
		return s.answer(func(w io.Writer) error { return showStats(w, x) })
	})
}

func showStats(w io.Writer, x client.SubscriptionStats) error {
	told := func(delivered, failed, dead int64) string {
		return fmt.Sprintf("%d delivered, %d attempts failed, %d dead", delivered, failed, dead)
	}
	return printFields(w, field{"last hour", told(x.DeliveredLastHour, x.FailedLastHour, x.DeadLastHour)},
		field{"last 24 hours", told(x.DeliveredLast24H, x.FailedLast24H, x.DeadLast24H)}, field{"an attempt takes", strconv.FormatFloat(x.MeanDurationMs, 'f', 1, 64) + " ms"},
		field{"waiting", strconv.FormatInt(x.Waiting, 10)}, field{"the oldest since", momentOr(x.OldestWaitingAt, "")}, field{"dead in a row", strconv.FormatInt(x.DeadInRow, 10)})
}

func newSubscriptionReplay(r *remote) *cobra.Command {
	var span spanFlags
	var statuses []string
	var limit int64
	cmd := r.aboutOne("replay", "Send again what a subscription has missed since a time", func(cmd *cobra.Command, s *session, id string) error {
		since, until, err := span.bounds(time.Now())
		switch {
		case err != nil:
			return err
		case since == nil:
			return input.Usagef("since when? --since takes a time, or how long ago, such as 24h")
		}
		done, err := s.ReplaySubscription(cmd.Context(), s.tenant, id, client.SubscriptionReplay{Since: *since, Until: until, Status: statusFlags(statuses), Limit: &limit}, s.keep())
		if err != nil {
			return err
		}
		return s.answer(func(io.Writer) error {
			s.Say("Sent again: %d", done.ReplayedCount)
			if done.More {
				s.Say("That was the limit: repeat it for the rest.")
			}
			return nil
		})
	})
	span.addTo(cmd)
	cmd.Flags().StringSliceVar(&statuses, "status", nil, "dead, failed, success; dead by default, success sends again what was delivered")
	cmd.Flags().Int64Var(&limit, "limit", 1000, "how many at most, newest first")
	return cmd
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
	cmd := r.aboutOne("deliveries", "List what a subscription was sent, newest first", func(cmd *cobra.Command, s *session, id string) error {
		which.subscription = id
		return s.listDeliveries(cmd, &f, which)
	})
	which.addTo(cmd)
	f.addTo(cmd)
	return cmd
}
