package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/client"
)

var providerColumns = []column[client.Provider]{
	{"PROVIDER", func(p client.Provider) string { return p.ID }},
	{"SCHEME", func(p client.Provider) string { return p.Scheme }},
	{"NEEDS", func(p client.Provider) string { return strings.Join(p.RequiredFields, ",") }},
	{"BODY COVERED", func(p client.Provider) string { return yesOrNo(p.CoversBody) }},
	{"HANDSHAKE", func(p client.Provider) string { return textOf(p.Handshake) }},
	{"NAME", func(p client.Provider) string { return p.Name }},
}

func newSourceProviders(r *remote) *cobra.Command {
	f := listFlags{limit: maxPerPage}
	cmd := r.verb("providers", "List the providers that the gateway supports", cobra.NoArgs, func(cmd *cobra.Command, s *session, _ []string) error {
		return printList(s, &f, func(limit *int64, cursor *string) ([]client.Provider, *string, error) {
			p, err := s.ListProviders(cmd.Context(), s.tenant, client.ListProvidersParams{Limit: limit, Cursor: cursor}, s.keepBody())
			return p.Items, p.NextCursor, err
		}, providerColumns)
	})
	f.addTo(cmd)
	return cmd
}
