package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/cli/terminal"
)

func newAudit(version string) *cobra.Command {
	r := &remote{version: version}
	cmd := newNoun("audit", "List changes of the configuration (audit log)", `List the changes of the configuration: actor, time, client address and changed
fields. Secrets are never recorded.

  eventhook audit list                      all tenants; requires the admin key
  eventhook audit list --tenant shop        one tenant; requires the scope manage
  eventhook audit list --action route.updated -o json`, r, newAuditList(r))
	cmd.PersistentFlags().StringVar(&r.tenant, "tenant", "", "slug of a tenant; EVENTHOOK_TENANT; all tenants by default")
	return cmd
}

var auditColumns = []column[client.AuditEntry]{
	{"AT", func(e client.AuditEntry) string { return terminal.Time(e.At) }},
	{"TENANT", func(e client.AuditEntry) string { return textOf(e.Tenant) }},
	{"ACTION", func(e client.AuditEntry) string { return e.Action }},
	{"RESOURCE", func(e client.AuditEntry) string { return e.Resource.Name }},
	{"BY", func(e client.AuditEntry) string { return actorText(e.Actor) }},
	{"FROM", func(e client.AuditEntry) string { return textOf(e.SourceIP) }},
	{"CHANGED", func(e client.AuditEntry) string { return changedFields(e.Changes) }},
}

// actorText returns the actor of a change.
func actorText(a client.AuditActor) string {
	switch a.Type {
	case client.AuditActorTypeAdmin, client.AuditActorTypeAdminOnBehalfOf:
		return "admin key"
	case client.AuditActorTypeAPIKey:
		return "key " + a.Name
	case client.AuditActorTypeSession:
		return a.Name
	default:
		return string(a.Type)
	}
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
	var action, trace, request, correlation string
	cmd := r.verb("list", "List changes, newest first; -o json includes the values", cobra.NoArgs, func(cmd *cobra.Command, s *session, _ []string) error {
		return printList(s, &f, func(limit *int64, cursor *string) ([]client.AuditEntry, *string, error) {
			if s.tenant == "" {
				p, err := s.ListAudit(cmd.Context(), client.ListAuditParams{Action: optionalFlag(action), TraceID: optionalFlag(trace),
					RequestID: optionalFlag(request), CorrelationID: optionalFlag(correlation), Limit: limit, Cursor: cursor}, s.keepBody())
				return p.Items, p.NextCursor, err
			}
			p, err := s.ListTenantAudit(cmd.Context(), s.tenant,
				client.ListTenantAuditParams{Action: optionalFlag(action), TraceID: optionalFlag(trace),
					RequestID: optionalFlag(request), CorrelationID: optionalFlag(correlation), Limit: limit, Cursor: cursor}, s.keepBody())
			return p.Items, p.NextCursor, err
		}, auditColumns)
	})
	cmd.Flags().SetNormalizeFunc(shortNames)
	cmd.Flags().StringVar(&action, "action", "", "list only this action, such as source.updated")
	cmd.Flags().StringVar(&trace, "trace-id", "", "W3C trace id: 32 hexadecimal digits; also --trace")
	cmd.Flags().StringVar(&request, "request-id", "", "X-Request-Id of the request")
	cmd.Flags().StringVar(&correlation, "correlation-id", "", "correlation id, shared by all changes of one act; also --correlation")
	f.addTo(cmd)
	return cmd
}
