package cli

import (
	"context"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/cli/input"
	"github.com/eventhook/eventhook/internal/cli/terminal"
)

// replayFlags select the events of a replay.
type replayFlags struct {
	spanFlags
	statuses, types []string
	missing, wait   bool
	limit           int64
	expect          expectFlag
}

func newSubscriptionReplay(r *remote) *cobra.Command {
	var f replayFlags
	cmd := r.subscriptionVerb("replay", "Replay events to a subscription, in the background",
		func(cmd *cobra.Command, s *session, id string) error {
			request, err := f.request()
			if err != nil {
				return err
			}
			started, err := s.startReplay(cmd.Context(), id, request)
			switch {
			case err != nil:
				return err
			case f.wait:
				return s.showReplay(s.waitForReplay(cmd.Context(), id, started.ReplayID))
			}
			return s.answer(func(io.Writer) error {
				s.Say("Replay %s sends about %d events in the background.", started.ReplayID, started.Estimated)
				s.Say("Show its progress: %s", s.withOperator("eventhook subscription replays "+id+" "+started.ReplayID))
				return nil
			})
		})
	cmd.Long = cmd.Short + `: events whose deliveries are
dead, oldest first, and with --missing also events that have no delivery to the
subscription, because it was disabled or did not exist yet. The events are matched
against the subscription as it is now. A replay of a paused subscription waits.`
	f.addTo(cmd)
	return cmd
}

func (f *replayFlags) addTo(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.spanFlags.addTo(flags, "published")
	flags.StringSliceVar(&f.statuses, "status", nil, "status: dead, failed, success; dead by default; success sends delivered events again")
	flags.StringSliceVar(&f.types, "type", nil, "event type, or a pattern such as 'payment.*'; all types of the subscription by default")
	flags.BoolVar(&f.missing, "missing", false, "also send events that have no delivery to the subscription")
	flags.Int64Var(&f.limit, "limit", 0, "maximum number of deliveries, oldest events first; no limit by default")
	f.expect.define(cmd, "estimated number of events; if it is another number, nothing is replayed")
	flags.BoolVar(&f.wait, "wait", false, "wait until all deliveries of the replay have ended")
}

func (f *replayFlags) request() (client.SubscriptionReplay, error) {
	since, until, err := f.bounds(time.Now())
	switch {
	case err != nil:
		return client.SubscriptionReplay{}, err
	case since == nil:
		return client.SubscriptionReplay{}, input.Usagef("--since is required: a time, or a duration such as 24h")
	}
	request := client.SubscriptionReplay{Since: *since, Until: until, Status: statusFlags(f.statuses), EventTypes: f.types, ExpectedCount: f.expect.count()}
	if f.missing {
		request.Missing = &f.missing
	}
	if f.limit != 0 {
		request.Limit = &f.limit
	}
	return request, nil
}

// waitForReplay polls a replay until it has ended.
func (s *session) waitForReplay(ctx context.Context, subscription, id string) (client.Replay, error) {
	const interval = time.Second
	for {
		r, err := s.getReplay(ctx, subscription, id)
		if err != nil || r.Status != client.ReplayStatusRunning {
			return r, err
		}
		select {
		case <-ctx.Done():
			return r, ctx.Err()
		case <-time.After(interval):
		}
	}
}

func (s *session) showReplay(r client.Replay, err error) error {
	if err != nil {
		return err
	}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	return s.answer(func(w io.Writer) error {
		return printFields(w, field{"replay", r.ID}, field{"kind", string(r.Kind)}, field{"status", string(r.Status)},
			field{"since", terminal.Time(r.Since)}, field{"until", terminal.Time(r.Until)},
			field{"estimated", number(r.Estimated)}, field{"matched", number(r.Matched)}, field{"queued", number(r.Queued)},
			field{"sent", number(r.Sent)},
			field{"failed", number(r.Failed)}, field{"finished", timeOr(r.FinishedAt, "")})
	})
}

var replayColumns = []column[client.Replay]{
	{"ID", func(r client.Replay) string { return r.ID }},
	{"KIND", func(r client.Replay) string { return string(r.Kind) }},
	{"STATUS", func(r client.Replay) string { return string(r.Status) }},
	{"SINCE", func(r client.Replay) string { return terminal.Time(r.Since) }},
	{"UNTIL", func(r client.Replay) string { return terminal.Time(r.Until) }},
	{"QUEUED", func(r client.Replay) string { return strconv.FormatInt(r.Queued, 10) }},
	{"SENT", func(r client.Replay) string { return strconv.FormatInt(r.Sent, 10) }},
	{"FAILED", func(r client.Replay) string { return strconv.FormatInt(r.Failed, 10) }},
}

func newSubscriptionReplays(r *remote) *cobra.Command {
	var f listFlags
	var status string
	cmd := r.verb("replays NAME [ID|latest]", "List the replays of a subscription, newest first, or show one", cobra.RangeArgs(1, 2),
		func(cmd *cobra.Command, s *session, args []string) error {
			subscription, err := s.subscriptionID(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if len(args) > 1 {
				id, err := s.replayID(cmd.Context(), subscription, args[1])
				if err != nil {
					return err
				}
				return s.showReplay(s.getReplay(cmd.Context(), subscription, id))
			}
			return printList(s, &f, func(limit *int64, cursor *string) ([]client.Replay, *string, error) {
				p, err := s.listReplays(cmd.Context(), subscription, client.ListReplaysParams{Limit: limit, Cursor: cursor,
					Status: optionalFlag(client.ListReplaysParamsStatus(status))})
				return p.Items, p.NextCursor, err
			}, replayColumns)
		})
	cmd.Flags().StringVar(&status, "status", "", "status: running, completed or cancelled")
	f.addTo(cmd)
	return cmd
}

func newSubscriptionReplayCancel(r *remote) *cobra.Command {
	return r.verb("replay-cancel NAME ID|latest", "Cancel a replay; deliveries that it has queued are still sent", cobra.ExactArgs(2),
		func(cmd *cobra.Command, s *session, args []string) error {
			subscription, err := s.subscriptionID(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			id, err := s.replayID(cmd.Context(), subscription, args[1])
			if err != nil {
				return err
			}
			return s.showReplay(s.cancelReplay(cmd.Context(), subscription, id))
		})
}

// replayID returns arg, or the id of the newest replay of a subscription if arg is latest.
func (s *session) replayID(ctx context.Context, subscription, arg string) (string, error) {
	return latestID(arg, "replays of the subscription", func(limit *int64, _ *string) ([]client.Replay, *string, error) {
		p, err := s.listReplays(ctx, subscription, client.ListReplaysParams{Limit: limit})
		return p.Items, nil, err
	}, func(r client.Replay) string { return r.ID })
}
