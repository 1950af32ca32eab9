package cli

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/cli/terminal"
)

func newEventType(version string) *cobra.Command {
	r := &remote{version: version, ofTenant: true}
	return newNoun("event-type", "Create, list, update and delete event types of the catalogue", `Create, list, update and delete entries of the catalogue of a tenant's event types, with
optional JSON Schemas. Events of unknown types and events that do not match their schema
are delivered as well, and counted in a metric.

  eventhook event-type put payment.succeeded --description "A payment succeeded" --schema @payment.json`, r,
		newEventTypeList(r), newEventTypeGet(r), newEventTypePut(r), newEventTypeDelete(r))
}

var eventTypeColumns = []column[client.EventType]{
	{"NAME", func(t client.EventType) string { return t.Name }},
	{"CATEGORY", func(t client.EventType) string { return t.Category }},
	{"VISIBLE TO", func(t client.EventType) string { return string(t.Visibility) }},
	{"SCHEMA", func(t client.EventType) string { return yesOrNo(len(t.Schema) > 0) }},
	{"DESCRIPTION", func(t client.EventType) string { return t.Description }},
}

func newEventTypeList(r *remote) *cobra.Command {
	var f listFlags
	cmd := r.verb("list", "List event types, newest first; built-in types are last", cobra.NoArgs, func(cmd *cobra.Command, s *session, _ []string) error {
		return printList(s, &f, func(limit *int64, cursor *string) ([]client.EventType, *string, error) {
			p, err := s.ListEventTypes(cmd.Context(), s.tenant, client.ListEventTypesParams{Limit: limit, Cursor: cursor}, s.keepBody())
			return p.Items, p.NextCursor, err
		}, eventTypeColumns)
	})
	f.addTo(cmd)
	return cmd
}

func (s *session) showEventType(t client.EventType, err error) error {
	if err != nil {
		return err
	}
	return s.answer(func(w io.Writer) error {
		return printFields(w, field{"name", t.Name}, field{"description", t.Description}, field{"category", t.Category},
			field{"visible to", string(t.Visibility)}, field{"built in", yesOrNo(t.IsBuiltin)}, field{"schema", inlineMap(t.Schema)},
			field{"updated", timeOr(t.UpdatedAt, "")})
	})
}

// inlineMap returns an object as JSON on one line, "" if it is empty.
func inlineMap[V any](m map[string]V) string {
	if len(m) == 0 {
		return ""
	}
	return inline(m)
}

func newEventTypeGet(r *remote) *cobra.Command {
	return r.verb("get NAME", "Show an event type", cobra.ExactArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		return s.showEventType(s.GetEventType(cmd.Context(), s.tenant, args[0], s.keepBody()))
	})
}

func newEventTypePut(r *remote) *cobra.Command {
	var b *body
	cmd := r.verb("put NAME", "Create or replace an event type", cobra.ExactArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		raw, err := b.read(nil)
		if err != nil {
			return err
		}
		return s.showEventType(s.PutEventTypeFrom(cmd.Context(), s.tenant, args[0], client.PutEventTypeParams{}, raw, s.keepBody()))
	})
	b = newBody(cmd)
	b.text("description", "description", "description of the event type")
	b.text("category", "category", "category, for grouping")
	b.json("schema", "schema", "JSON Schema of the data")
	b.text("visibility", "visibility", "visibility: portal, tenant or admin")
	return cmd
}

func newEventTypeDelete(r *remote) *cobra.Command {
	return deletes("event type", r.verb("delete NAME", "Delete an event type", cobra.ExactArgs(1),
		func(cmd *cobra.Command, s *session, args []string) error {
			if err := s.DeleteEventType(cmd.Context(), s.tenant, args[0], client.DeleteEventTypeParams{}); err != nil {
				return err
			}
			s.Say("The event type %s is deleted.", terminal.Printable(args[0]))
			return nil
		}))
}
