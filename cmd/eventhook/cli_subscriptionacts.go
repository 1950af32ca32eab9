package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/client"
)

func newSubscriptionRotate(r *remote) *cobra.Command {
	var secret secretFlags
	var grace time.Duration
	cmd := r.aboutOne("rotate-secret", "Sign with a new secret, and with the old one for a while", func(cmd *cobra.Command, s *session, id string) error {
		asked := client.SecretRotation{GraceSeconds: new(int64(grace / time.Second))}
		if secret.given() {
			text, err := secret.one(cmd.InOrStdin())
			if err != nil {
				return usageError{err}
			}
			asked.SigningSecret = &text
		}
		done, err := s.RotateSubscriptionSecret(cmd.Context(), s.tenant, id, asked, s.keep())
		if err != nil {
			return err
		}
		return s.answer(func(io.Writer) error {
			s.say("The new secret, which is not shown again:\n  %s", done.SigningSecret)
			if done.PreviousExpiresAt == nil {
				s.say("The one before it does not sign any more.")
			} else {
				s.say("The one before it signs, too, until %s: give the receiver the new one before then.", moment(*done.PreviousExpiresAt))
			}
			return nil
		})
	})
	cmd.Flags().DurationVar(&grace, "grace", 24*time.Hour, "for how long the one before it signs, too")
	secret.addTo(cmd.Flags())
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
			return errSaid
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
			return usageError{errors.New("since when? --since takes a time, or how long ago, such as 24h")}
		}
		done, err := s.ReplaySubscription(cmd.Context(), s.tenant, id, client.SubscriptionReplay{Since: *since, Until: until, Status: statusFlags(statuses), Limit: &limit}, s.keep())
		if err != nil {
			return err
		}
		return s.answer(func(io.Writer) error {
			s.say("Sent again: %d", done.ReplayedCount)
			if done.More {
				s.say("That was the limit: repeat it for the rest.")
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

// spanFlags are two moments, either of which may be left open.
type spanFlags struct{ since, until string }

func (f *spanFlags) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.since, "since", "", "published after a time, or since so long ago, such as 24h")
	cmd.Flags().StringVar(&f.until, "until", "", "published before a time, or so long ago")
}

func (f *spanFlags) bounds(now time.Time) (since, until *time.Time, err error) {
	for _, bound := range []struct {
		flag, text string
		to         **time.Time
	}{{"since", f.since, &since}, {"until", f.until, &until}} {
		if bound.text == "" {
			continue
		}
		at, err := agoFlag(bound.flag, bound.text, now)
		if err != nil {
			return nil, nil, err
		}
		*bound.to = &at
	}
	return since, until, nil
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
