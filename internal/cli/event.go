package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/cli/terminal"
)

func newEvent(version string) *cobra.Command {
	r := &remote{version: version, ofTenant: true}
	return newNoun("event", "List, search, show, reprocess and watch events", `List, search, show, reprocess and watch events.

  eventhook event list --status failed --since 24h
  eventhook event get 0199…                     the event, its actions and deliveries
  eventhook event get latest --wait             the newest webhook, after it is processed
  eventhook event search --since 24h --filter '{"body.customer":"cus_42"}'
  eventhook event payload 0199… > body.json     the exact bytes of the body
  eventhook event reprocess --status unrouted --source stripe --limit 100
  eventhook event watch                         status changes as they occur`, r,
		newEventList(r), newEventGet(r), newEventPayload(r), newEventSearch(r), newEventReprocess(r), newEventWatch(r))
}

var eventColumns = []column[client.Event]{
	{"ID", func(e client.Event) string { return e.ID }},
	{"RECEIVED", func(e client.Event) string { return terminal.Time(e.ReceivedAt) }},
	{"FROM", func(e client.Event) string { return cmp.Or(textOf(e.Source), string(e.Origin)) }},
	{"EVENT TYPE", func(e client.Event) string { return e.EventType }},
	{"STATUS", func(e client.Event) string { return statusText(e.Origin, e.Status) }},
	{"RETRIES", func(e client.Event) string { return fmt.Sprint(e.RetryCount) }},
	{"LAST ERROR", func(e client.Event) string { return textOf(e.LastError) }},
}

// statusText returns the status of an event. Nothing is processed for a published event,
// and its deliveries may still be open: so it is published, and not delivered.
func statusText(origin client.EventOrigin, status client.EventStatus) string {
	if origin != client.EventOriginSource && status == client.EventStatusDelivered {
		return "published"
	}
	return string(status)
}

// eventFlags filter a list of events.
type eventFlags struct {
	source, status, eventType, key     string
	trace, request, correlation, scope string
	spanFlags
}

func (f *eventFlags) addTo(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SetNormalizeFunc(shortNames)
	flags.StringVar(&f.source, "source", "", "slug of a source")
	flags.StringVar(&f.status, "status", "", "status: pending, processing, delivered, unrouted, failed, dead or duplicate")
	flags.StringVar(&f.eventType, "type", "", "event type, or a pattern such as 'payment_intent.*'")
	flags.StringVar(&f.key, "idempotency-key", "", "idempotency key")
	flags.StringVar(&f.trace, "trace-id", "", "W3C trace id: 32 hexadecimal digits; also --trace")
	flags.StringVar(&f.request, "request-id", "", "X-Request-Id of the request")
	flags.StringVar(&f.correlation, "correlation-id", "", "correlation id; also --correlation")
	flags.StringVar(&f.scope, "scope", "", "scope of published events")
	f.spanFlags.addTo(flags, "received")
}

// params returns the parameters of the request.
func (f *eventFlags) params(now time.Time) (client.ListEventsParams, error) {
	since, until, err := f.bounds(now)
	return client.ListEventsParams{Source: optionalFlag(f.source), Status: optionalFlag(client.EventStatus(f.status)),
		EventType: optionalFlag(f.eventType), IdempotencyKey: optionalFlag(f.key), TraceID: optionalFlag(f.trace),
		RequestID:     optionalFlag(f.request),
		CorrelationID: optionalFlag(f.correlation), Scope: optionalFlag(f.scope), ReceivedAfter: since, ReceivedBefore: until}, err
}

func newEventList(r *remote) *cobra.Command {
	var f listFlags
	var which eventFlags
	cmd := r.verb("list", "List events, newest first", cobra.NoArgs, func(cmd *cobra.Command, s *session, _ []string) error {
		params, err := which.params(time.Now())
		if err != nil {
			return err
		}
		if isOfAllTenants(cmd) {
			return s.listAllEvents(cmd, &f, params)
		}
		return printList(s, &f, func(limit *int64, cursor *string) ([]client.Event, *string, error) {
			params.Limit, params.Cursor = limit, cursor
			p, err := s.ListEvents(cmd.Context(), s.tenant, params, s.keepBody())
			return p.Items, p.NextCursor, err
		}, eventColumns)
	})
	which.addTo(cmd)
	f.addTo(cmd)
	addAllTenants(cmd)
	cmd.Example = `  eventhook event list --status failed --since 24h
  eventhook event list --all-tenants --status dead  with the admin key
  eventhook event list --source stripe --type invoice.paid --since 2026-03-01T00:00:00Z --until 2026-04-01T00:00:00Z
  eventhook event list --type 'payment_intent.*' --trace-id 4bf92f3577b34da6a3ce929d0e0e4736
  eventhook event list --status dead --all -o json`
	return cmd
}

func newEventPayload(r *remote) *cobra.Command {
	return r.verb("payload ID|latest", "Print the body of an event, byte for byte", cobra.ExactArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		id, err := s.eventID(cmd.Context(), args[0], "")
		if err != nil {
			return err
		}
		_, raw, err := s.Payload(cmd.Context(), s.tenant, id)
		if err != nil {
			return err
		}
		_, err = s.Out.Write(raw)
		return err
	})
}

// eventID returns arg, or the id of the newest event that a source received if arg is
// latest. It skips events that routes published. source limits latest to one source unless it is "".
func (s *session) eventID(ctx context.Context, arg, source string) (string, error) {
	if arg != latest {
		return arg, nil
	}
	const maxSearched = 1000
	seen := 0
	for e, err := range s.AllEvents(ctx, s.tenant, client.ListEventsParams{Source: optionalFlag(source), Limit: new(int64(50))}) {
		if err != nil {
			return "", err
		}
		if e.Origin == client.EventOriginSource {
			return e.ID, nil
		}
		if seen++; seen == maxSearched {
			return "", fmt.Errorf("none of the newest %d events is from a source; eventhook event list --source SLUG shows the events of a source", maxSearched)
		}
	}
	return "", errors.New("there are no events of " + cmp.Or(source, "a source") + " yet")
}
