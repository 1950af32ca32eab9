package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/cli/input"
)

// reprocessFlags select events that are done with, and not well.
type reprocessFlags struct {
	statuses             []string
	source, since, until string
	limit                int64
}

func newEventReprocess(r *remote) *cobra.Command {
	var f reprocessFlags
	cmd := r.verb("reprocess [ID|latest]...", "Process failed, dead or unrouted events anew", cobra.ArbitraryArgs, func(cmd *cobra.Command, s *session, args []string) error {
		for i := range args {
			id, err := s.eventID(cmd.Context(), args[i], "")
			if err != nil {
				return err
			}
			args[i] = id
		}
		which, err := f.selection(args, time.Now())
		if err != nil {
			return err
		}
		done, err := s.ReprocessEvents(cmd.Context(), s.tenant, which, s.keep())
		if err != nil {
			return err
		}
		return s.answer(func(w io.Writer) error { return showReprocessed(w, done, len(args)) })
	})
	cmd.Long = cmd.Short + `, by their ids or by what they have in common. Their
retries start anew; what has succeeded is not done again. Events in another
state stay as they are.`
	cmd.Example = `  eventhook event reprocess 0199… 0199…
  eventhook event reprocess --status unrouted --source stripe --since 24h --limit 1000`
	flags := cmd.Flags()
	flags.StringSliceVar(&f.statuses, "status", nil, "failed, dead, unrouted; all three by default")
	flags.StringVar(&f.source, "source", "", "of one source, by its slug")
	flags.StringVar(&f.since, "since", "", "received after a time, or since so long ago, such as 24h")
	flags.StringVar(&f.until, "until", "", "received before a time, or so long ago")
	flags.Int64Var(&f.limit, "limit", 0, "how many at most; needed without ids")
	return cmd
}

func (f *reprocessFlags) selection(ids []string, now time.Time) (client.EventReprocess, error) {
	filtered := len(f.statuses) > 0 || f.source != "" || f.since != "" || f.until != ""
	switch {
	case len(ids) > 0 && (filtered || f.limit != 0):
		return client.EventReprocess{}, input.Usagef("ids, or flags that select: not both")
	case len(ids) > 0:
		return client.EventReprocess{EventIDs: ids}, nil
	case f.limit == 0:
		return client.EventReprocess{}, input.Usagef("which events? Give their ids, or --limit with --status, --source, --since or --until")
	}
	filter := &client.EventReprocessFilter{Source: optionalFlag(f.source)}
	for _, status := range f.statuses {
		filter.Status = append(filter.Status, client.EventStatus(status))
	}
	for _, bound := range []struct {
		flag, text string
		to         **time.Time
	}{{"since", f.since, &filter.ReceivedAfter}, {"until", f.until, &filter.ReceivedBefore}} {
		if bound.text != "" {
			at, err := agoFlag(bound.flag, bound.text, now)
			if err != nil {
				return client.EventReprocess{}, err
			}
			*bound.to = &at
		}
	}
	return client.EventReprocess{Filter: filter, Limit: &f.limit}, nil
}

func showReprocessed(w io.Writer, done client.EventsReprocessed, asked int) error {
	if done.ReprocessedCount == 0 {
		_, err := fmt.Fprintln(w, "No event was failed, dead or unrouted; none is processed anew.")
		return err
	}
	if _, err := fmt.Fprintf(w, "Processed anew: %d\n", done.ReprocessedCount); err != nil {
		return err
	}
	if left := int64(asked) - done.ReprocessedCount; left > 0 {
		if _, err := fmt.Fprintf(w, "Not failed, dead or unrouted, or not there: %d\n", left); err != nil {
			return err
		}
	}
	for _, id := range done.EventIDs {
		if _, err := fmt.Fprintf(w, "  eventhook event get %s\n", id); err != nil {
			return err
		}
	}
	return nil
}
