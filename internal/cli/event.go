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
	return newNoun("event", "See what happened to events, and process them anew", `See what happened to events, and process them anew.

  eventhook event list --status failed --since 24h
  eventhook event get 0199…                     the whole story of one
  eventhook event get latest --wait             of the newest that a source has brought, once it is processed
  eventhook event payload 0199… > body.json     its exact bytes
  eventhook event reprocess --status unrouted --source stripe --limit 100
  eventhook event watch                         what happens, as it happens`, r,
		newEventList(r), newEventGet(r), newEventPayload(r), newEventReprocess(r), newEventWatch(r))
}

var eventColumns = []column[client.Event]{
	{"ID", func(e client.Event) string { return e.ID }},
	{"RECEIVED", func(e client.Event) string { return terminal.Time(e.ReceivedAt) }},
	{"FROM", func(e client.Event) string { return cmp.Or(textOf(e.Source), string(e.Origin)) }},
	{"EVENT TYPE", func(e client.Event) string { return e.EventType }},
	{"STATUS", func(e client.Event) string { return string(e.Status) }},
	{"RETRIES", func(e client.Event) string { return fmt.Sprint(e.RetryCount) }},
	{"LAST ERROR", func(e client.Event) string { return textOf(e.LastError) }},
}

// eventFlags narrow a list of events.
type eventFlags struct {
	source, status, eventType, key, since, until string
}

func (f *eventFlags) addTo(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.source, "source", "", "of one source, by its slug")
	flags.StringVar(&f.status, "status", "", "pending, processing, delivered, unrouted, failed, dead or duplicate")
	flags.StringVar(&f.eventType, "type", "", "of this event type")
	flags.StringVar(&f.key, "idempotency-key", "", "with this key")
	flags.StringVar(&f.since, "since", "", "received after a time, or since so long ago, such as 24h")
	flags.StringVar(&f.until, "until", "", "received before a time, or so long ago")
}

func (f *eventFlags) params(now time.Time) (p client.ListEventsParams, err error) {
	p = client.ListEventsParams{Source: optionalFlag(f.source), Status: optionalFlag(client.EventStatus(f.status)),
		EventType: optionalFlag(f.eventType), IdempotencyKey: optionalFlag(f.key)}
	for _, bound := range []struct {
		flag, text string
		to         **time.Time
	}{{"since", f.since, &p.ReceivedAfter}, {"until", f.until, &p.ReceivedBefore}} {
		if bound.text == "" {
			continue
		}
		at, err := agoFlag(bound.flag, bound.text, now)
		if err != nil {
			return p, err
		}
		*bound.to = &at
	}
	return p, nil
}

func newEventList(r *remote) *cobra.Command {
	var f listFlags
	var which eventFlags
	cmd := r.verb("list", "List events, newest first", cobra.NoArgs, func(cmd *cobra.Command, s *session, _ []string) error {
		params, err := which.params(time.Now())
		if err != nil {
			return err
		}
		return printList(s, &f, func(limit *int64, cursor *string) ([]client.Event, *string, error) {
			params.Limit, params.Cursor = limit, cursor
			p, err := s.ListEvents(cmd.Context(), s.tenant, params, s.keep())
			return p.Items, p.NextCursor, err
		}, eventColumns)
	})
	which.addTo(cmd)
	f.addTo(cmd)
	cmd.Example = `  eventhook event list --status failed --since 24h
  eventhook event list --source stripe --type invoice.paid --since 2026-03-01T00:00:00Z --until 2026-04-01T00:00:00Z
  eventhook event list --status dead --all -o json`
	return cmd
}

func newEventPayload(r *remote) *cobra.Command {
	return r.verb("payload ID|latest", "Print the exact bytes of an event's body", cobra.ExactArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
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

// latest stands for the newest event that a source has brought, for people who
// try things out: what a route published of it is newer.
const latest = "latest"

// eventID is the id that an argument gives, or latest stands for; of one source,
// unless source is "".
func (s *session) eventID(ctx context.Context, arg, source string) (string, error) {
	if arg != latest {
		return arg, nil
	}
	const most = 1000 // looked through
	seen := 0
	for e, err := range s.AllEvents(ctx, s.tenant, client.ListEventsParams{Source: optionalFlag(source), Limit: new(int64(50))}) {
		if err != nil {
			return "", err
		}
		if e.Origin == client.EventOriginSource {
			return e.ID, nil
		}
		if seen++; seen == most {
			return "", fmt.Errorf("none of the newest %d events came by a source; eventhook event list --source SLUG shows those that did", most)
		}
	}
	return "", errors.New("there is no event yet that came by " + cmp.Or(source, "a source"))
}
