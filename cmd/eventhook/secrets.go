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
		Short: "See with which keys secrets are sealed, and seal them with a new one",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSecretsStatus(), newSecretsRotate(), newSecretsAcceptKeys())
	return cmd
}

func newSecretsStatus() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Count the stored secrets by key, and say whether they are bound to their rows",
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
			tellBinding(cmd.OutOrStdout(), st)
			return nil
		})
	}
	return cmd
}

func newSecretsRotate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rotate",
		Short: "Seal all stored secrets with the newest key, bound to their rows",
		Long: `Seal all stored secrets anew, with the first of EVENTHOOK_ENCRYPTION_KEYS, while
the gateway runs. Interrupted, it goes on where it stopped when it is run again.
Every instance must know the new key before: docs/secrets.md has the steps.

After an upgrade from a version that did not bind secrets to their rows, run it
once all instances are upgraded: former versions cannot read bound secrets.`,
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
		Long: `Seal the canary of the database anew with the first of EVENTHOOK_ENCRYPTION_KEYS,
so that instances with this key are ready and seal again. It is for a database
whose former keys are lost: what they have sealed cannot be opened, and has to
be given again. If the former keys exist, configure them instead.`,
		Args: cobra.NoArgs,
	}
	s := addSettings(cmd)
	yes := cmd.Flags().Bool("yes", false, "confirm that the former keys are lost")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !*yes {
			return input.Usagef("instances that have the former keys are not ready any more after this; confirm with --yes")
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

// tellBinding says how the database's secrets are sealed.
func tellBinding(w io.Writer, st *store) {
	if err := st.KeysFit(); err != nil {
		_, _ = fmt.Fprintln(w, message(err))
		return
	}
	if st.CanaryKey() == "" {
		_, _ = fmt.Fprintln(w, "The database has no canary yet: the first start of an instance writes it.")
		return
	}
	text := "Unbound secrets still open: run eventhook secrets rotate once all instances are upgraded."
	if st.RefusesUnbound() {
		text = "Secrets are bound to their rows; unbound ones are refused."
	}
	if id := st.CanaryKey(); id != st.keys.ring.KeyIDs()[0] {
		text += " The canary needs the key " + id + " until eventhook secrets rotate has run."
	}
	_, _ = fmt.Fprintln(w, text)
}

// message is what an error says to people.
func message(err error) string {
	if e, ok := errors.AsType[*eventhook.Error](err); ok {
		return e.Message
	}
	return err.Error()
}

func rotate(ctx context.Context, st *store, stdout, stderr io.Writer) error {
	ids := st.keys.ring.KeyIDs()
	const lines = 50 // of progress, however many there are
	told := 0
	done, err := st.Reseal(ctx, ids[0], func(done, total int) {
		if done-told > total/lines || done == total {
			told = done
			_, _ = fmt.Fprintf(stderr, "re-sealed %d of %d …\n", done, total)
		}
	})
	if err != nil {
		return fmt.Errorf("%w\nre-sealed %d; run it again to go on", err, done.Count)
	}
	_, _ = fmt.Fprintf(stdout, "re-sealed %d values with the key %s\n", done.Count, ids[0])
	counts, err := st.CountSealed(ctx)
	if err != nil {
		return err
	}
	tellOldKeys(stdout, sealing{ids, counts})
	if done.Unbound > 0 {
		_, _ = fmt.Fprintf(stderr, "eventhook: %d values are not bound to their rows yet, so that unbound ones are still taken: give them again, or run it again\n", done.Unbound)
	}
	if done.Left > 0 {
		_, _ = fmt.Fprintf(stderr, "eventhook: %d values kept changing meanwhile: run it again\n", done.Left)
	}
	if n := len(done.Unopened); n > 0 {
		_, _ = fmt.Fprintf(stderr, "eventhook: %d values cannot be opened and are as they were; docs/secrets.md says what can be done:\n", n)
		for _, u := range done.Unopened {
			_, _ = fmt.Fprintf(stderr, "  %s %s: %v\n", u.Column, u.ID, u.Err)
		}
	}
	if done.Left+len(done.Unopened)+done.Unbound > 0 {
		return terminal.ErrPrinted
	}
	return nil
}

// sealing is which keys there are, the newest first, and what they have sealed.
type sealing struct {
	ids    []string
	counts []pg.SealedCount
}

// of is how many values a key has sealed.
func (s sealing) of(id string) (n int) {
	for _, c := range s.counts {
		if c.KeyID == id {
			n += c.Count
		}
	}
	return n
}

// unknown are the ids of keys that are not configured and have sealed something.
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

// tellOldKeys says which of the older keys nothing needs any more.
func tellOldKeys(w io.Writer, s sealing) {
	for _, id := range s.ids[1:] {
		if n := s.of(id); n > 0 {
			_, _ = fmt.Fprintf(w, "the key %s is still needed: %d values are sealed with it\n", id, n)
		} else {
			_, _ = fmt.Fprintf(w, "the key %s is no longer needed and may be removed, once no instance seals with it\n", id)
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

// printKey prints a line for each column that a key has sealed values in.
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
