package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/client"
)

func newAPIKey(version string) *cobra.Command {
	r := &remote{version: version, ofTenant: true}
	return newNoun("key", "Create, list and revoke API keys of a tenant (requires the admin key)", `Create, list and revoke API keys of a tenant. The admin key is required.

Scopes: read (read everything), manage (change sources, routes and
subscriptions), publish (publish events), work (claim and complete tasks and
workflows), deliver (agents).

  eventhook key create ci --tenant shop --scope read,manage --expires 90d`, r,
		newKeyList(r), newKeyCreate(r), newKeyDelete(r))
}

var keyColumns = []column[client.Key]{
	{"ID", func(k client.Key) string { return k.ID }},
	{"NAME", func(k client.Key) string { return k.Name }},
	{"KEY", func(k client.Key) string { return k.Prefix + "…" }},
	{"SCOPES", func(k client.Key) string { return strings.Join(k.Scopes, ",") }},
	{"EXPIRES", func(k client.Key) string { return timeOr(k.ExpiresAt, "never") }},
	{"LAST USED", func(k client.Key) string { return timeOr(k.LastUsedAt, "never") }},
}

func newKeyList(r *remote) *cobra.Command {
	var f listFlags
	cmd := r.verb("list", "List API keys, newest first", cobra.NoArgs, func(cmd *cobra.Command, s *session, _ []string) error {
		return printList(s, &f, func(limit *int64, cursor *string) ([]client.Key, *string, error) {
			p, err := s.ListKeys(cmd.Context(), s.tenant, client.ListKeysParams{Limit: limit, Cursor: cursor}, s.keepBody())
			return p.Items, p.NextCursor, err
		}, keyColumns)
	})
	f.addTo(cmd)
	return cmd
}

func newKeyCreate(r *remote) *cobra.Command {
	var scopes []string
	var expires string
	cmd := r.verb("create NAME", "Create an API key; it is shown only once", cobra.ExactArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		body := client.KeyCreate{Name: args[0], Scopes: scopes}
		if expires != "" {
			at, err := timeFlag("expires", expires, time.Now())
			if err != nil {
				return err
			}
			body.ExpiresAt = &at
		}
		k, err := s.CreateKey(cmd.Context(), s.tenant, body, s.keepBody())
		if err != nil {
			return err
		}
		return s.answer(func(w io.Writer) error { return printNewKey(w, k, s.tenant) })
	})
	cmd.Flags().StringSliceVar(&scopes, "scope", []string{"read"}, "scopes of the key: read, manage, publish, work, deliver")
	cmd.Flags().StringVar(&expires, "expires", "",
		"expiry: a time such as 2030-01-31T00:00:00Z, or a duration from now such as 90d; never by default")
	return cmd
}

// printNewKey prints a key and how to use it. The API returns the key only once.
func printNewKey(w io.Writer, k client.Key, tenant string) error {
	key := textOf(k.Key)
	if err := printFields(w, field{"key", key}, field{"id", k.ID}, field{"name", k.Name}, field{"scopes", strings.Join(k.Scopes, ",")},
		field{"expires", timeOr(k.ExpiresAt, "never")}); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nThe key is not shown again. To use the key:\n  export EVENTHOOK_TENANT=%s EVENTHOOK_KEY=%s\n", tenant, key)
	return err
}

func newKeyDelete(r *remote) *cobra.Command {
	return deletes("API key", r.verb("delete ID|latest", "Revoke an API key, within a second on all instances", cobra.ExactArgs(1),
		func(cmd *cobra.Command, s *session, args []string) error {
			id, err := s.keyID(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if err := s.DeleteKey(cmd.Context(), s.tenant, id); err != nil {
				return err
			}
			s.Say("The key %s is revoked.", id)
			return nil
		}))
}
