package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/cli/terminal"
)

func newEventGet(r *remote) *cobra.Command {
	var withBody, wait bool
	cmd := r.verb("get ID|latest", "Tell the story of an event: what came, what it did, and why", cobra.ExactArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		id, err := s.eventID(cmd.Context(), args[0], "")
		if err != nil {
			return err
		}
		e, err := s.readEvent(cmd.Context(), id, wait)
		if err != nil {
			return err
		}
		return s.answer(func(w io.Writer) error { return s.tellStory(cmd.Context(), w, e, withBody) })
	})
	cmd.Flags().BoolVar(&withBody, "body", false, "with headers and body")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until it is processed, at most 10 s")
	return cmd
}

// readEvent reads an event, if wanted once it is processed; after a while as
// it is.
func (s *session) readEvent(ctx context.Context, id string, wait bool) (client.EventDetail, error) {
	const patience, pause = 10 * time.Second, 100 * time.Millisecond
	late := time.After(patience)
	for {
		e, err := s.GetEvent(ctx, s.tenant, id, s.keep())
		if err != nil || !wait || e.Status != client.EventStatusPending && e.Status != client.EventStatusProcessing {
			return e, err
		}
		select {
		case <-ctx.Done():
			return e, ctx.Err()
		case <-late:
			return e, nil
		case <-time.After(pause):
		}
	}
}

func (s *session) tellStory(ctx context.Context, w io.Writer, e client.EventDetail, withBody bool) error {
	if err := showEvent(w, e); err != nil {
		return err
	}
	if withBody {
		if err := showContent(w, e); err != nil {
			return err
		}
	}
	if len(e.Actions) > 0 {
		_, _ = fmt.Fprintln(w, "\nWhat it did:")
		if err := printTable(w, actionColumns, e.Actions, false); err != nil {
			return err
		}
		if more := int(e.ActionsCount) - len(e.Actions); more > 0 {
			_, _ = fmt.Fprintf(w, "… and %d more\n", more)
		}
	}
	if err := tellDeliveries(w, e); err != nil {
		return err
	}
	if err := s.tellRoutes(ctx, w, e); err != nil {
		return err
	}
	return s.tellNext(w, e)
}

// tellDeliveries says who got the event, or will.
func tellDeliveries(w io.Writer, e client.EventDetail) error {
	if len(e.Deliveries) == 0 {
		return nil
	}
	_, _ = fmt.Fprintln(w, "\nWho gets it:")
	if err := printTable(w, eventDeliveryColumns, e.Deliveries, false); err != nil {
		return err
	}
	if more := int(e.DeliveriesCount) - len(e.Deliveries); more > 0 {
		_, _ = fmt.Fprintf(w, "… and %d more\n", more)
	}
	_, err := fmt.Fprintln(w, "Each attempt: eventhook delivery get DELIVERY")
	return err
}

// eventDeliveryColumns are those of a delivery beside its event.
var eventDeliveryColumns = []column[client.Delivery]{
	{"TO", deliveredTo},
	{"STATUS", func(d client.Delivery) string { return string(d.Status) }},
	{"ATTEMPTS", func(d client.Delivery) string { return fmt.Sprint(d.AttemptCount) }},
	{"ANSWER", func(d client.Delivery) string { return numberOr(d.StatusCode, "") }},
	{"NEXT", func(d client.Delivery) string { return momentOr(d.NextAttemptAt, "") }},
	{"LAST ERROR", func(d client.Delivery) string { return textOf(d.LastError) }},
	{"DELIVERY", func(d client.Delivery) string { return d.ID }},
}

func showEvent(w io.Writer, e client.EventDetail) error {
	from := cameBy(e)
	if e.Source != nil {
		from += ", verified"
	}
	if ip := textOf(e.SourceIP); ip != "" {
		from += ", from " + ip
	}
	return printFields(w, field{"event", e.ID}, field{"event type", e.EventType}, field{"came by", from}, field{"received", terminal.Time(e.ReceivedAt)},
		field{"stored", fmt.Sprintf("%d bytes of %s", e.BodySize, cmp.Or(e.ContentType, "an unknown type"))}, field{"idempotency key", textOf(e.IdempotencyKey)},
		field{"status", string(e.Status)}, field{"duplicate of", textOf(e.DuplicateOf)}, field{"processed", momentOr(e.ProcessedAt, "")},
		field{"retries", retriesText(e)}, field{"last error", textOf(e.LastError)}, field{"trace", e.TraceID})
}

// cameBy names the source that has brought an event, or else what made it.
func cameBy(e client.EventDetail) string {
	if e.Source != nil {
		return "source " + *e.Source
	}
	switch e.Origin {
	case client.EventOriginSource:
		return "a source that is deleted"
	case client.EventOriginRoute:
		return "a route, which published it"
	case client.EventOriginAPI:
		return "the API"
	default:
		return string(e.Origin)
	}
}

func retriesText(e client.EventDetail) string {
	if e.NextRetryAt != nil {
		return fmt.Sprintf("%d, the next at %s", e.RetryCount, terminal.Time(*e.NextRetryAt))
	}
	if e.RetryCount == 0 {
		return ""
	}
	return fmt.Sprint(e.RetryCount)
}

func showContent(w io.Writer, e client.EventDetail) error {
	_, _ = fmt.Fprintln(w)
	for _, name := range slices.Sorted(maps.Keys(e.Headers)) {
		_, _ = fmt.Fprintf(w, "%s: %s\n", terminal.Printable(name), terminal.Printable(e.Headers[name]))
	}
	_, err := fmt.Fprintf(w, "\n%s\n", inline(e.Body))
	return err
}

var actionColumns = []column[client.Action]{
	{"ROUTE", func(a client.Action) string { return a.RouteName }},
	{"TARGET", func(a client.Action) string { return a.TargetType }},
	{"STATUS", func(a client.Action) string { return string(a.Status) }},
	{"ATTEMPTS", func(a client.Action) string { return fmt.Sprint(a.Attempts) }},
	{"MADE", func(a client.Action) string {
		return cmp.Or(textOf(a.TaskExecutionID), textOf(a.WorkflowExecutionID), textOf(a.PromiseID), textOf(a.PublishedEventID))
	}},
	{"ERROR", func(a client.Action) string { return textOf(a.ErrorMessage) }},
}

// tellRoutes says what the source's routes make of the event as they are now.
// That takes the scope manage; without it, and without the source or the body,
// it is left out.
func (s *session) tellRoutes(ctx context.Context, w io.Writer, e client.EventDetail) error {
	if e.Source == nil || e.Status == client.EventStatusDuplicate {
		return nil
	}
	asked, err := s.asSent(ctx, e)
	if err != nil {
		_, err = fmt.Fprintf(w, "\nWhy its routes match is not known any more: %v.\n", err)
		return err
	}
	x, err := s.TestSource(ctx, s.tenant, *e.Source, asked)
	switch client.StatusOf(err) {
	case http.StatusForbidden, http.StatusNotFound, http.StatusRequestEntityTooLarge:
		return nil
	}
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintln(w, "\nWhat the routes make of it, as they are now:")
	return showRoutes(w, x.Routes)
}

// tellNext says what can be done about an event.
func (s *session) tellNext(w io.Writer, e client.EventDetail) error {
	if !slices.Contains(ended, e.Status) {
		return nil
	}
	_, err := fmt.Fprintf(w, "\nTo process it anew: eventhook event reprocess %s\n", e.ID)
	return err
}

// ended are the states from which an event can be processed anew.
var ended = []client.EventStatus{client.EventStatusFailed, client.EventStatusDead, client.EventStatusUnrouted}
