package cli

import (
	"cmp"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/internal/cli/input"
)

func newSourceHandshake(r *remote) *cobra.Command {
	var reveal, reset bool
	cmd := r.verb("handshake SLUG", "Show the status of a source's handshake", cobra.ExactArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		switch ctx := cmd.Context(); {
		case reveal && reset:
			return input.Usagef("--reveal and --reset cannot be combined")
		case reveal:
			secret, err := s.RevealHandshakeSecret(ctx, s.tenant, args[0], s.keepBody())
			if err != nil {
				return err
			}
			return s.answer(func(w io.Writer) error { _, err := fmt.Fprintln(w, secret.Secret); return err })
		case reset:
			if err := s.ResetHandshake(ctx, s.tenant, args[0]); err != nil {
				return err
			}
			s.Say("The source %s waits for the next handshake.", args[0])
			return nil
		}
		h, err := s.GetHandshake(cmd.Context(), s.tenant, args[0], s.keepBody())
		if err != nil {
			return err
		}
		return s.answer(func(w io.Writer) error {
			return printFields(w, field{"handshake", cmp.Or(textOf(h.Handshake), "none")}, field{"status", string(h.Status)},
				field{"learned", timeOr(h.LearnedAt, "")}, field{"revealed", timeOr(h.RevealedAt, "")})
		})
	})
	cmd.Flags().BoolVar(&reveal, "reveal", false, "show the secret from the handshake; possible only once")
	cmd.Flags().BoolVar(&reset, "reset", false, "delete the secret from the handshake and wait for the next handshake")
	return cmd
}
