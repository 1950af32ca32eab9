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
	cmd := r.verb("get ID|latest", "Show an event with its actions and deliveries, and why routes match", cobra.ExactArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		id, err := s.eventID(cmd.Context(), args[0], "")
		if err != nil {
			return err
		}
		e, err := s.readEvent(cmd.Context(), id, wait)
		if err != nil {
			return err
		}
		return s.answer(func(w io.Writer) error { return s.printEventDetail(cmd.Context(), w, e, withBody) })
	})
	cmd.Flags().BoolVar(&withBody, "body", false, "print headers and body, too")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait up to 10 s until the event is processed")
	return cmd
}

// readEvent reads an event. With wait, readEvent polls until the event is processed,
// for at most 10 seconds.
func (s *session) readEvent(ctx context.Context, id string, wait bool) (client.EventDetail, error) {
	const maxWait, interval = 10 * time.Second, 100 * time.Millisecond
	timeout := time.After(maxWait)
	for {
		e, err := s.GetEvent(ctx, s.tenant, id, client.GetEventParams{}, s.keepBody())
		if err != nil || !wait || e.Status != client.EventStatusPending && e.Status != client.EventStatusProcessing {
			return e, err
		}
		select {
		case <-ctx.Done():
			return e, ctx.Err()
		case <-timeout:
			return e, nil
		case <-time.After(interval):
		}
	}
}

// printEventDetail prints an event, its actions and deliveries, the result of the
// current routes, and the command to reprocess it.
func (s *session) printEventDetail(ctx context.Context, w io.Writer, e client.EventDetail, withBody bool) error {
	if err := showEvent(w, e); err != nil {
		return err
	}
	if withBody {
		if err := showContent(w, e); err != nil {
			return err
		}
	}
	if len(e.Actions) > 0 {
		_, _ = fmt.Fprintln(w, "\nActions:")
		if err := printTable(w, actionColumns, e.Actions, false); err != nil {
			return err
		}
		if more := int(e.ActionsCount) - len(e.Actions); more > 0 {
			_, _ = fmt.Fprintf(w, "… and %d more\n", more)
		}
	}
	if err := printDeliveries(w, e); err != nil {
		return err
	}
	if err := s.printRoutes(ctx, w, e); err != nil {
		return err
	}
	return s.printNext(w, e)
}

// printDeliveries prints the deliveries of an event.
func printDeliveries(w io.Writer, e client.EventDetail) error {
	if len(e.Deliveries) == 0 {
		return nil
	}
	_, _ = fmt.Fprintln(w, "\nDeliveries:")
	if err := printTable(w, eventDeliveryColumns, e.Deliveries, false); err != nil {
		return err
	}
	if more := int(e.DeliveriesCount) - len(e.Deliveries); more > 0 {
		_, _ = fmt.Fprintf(w, "… and %d more\n", more)
	}
	_, err := fmt.Fprintln(w, "To show each attempt: eventhook delivery get DELIVERY")
	return err
}

// eventDeliveryColumns are the columns of the deliveries of one event.
var eventDeliveryColumns = []column[client.Delivery]{
	{"TO", deliveredTo},
	{"STATUS", func(d client.Delivery) string { return string(d.Status) }},
	{"ATTEMPTS", func(d client.Delivery) string { return fmt.Sprint(d.AttemptCount) }},
	{"STATUS CODE", func(d client.Delivery) string { return numberOr(d.StatusCode, "") }},
	{"NEXT ATTEMPT", func(d client.Delivery) string { return timeOr(d.NextAttemptAt, "") }},
	{"LAST ERROR", func(d client.Delivery) string { return textOf(d.LastError) }},
	{"DELIVERY", func(d client.Delivery) string { return d.ID }},
}

func showEvent(w io.Writer, e client.EventDetail) error {
	from := originOf(e)
	if e.Source != nil {
		from += ", verified"
	}
	if ip := textOf(e.SourceIP); ip != "" {
		from += ", from " + ip
	}
	return printFields(w, field{"event", e.ID}, field{"event type", e.EventType}, field{"origin", from}, field{"request", requestText(e)}, field{"received", terminal.Time(e.ReceivedAt)},
		field{"stored", fmt.Sprintf("%d bytes of %s", e.BodySize, cmp.Or(e.ContentType, "unknown type"))}, field{"idempotency key", textOf(e.IdempotencyKey)},
		field{"status", statusText(e.Origin, e.Status)}, field{"outcome", outcomeText(e)},
		field{"reprocessed from", textOf(e.ReprocessedFrom)}, field{"duplicate of", textOf(e.DuplicateOf)},
		field{"processed", timeOr(e.ProcessedAt, "")},
		field{"retries", retriesText(e)}, field{"last error", textOf(e.LastError)}, field{"trace", e.TraceID})
}

// requestText returns the method, the path suffix and the query of a webhook, or "" for a POST to
// the URL of the source.
func requestText(e client.EventDetail) string {
	path := requestPath(e)
	if method := textOf(e.Method); path != "" || method != "" && method != http.MethodPost {
		return terminal.Printable(method + " " + cmp.Or(path, "/"))
	}
	return ""
}

// outcomeText returns the outcome of an event and the first failure.
func outcomeText(e client.EventDetail) string {
	text := string(e.Outcome)
	if len(e.Failures) == 0 {
		return text
	}
	first := e.Failures[0]
	text += fmt.Sprintf(": %s %s is %s", first.Type, first.ID, first.Status)
	if first.Error != "" {
		text += ": " + terminal.Printable(first.Error)
	}
	if more := len(e.Failures) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}

// originOf returns the source that received an event, or how it was published.
func originOf(e client.EventDetail) string {
	if e.Source != nil {
		return "source " + *e.Source
	}
	switch e.Origin {
	case client.EventOriginSource:
		return "a deleted source"
	case client.EventOriginRoute:
		return "published by a route"
	case client.EventOriginAPI:
		return "published through the API"
	default:
		return string(e.Origin)
	}
}

func retriesText(e client.EventDetail) string {
	if e.NextRetryAt != nil {
		return fmt.Sprintf("%d, next at %s", e.RetryCount, terminal.Time(*e.NextRetryAt))
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
	{"EFFECT", func(a client.Action) string { return textOf(a.EffectStatus) }},
	{"ATTEMPTS", func(a client.Action) string { return fmt.Sprint(a.Attempts) }},
	{"CREATED", func(a client.Action) string {
		return cmp.Or(textOf(a.TaskExecutionID), textOf(a.WorkflowExecutionID), textOf(a.PromiseID), textOf(a.PublishedEventID))
	}},
	{"ERROR", func(a client.Action) string { return textOf(a.ErrorMessage) }},
}

// printRoutes prints what the current routes of the source would do with the event.
// It prints nothing without the scope manage, which the test of a source requires,
// and nothing for an event without a source.
func (s *session) printRoutes(ctx context.Context, w io.Writer, e client.EventDetail) error {
	if e.Source == nil || e.Status == client.EventStatusDuplicate {
		return nil
	}
	request, err := s.requestOf(ctx, e)
	if err != nil {
		_, err = fmt.Fprintf(w, "\nThe current routes cannot be tested with this event: %v.\n", err)
		return err
	}
	x, err := s.TestSource(ctx, s.tenant, *e.Source, request)
	switch client.StatusOf(err) {
	case http.StatusForbidden, http.StatusNotFound, http.StatusRequestEntityTooLarge:
		return nil
	}
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintln(w, "\nResult of the current routes:")
	return showRoutes(w, x.Routes)
}

// printNext prints the command to reprocess an event that can be reprocessed.
func (s *session) printNext(w io.Writer, e client.EventDetail) error {
	if !slices.Contains(reprocessable, e.Status) {
		return nil
	}
	_, err := fmt.Fprintf(w, "\nTo reprocess it: eventhook event reprocess %s\n", e.ID)
	return err
}

// reprocessable are the statuses in which an event can be reprocessed.
var reprocessable = []client.EventStatus{client.EventStatusFailed, client.EventStatusDead, client.EventStatusUnrouted}
