package cli

import (
	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/cli/terminal"
)

var rejectionColumns = []column[client.Rejection]{
	{"AT", func(r client.Rejection) string { return terminal.Time(r.RejectedAt) }},
	{"REASON", func(r client.Rejection) string { return r.Reason }},
	{"DETAIL", func(r client.Rejection) string { return textOf(r.Detail) }},
	{"METHOD", func(r client.Rejection) string { return r.Method }},
	{"FROM", func(r client.Rejection) string { return textOf(r.ClientAddress) }},
	{"BYTES", func(r client.Rejection) string { return numberOr(r.BodySize, "") }},
}

func newSourceRejections(r *remote) *cobra.Command {
	var f listFlags
	cmd := r.verb("rejections SLUG", "List recently rejected requests with their reasons", cobra.ExactArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		var counts []client.RejectionCount
		err := printList(s, &f, func(limit *int64, cursor *string) ([]client.Rejection, *string, error) {
			p, err := s.ListRejections(cmd.Context(), s.tenant, args[0], client.ListRejectionsParams{Limit: limit, Cursor: cursor}, s.keepBody())
			counts = p.Counts
			return p.Items, p.NextCursor, err
		}, rejectionColumns)
		for _, c := range counts {
			s.Say("%s: %d since %s", c.Reason, c.Count, terminal.Time(c.FirstAt))
		}
		return err
	})
	f.addTo(cmd)
	return cmd
}
