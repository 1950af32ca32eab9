package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/cli/terminal"
)

func newAudit(version string) *cobra.Command {
	r := &remote{version: version}
	cmd := newNoun("audit", "See who changed what", `See who changed what, as what, from where; secrets are never in it.

  eventhook audit list                      everything; needs the admin key
  eventhook audit list --tenant shop        about one tenant; scope manage
  eventhook audit list --action route.updated -o json`, r, newAuditList(r))
	cmd.PersistentFlags().StringVar(&r.tenant, "tenant", "", "about one tenant; EVENTHOOK_TENANT")
	return cmd
}

var auditColumns = []column[client.AuditEntry]{
	{"AT", func(e client.AuditEntry) string { return terminal.Time(e.At) }},
	{"TENANT", func(e client.AuditEntry) string { return textOf(e.Tenant) }},
	{"ACTION", func(e client.AuditEntry) string { return e.Action }},
	{"WHAT", func(e client.AuditEntry) string { return e.Resource.Name }},
	{"BY", func(e client.AuditEntry) string { return strings.TrimSpace(string(e.Actor.Type) + " " + e.Actor.Name) }},
	{"FROM", func(e client.AuditEntry) string { return textOf(e.SourceIP) }},
	{"CHANGED", func(e client.AuditEntry) string { return changedFields(e.Changes) }},
}

func changedFields(changes []client.AuditedChange) string {
	names := make([]string, len(changes))
	for i, c := range changes {
		names[i] = c.Field
	}
	return strings.Join(names, ",")
}

func newAuditList(r *remote) *cobra.Command {
	var f listFlags
	var action string
	cmd := r.verb("list", "List changes, newest first; -o json has their values", cobra.NoArgs, func(cmd *cobra.Command, s *session, _ []string) error {
		return printList(s, &f, func(limit *int64, cursor *string) ([]client.AuditEntry, *string, error) {
			if s.tenant == "" {
				p, err := s.ListAudit(cmd.Context(), client.ListAuditParams{Action: optionalFlag(action), Limit: limit, Cursor: cursor}, s.keep())
				return p.Items, p.NextCursor, err
			}
			p, err := s.ListTenantAudit(cmd.Context(), s.tenant, client.ListTenantAuditParams{Action: optionalFlag(action), Limit: limit, Cursor: cursor}, s.keep())
			return p.Items, p.NextCursor, err
		}, auditColumns)
	})
	cmd.Flags().StringVar(&action, "action", "", "only these, such as source.updated")
	f.addTo(cmd)
	return cmd
}
