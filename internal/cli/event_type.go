package cli

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/cli/terminal"
)

func newEventType(version string) *cobra.Command {
	r := &remote{version: version, ofTenant: true}
	return newNoun("event-type", "Describe the events of a tenant", `Describe the events of a tenant: a catalogue, with a JSON Schema where there is
one. An unknown or misshapen event is delivered all the same, and counted.

  eventhook event-type put payment.succeeded --description "Money has come" --schema @payment.json`, r,
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
	cmd := r.verb("list", "List the catalogue, newest first; the gateway's own come last", cobra.NoArgs, func(cmd *cobra.Command, s *session, _ []string) error {
		return printList(s, &f, func(limit *int64, cursor *string) ([]client.EventType, *string, error) {
			p, err := s.ListEventTypes(cmd.Context(), s.tenant, client.ListEventTypesParams{Limit: limit, Cursor: cursor}, s.keep())
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
			field{"updated", momentOr(t.UpdatedAt, "")})
	})
}

// inlineMap is an object as JSON on one line, "" for an empty one.
func inlineMap[V any](m map[string]V) string {
	if len(m) == 0 {
		return ""
	}
	return inline(m)
}

func newEventTypeGet(r *remote) *cobra.Command {
	return r.verb("get NAME", "Show an event type", cobra.ExactArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		return s.showEventType(s.GetEventType(cmd.Context(), s.tenant, args[0], s.keep()))
	})
}

func newEventTypePut(r *remote) *cobra.Command {
	var b *body
	cmd := r.verb("put NAME", "Put an event type into the catalogue, or replace what it says", cobra.ExactArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		raw, err := b.read(nil)
		if err != nil {
			return err
		}
		return s.showEventType(s.PutEventTypeFrom(cmd.Context(), s.tenant, args[0], client.PutEventTypeParams{}, raw, s.keep()))
	})
	b = newBody(cmd)
	b.text("description", "description", "what it means")
	b.text("category", "category", "a group of your own")
	b.json("schema", "schema", "JSON Schema of the data")
	b.text("visibility", "visibility", "tenant, or admin")
	return cmd
}

func newEventTypeDelete(r *remote) *cobra.Command {
	return r.verb("delete NAME", "Take an event type out of the catalogue", cobra.ExactArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		if err := s.DeleteEventType(cmd.Context(), s.tenant, args[0], client.DeleteEventTypeParams{}); err != nil {
			return err
		}
		s.Say("The event type %s is deleted.", terminal.Printable(args[0]))
		return nil
	})
}
