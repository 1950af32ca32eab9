package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/cli/input"
)

// reprocessFlags select failed, dead and unrouted events.
type reprocessFlags struct {
	statuses []string
	source   string
	limit    int64
	again    bool
	expect   expectFlag
	spanFlags
}

func newEventReprocess(r *remote) *cobra.Command {
	var f reprocessFlags
	cmd := r.verb("reprocess [ID|latest]...", "Reprocess events", cobra.ArbitraryArgs,
		func(cmd *cobra.Command, s *session, args []string) error {
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
			done, err := s.ReprocessEvents(cmd.Context(), s.tenant, which, s.keepBody())
			if err != nil {
				return err
			}
			return s.answer(func(w io.Writer) error { return showReprocessed(w, done, len(args)) })
		})
	cmd.Long = cmd.Short + `: by their ids, or the events that the flags select.

Without --again, failed, dead and unrouted events are routed again. Their number
of retries starts again at zero. Actions that succeeded are not repeated. Events
with another status are not changed.

With --again, each event that is dead, unrouted, delivered or a duplicate is
processed a second time, as a new event with the same payload: the current routes
apply, and all tasks, workflows, events and requests are created again.`
	cmd.Example = `  eventhook event reprocess 0199… 0199…
  eventhook event reprocess --status unrouted --source stripe --since 24h --limit 1000
  eventhook event reprocess --again 0199…        repeat an event that was delivered
  eventhook event reprocess --again --source stripe --since 1h --limit 100`
	flags := cmd.Flags()
	flags.StringSliceVar(&f.statuses, "status", nil,
		"status: failed, dead, unrouted, all three by default; with --again also delivered and duplicate")
	flags.BoolVar(&f.again, "again", false, "process each event a second time, as a new event")
	flags.StringVar(&f.source, "source", "", "slug of a source")
	f.addTo(flags, "received")
	f.expect.addTo(cmd)
	flags.Int64Var(&f.limit, "limit", 0, "maximum number of events; required without ids")
	return cmd
}

// selection returns the body of the request.
func (f *reprocessFlags) selection(ids []string, now time.Time) (client.EventReprocess, error) {
	filtered := len(f.statuses) > 0 || f.source != "" || f.since != "" || f.until != ""
	switch {
	case len(ids) > 0 && (filtered || f.limit != 0):
		return client.EventReprocess{}, input.Usagef("ids cannot be combined with --status, --source, --since, --until or --limit")
	case len(ids) > 0:
		return client.EventReprocess{EventIDs: ids, Mode: f.mode(), ExpectedCount: f.expect.count()}, nil
	case f.limit == 0:
		return client.EventReprocess{}, input.Usagef("events are required: give ids, or --limit with --status, --source, --since or --until")
	}
	since, until, err := f.bounds(now)
	if err != nil {
		return client.EventReprocess{}, err
	}
	filter := &client.EventReprocessFilter{Source: optionalFlag(f.source), ReceivedAfter: since, ReceivedBefore: until}
	for _, status := range f.statuses {
		filter.Status = append(filter.Status, client.EventStatus(status))
	}
	return client.EventReprocess{Filter: filter, Limit: &f.limit, Mode: f.mode(), ExpectedCount: f.expect.count()}, nil
}

// mode returns the mode of the request; nil: the default.
func (f *reprocessFlags) mode() *client.EventReprocessMode {
	if !f.again {
		return nil
	}
	return new(client.EventReprocessMode("again"))
}

func showReprocessed(w io.Writer, done client.EventsReprocessed, asked int) error {
	for _, x := range done.Skipped {
		if _, err := fmt.Fprintf(w, "Skipped %s: %s\n", x.EventID, x.Reason); err != nil {
			return err
		}
	}
	asked -= len(done.Skipped)
	if done.ReprocessedCount == 0 {
		_, err := fmt.Fprintln(w, "No events were reprocessed: none is in a status that allows it.")
		return err
	}
	if _, err := fmt.Fprintf(w, "Reprocessed: %d\n", done.ReprocessedCount); err != nil {
		return err
	}
	if left := int64(asked) - done.ReprocessedCount; left > 0 {
		if _, err := fmt.Fprintf(w, "Not reprocessed (another status, or not found): %d\n", left); err != nil {
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
