package cli

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/cli/terminal"
)

// reconnectDelay is the delay before a broken stream is resumed.
const reconnectDelay = 2 * time.Second

func newEventWatch(r *remote) *cobra.Command {
	var source, status, eventType string
	var count int
	cmd := r.verb("watch", "Watch status changes of events until interrupted", cobra.NoArgs, func(cmd *cobra.Command, s *session, _ []string) error {
		return s.watch(cmd.Context(), client.StreamEventsParams{Source: optionalFlag(source),
			Status: optionalFlag(client.EventStatus(status)), EventType: optionalFlag(eventType)}, count)
	})
	flags := cmd.Flags()
	flags.StringVar(&source, "source", "", "slug of a source")
	flags.StringVar(&status, "status", "", "new status of the event, such as failed")
	flags.StringVar(&eventType, "type", "", "event type")
	flags.IntVar(&count, "count", 0, "exit after this number of changes; 0: never")
	cmd.Long = cmd.Short + `.
The JSON output has one line per event. A broken stream is resumed where it ended.`
	return cmd
}

// watch prints the changes until ctx ends or count changes are printed. It reconnects
// a stream that ends, and fails if the gateway refuses the request.
func (s *session) watch(ctx context.Context, params client.StreamEventsParams, count int) error {
	if !s.JSON {
		_, _ = fmt.Fprintln(s.Hints, "Waiting for events; press Ctrl-C to stop.")
	}
	for printed := 0; ; {
		var broken error
		for n, err := range s.Watch(ctx, s.tenant, params) {
			if broken = err; err != nil {
				break
			}
			if err := s.printChange(n); err != nil {
				return err
			}
			if n.Gap {
				continue
			}
			params.LastEventID = &n.Event.ID
			if printed++; printed == count {
				return nil
			}
		}
		if ctx.Err() != nil {
			return nil // interrupted by the user
		}
		if client.StatusOf(broken) != 0 {
			return broken
		}
		_, _ = fmt.Fprintf(s.Hints, "The connection was lost (%v); reconnecting.\n", broken)
		select {
		case <-ctx.Done():
		case <-time.After(reconnectDelay):
		}
	}
}

// printChange prints one message of the stream on a line.
func (s *session) printChange(n client.News) error {
	var err error
	switch e := n.Event; {
	case n.Gap:
		_, err = fmt.Fprintln(s.Hints, "(Some changes are missing here: there were too many at the same time.)")
	case s.JSON:
		_, err = s.Out.Write(append(bytes.TrimSpace(n.Data), '\n'))
	default:
		_, err = fmt.Fprintf(s.Out, "%s  %s  %-10s  %s  %s  %s\n", terminal.Time(e.ReceivedAt), e.ID, e.Status, cmp.Or(textOf(e.Source), string(e.Origin)),
			terminal.Cell(e.EventType, terminal.MaxWidth), terminal.Printable(textOf(e.LastError)))
	}
	return err
}
