package cli

import (
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/cli/terminal"
)

func newTenant(version string) *cobra.Command {
	r := &remote{version: version}
	return newNoun("tenant", "Create, list, update, suspend, close and purge tenants (requires the admin key)", `Create, list, update, suspend, close and purge tenants. The admin key is required.

  eventhook tenant create shop --name "Shop" --max-events-per-day 1000000
  eventhook tenant list
  eventhook tenant suspend shop`, r,
		newTenantList(r), newTenantGet(r), newTenantCreate(r), newTenantUpdate(r),
		newTenantStatus(r, "suspend", client.TenantStatusSuspended, "Suspend a tenant: refuse its webhooks and changes; accepted events are processed"),
		newTenantStatus(r, "activate", client.TenantStatusActive, "Activate a suspended tenant"), newTenantClose(r), newTenantPurge(r))
}

var tenantColumns = []column[client.Tenant]{
	{"SLUG", func(t client.Tenant) string { return t.Slug }},
	{"NAME", func(t client.Tenant) string { return t.Name }},
	{"STATUS", func(t client.Tenant) string { return string(t.Status) }},
	{"EVENTS TODAY", func(t client.Tenant) string { return strconv.FormatInt(t.Usage.EventsToday, 10) }},
	{"OF", func(t client.Tenant) string { return numberOr(t.MaxEventsPerDay, "unlimited") }},
	{"BYTES STORED", func(t client.Tenant) string { return strconv.FormatInt(t.Usage.StorageBytes, 10) }},
	{"OF", func(t client.Tenant) string { return numberOr(t.MaxStorageBytes, "unlimited") }},
	{"CREATED", func(t client.Tenant) string { return terminal.Time(t.CreatedAt) }},
}

func newTenantList(r *remote) *cobra.Command {
	var f listFlags
	cmd := r.verb("list", "List tenants, newest first", cobra.NoArgs, func(cmd *cobra.Command, s *session, _ []string) error {
		return printList(s, &f, func(limit *int64, cursor *string) ([]client.Tenant, *string, error) {
			p, err := s.ListTenants(cmd.Context(), client.ListTenantsParams{Limit: limit, Cursor: cursor}, s.keepBody())
			return p.Items, p.NextCursor, err
		}, tenantColumns)
	})
	f.addTo(cmd)
	return cmd
}

func (s *session) showTenant(t client.Tenant, err error) error {
	if err != nil {
		return err
	}
	return s.answer(func(w io.Writer) error {
		return printFields(w, field{"slug", t.Slug}, field{"name", t.Name}, field{"status", string(t.Status)}, field{"id", t.ID},
			field{"events today", strconv.FormatInt(t.Usage.EventsToday, 10) + " of " + numberOr(t.MaxEventsPerDay, "unlimited")},
			field{"bytes stored", strconv.FormatInt(t.Usage.StorageBytes, 10) + " of " + numberOr(t.MaxStorageBytes, "unlimited")},
			field{"closing", closingText(t.Closing)}, field{"purge", purgeText(t.Purge)},
			field{"created", terminal.Time(t.CreatedAt)}, field{"updated", terminal.Time(t.UpdatedAt)})
	})
}

func newTenantGet(r *remote) *cobra.Command {
	return r.verb("get SLUG", "Show a tenant", cobra.ExactArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		return s.showTenant(s.GetTenant(cmd.Context(), args[0], s.keepBody()))
	})
}

// tenantFlags defines the flags for the fields of a tenant.
func (b *body) tenantFlags() *body {
	b.text("name", "name", "display name")
	b.limit("max-events-per-day", "max_events_per_day", "maximum events per day (UTC)")
	b.limit("max-storage-bytes", "max_storage_bytes", "maximum bytes of stored bodies and headers")
	return b
}

func newTenantCreate(r *remote) *cobra.Command {
	var b *body
	cmd := r.verb("create SLUG", "Create a tenant; its default name is the slug", cobra.MaximumNArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		raw, err := b.readNamed("slug", args)
		if err != nil {
			return err
		}
		t, err := s.CreateTenantFrom(cmd.Context(), raw, s.keepBody())
		if err := s.showTenant(t, err); err != nil {
			return err
		}
		s.Say("\nTo use it in other commands: export EVENTHOOK_TENANT=%s", t.Slug)
		return nil
	})
	b = newBody(cmd).tenantFlags()
	b.changes = append(b.changes, func(d document) error {
		if _, named := d["name"]; !named && d["slug"] != nil {
			d["name"] = d["slug"]
		}
		return nil
	})
	return cmd
}

func newTenantUpdate(r *remote) *cobra.Command {
	var b *body
	cmd := r.verb("update SLUG", "Update the given fields of a tenant", cobra.ExactArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		raw, err := b.readChange()
		if err != nil {
			return err
		}
		return s.showTenant(s.UpdateTenantFrom(cmd.Context(), args[0], client.UpdateTenantParams{}, raw, s.keepBody()))
	})
	b = newBody(cmd).tenantFlags()
	return cmd
}

func newTenantStatus(r *remote, verb string, status client.TenantStatus, short string) *cobra.Command {
	return r.verb(verb+" SLUG", short, cobra.ExactArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		return s.showTenant(s.UpdateTenant(cmd.Context(), args[0], client.UpdateTenantParams{}, client.TenantPatch{Status: &status}, s.keepBody()))
	})
}

// closingText describes the progress of closing a tenant, "" if the tenant is not closed.
func closingText(c *client.TenantClosing) string {
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s: %d executions cancelled, %d promises rejected, %d deliveries and %d events ended",
		c.Status, c.ExecutionsCancelled, c.PromisesRejected, c.DeliveriesEnded, c.EventsEnded)
}

// purgeText describes the progress of a purge, "" if there was no request.
func purgeText(p *client.TenantPurge) string {
	if p == nil {
		return ""
	}
	return fmt.Sprintf("%s: %d rows deleted", p.Status, p.DeletedRows)
}

func newTenantClose(r *remote) *cobra.Command {
	cmd := r.verb("close SLUG", "Close a tenant permanently: its sources and API keys stop working, and its open work ends",
		cobra.ExactArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
			return s.showTenant(s.CloseTenant(cmd.Context(), args[0], s.keepBody()))
		})
	return confirmed(cmd, func(args []string) string { return "close the tenant " + args[0] + " permanently" })
}

func newTenantPurge(r *remote) *cobra.Command {
	cmd := r.verb("purge SLUG", "Delete the data of a closed tenant in the background; `tenant get` shows the progress",
		cobra.ExactArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
			return s.showTenant(s.PurgeTenant(cmd.Context(), args[0], s.keepBody()))
		})
	return confirmed(cmd, func(args []string) string { return "delete all data of the tenant " + args[0] })
}
