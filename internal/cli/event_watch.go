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

// watchPause is how long to wait before a stream that broke off is taken up.
const watchPause = 2 * time.Second

func newEventWatch(r *remote) *cobra.Command {
	var source, status, eventType string
	var count int
	cmd := r.verb("watch", "Tell what happens to events, as it happens, until interrupted", cobra.NoArgs, func(cmd *cobra.Command, s *session, _ []string) error {
		return s.watch(cmd.Context(), client.StreamEventsParams{Source: optionalFlag(source),
			Status: optionalFlag(client.EventStatus(status)), EventType: optionalFlag(eventType)}, count)
	})
	flags := cmd.Flags()
	flags.StringVar(&source, "source", "", "of one source, by its slug")
	flags.StringVar(&status, "status", "", "that come to this status, such as failed")
	flags.StringVar(&eventType, "type", "", "of this event type")
	flags.IntVar(&count, "count", 0, "end after so many; 0: never")
	cmd.Long = cmd.Short + `.
In JSON each event is one line. A stream that breaks off is taken up again
where it was.`
	return cmd
}

func (s *session) watch(ctx context.Context, params client.StreamEventsParams, count int) error {
	if !s.JSON {
		_, _ = fmt.Fprintln(s.Hints, "Waiting for events; Ctrl-C ends it.")
	}
	for told := 0; ; {
		var broken error
		for n, err := range s.Watch(ctx, s.tenant, params) {
			if broken = err; err != nil {
				break
			}
			if err := s.tell(n); err != nil {
				return err
			}
			if n.Gap {
				continue
			}
			params.LastEventID = &n.Event.ID
			if told++; told == count {
				return nil
			}
		}
		if ctx.Err() != nil {
			return nil // it was interrupted, as it should be
		}
		if client.StatusOf(broken) != 0 {
			return broken
		}
		_, _ = fmt.Fprintf(s.Hints, "The stream broke off (%v); taking it up again.\n", broken)
		select {
		case <-ctx.Done():
		case <-time.After(watchPause):
		}
	}
}

// tell prints one message of a stream on a line of its own.
func (s *session) tell(n client.News) error {
	var err error
	switch e := n.Event; {
	case n.Gap:
		_, err = fmt.Fprintln(s.Hints, "(Some of what happened is left out here: it was too much at once.)")
	case s.JSON:
		_, err = s.Out.Write(append(bytes.TrimSpace(n.Data), '\n'))
	default:
		_, err = fmt.Fprintf(s.Out, "%s  %s  %-10s  %s  %s  %s\n", terminal.Time(e.ReceivedAt), e.ID, e.Status, cmp.Or(textOf(e.Source), string(e.Origin)),
			terminal.Cell(e.EventType, terminal.MaxWidth), terminal.Printable(textOf(e.LastError)))
	}
	return err
}
