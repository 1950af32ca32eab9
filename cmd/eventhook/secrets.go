package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/cli/input"
	"github.com/eventhook/eventhook/internal/cli/terminal"
	"github.com/eventhook/eventhook/internal/pg"
)

func newSecrets() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "secrets",
		Short: "Show which keys seal the stored secrets, and rotate the encryption keys",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSecretsStatus(), newSecretsRotate(), newSecretsAcceptKeys())
	return cmd
}

func newSecretsStatus() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Count the stored secrets by encryption key",
		Args:  cobra.NoArgs,
	}
	s := addSettings(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return s.withAnyKeys(cmd, true, func(ctx context.Context, st *store) error {
			counts, err := st.CountSealed(ctx)
			if err != nil {
				return err
			}
			if err := printSealed(cmd.OutOrStdout(), sealing{st.keys.ring.KeyIDs(), counts}); err != nil {
				return err
			}
			printBinding(cmd.OutOrStdout(), st)
			return nil
		})
	}
	return cmd
}

func newSecretsRotate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rotate",
		Short: "Re-seal all stored secrets with the newest key, bound to their rows",
		Long: `Re-seal all stored secrets with the first key of EVENTHOOK_ENCRYPTION_KEYS, while
the gateway runs. If it is interrupted, run it again: it continues where it
stopped. Configure the new key at every instance first; docs/secrets.md describes
the steps.

After an upgrade from a version that did not bind secrets to their rows, run it
when all instances are upgraded: older versions cannot read bound secrets.`,
		Args: cobra.NoArgs,
	}
	s := addSettings(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return s.withStore(cmd, true, func(ctx context.Context, st *store) error {
			return rotate(ctx, st, cmd.OutOrStdout(), cmd.ErrOrStderr())
		})
	}
	return cmd
}

func newSecretsAcceptKeys() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "accept-keys",
		Short: "Accept the configured keys for a database whose keys are lost",
		Long: `Seal the canary of the database with the first key of EVENTHOOK_ENCRYPTION_KEYS.
Instances with this key are then ready and seal secrets. Use it only if the former
keys are lost: the secrets that they sealed cannot be opened and have to be
entered again. If the former keys exist, configure them instead.`,
		Args: cobra.NoArgs,
	}
	s := addSettings(cmd)
	yes := cmd.Flags().Bool("yes", false, "confirm that the former keys are lost")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !*yes {
			return input.Usagef("instances with the former keys will not be ready after this; confirm with --yes")
		}
		return s.withAnyKeys(cmd, true, func(ctx context.Context, st *store) error {
			if err := st.ReplaceCanary(ctx); err != nil {
				return err
			}
			_, _ = fmt.Fprintf(cmd.OutOrStdout(), "the database accepts the key %s\n", st.keys.ring.KeyIDs()[0])
			return nil
		})
	}
	return cmd
}

// printBinding prints whether secrets are bound to their rows and which key the
// canary needs.
func printBinding(w io.Writer, st *store) {
	if err := st.KeysFit(); err != nil {
		_, _ = fmt.Fprintln(w, message(err))
		return
	}
	if st.CanaryKey() == "" {
		_, _ = fmt.Fprintln(w, "The database has no canary yet: the first start of an instance writes it.")
		return
	}
	text := "Unbound secrets are still accepted: run eventhook secrets rotate when all instances are upgraded."
	if st.RefusesUnbound() {
		text = "Secrets are bound to their rows; unbound ones are refused."
	}
	if id := st.CanaryKey(); id != st.keys.ring.KeyIDs()[0] {
		text += " The canary needs the key " + id + " until eventhook secrets rotate has run."
	}
	_, _ = fmt.Fprintln(w, text)
}

// message returns the text of an error for users.
func message(err error) string {
	if e, ok := errors.AsType[*eventhook.Error](err); ok {
		return e.Message
	}
	return err.Error()
}

func rotate(ctx context.Context, st *store, stdout, stderr io.Writer) error {
	ids := st.keys.ring.KeyIDs()
	const maxLines = 50 // of progress
	printed := 0
	done, err := st.Reseal(ctx, ids[0], func(done, total int) {
		if done-printed > total/maxLines || done == total {
			printed = done
			_, _ = fmt.Fprintf(stderr, "re-sealed %d of %d …\n", done, total)
		}
	})
	if err != nil {
		return fmt.Errorf("%w\nre-sealed %d values; run it again to continue", err, done.Count)
	}
	_, _ = fmt.Fprintf(stdout, "re-sealed %d values with the key %s\n", done.Count, ids[0])
	counts, err := st.CountSealed(ctx)
	if err != nil {
		return err
	}
	printOldKeys(stdout, sealing{ids, counts})
	if done.Unbound > 0 {
		_, _ = fmt.Fprintf(stderr, "eventhook: %d values are not bound to their rows, so unbound values are still accepted: enter them again, or run this command again\n", done.Unbound)
	}
	if done.Left > 0 {
		_, _ = fmt.Fprintf(stderr, "eventhook: %d values changed at the same time: run this command again\n", done.Left)
	}
	if n := len(done.Unopened); n > 0 {
		_, _ = fmt.Fprintf(stderr, "eventhook: %d values cannot be opened and were not changed; see docs/secrets.md:\n", n)
		for _, u := range done.Unopened {
			_, _ = fmt.Fprintf(stderr, "  %s %s: %v\n", u.Column, u.ID, u.Err)
		}
	}
	if done.Left+len(done.Unopened)+done.Unbound > 0 {
		return terminal.ErrPrinted
	}
	return nil
}

// sealing is the number of sealed values by key.
type sealing struct {
	ids    []string // of the configured keys, the newest first
	counts []pg.SealedCount
}

// total returns the number of values that a key has sealed.
func (s sealing) total(id string) (n int) {
	for _, c := range s.counts {
		if c.KeyID == id {
			n += c.Count
		}
	}
	return n
}

// unknown returns the ids of keys that have sealed values and are not configured.
func (s sealing) unknown() []string {
	ids := map[string]bool{}
	for _, c := range s.counts {
		ids[c.KeyID] = true
	}
	for _, id := range s.ids {
		delete(ids, id)
	}
	return slices.Sorted(maps.Keys(ids))
}

// printOldKeys prints which of the older keys are still needed.
func printOldKeys(w io.Writer, s sealing) {
	for _, id := range s.ids[1:] {
		if n := s.total(id); n > 0 {
			_, _ = fmt.Fprintf(w, "the key %s is still needed: %d values are sealed with it\n", id, n)
		} else {
			_, _ = fmt.Fprintf(w, "the key %s is no longer needed and may be removed when no instance seals with it\n", id)
		}
	}
}

func printSealed(w io.Writer, s sealing) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "KEY\tVALUES\tIN\tBOUND\tSTATE")
	for i, id := range s.ids {
		state := "configured"
		if i == 0 {
			state = "newest: seals"
		}
		s.printKey(table, id, id, state)
	}
	for _, id := range s.unknown() {
		if id == "" {
			s.printKey(table, id, "(none)", "not sealed at all")
		} else {
			s.printKey(table, id, id, "not configured: cannot be opened")
		}
	}
	return table.Flush()
}

// printKey prints a line for each database column with values that the key sealed.
func (s sealing) printKey(w io.Writer, id, name, state string) {
	printed := false
	for _, c := range s.counts {
		if c.KeyID == id {
			_, _ = fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\n", terminal.Quote(name), c.Count, c.Column, map[bool]string{true: "yes", false: "no"}[c.IsBound], state)
			printed = true
		}
	}
	if !printed {
		_, _ = fmt.Fprintf(w, "%s\t0\t\t\t%s\n", name, state)
	}
}
