package cli

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/cli/input"
	"github.com/eventhook/eventhook/internal/cli/terminal"
)

// searchFlags select the events of a search.
type searchFlags struct {
	filter string
	spanFlags
}

func newEventSearch(r *remote) *cobra.Command {
	var f listFlags
	var which searchFlags
	cmd := r.verb("search", "Search events by a filter on header and body", cobra.NoArgs,
		func(cmd *cobra.Command, s *session, _ []string) error {
			search, err := which.request(time.Now())
			if err != nil {
				return err
			}
			return printList(s, &f, func(limit *int64, cursor *string) ([]client.Event, *string, error) {
				search.Limit, search.Cursor = limit, cursor
				p, err := s.SearchEvents(cmd.Context(), s.tenant, search, s.keepBody())
				if err == nil && p.NextCursor != nil && p.ScannedUntil != nil {
					_, _ = fmt.Fprintf(s.Hints, "Searched %d events, back to %s\n", p.Scanned, terminal.Time(*p.ScannedUntil))
				}
				return p.Items, p.NextCursor, err
			}, eventColumns)
		})
	cmd.Long = cmd.Short + `, newest first.
The filter is a JSON object as in routes: paths such as body.id, header.x-env or
event.type, and values, lists of values or operators such as $gte. The
command continues until it has found --limit events or has searched the whole time
span.`
	cmd.Example = `  eventhook event search --since 24h --filter '{"body.data.object.customer":"cus_42"}'
  eventhook event search --since 7d --filter '{"event.type":"invoice.paid","body.amount":{"$gte":1000}}'`
	cmd.Flags().StringVar(&which.filter, "filter", "", "filter as a JSON object; required")
	which.addTo(cmd.Flags(), "received")
	f.addTo(cmd)
	return cmd
}

// request returns the body of the first request.
func (f *searchFlags) request(now time.Time) (client.EventSearch, error) {
	search := client.EventSearch{}
	if f.filter == "" || f.since == "" {
		return search, input.Usagef("--filter and --since are required: what to search for, and how far back")
	}
	if err := json.Unmarshal([]byte(f.filter), &search.Filter); err != nil {
		return search, input.Usagef("--filter must be a JSON object, such as '{\"body.id\":\"42\"}'")
	}
	since, until, err := f.bounds(now)
	if err != nil {
		return search, err
	}
	search.ReceivedAfter, search.ReceivedBefore = *since, until
	return search, nil
}
