package terminal

import (
	"bufio"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/internal/cli/input"
)

// Confirmation is the flag --yes of a command that deletes something or cannot be undone.
type Confirmation struct{ yes bool }

// AddTo defines the flag.
func (c *Confirmation) AddTo(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&c.yes, "yes", "y", false, "do not ask; required without a terminal")
}

var errNotConfirmed = errors.New("not confirmed: nothing was changed")

// Ask asks the user to confirm an act, such as "delete the source github and its routes",
// unless --yes is set. Without a terminal, it returns a usage error that names --yes.
func (c *Confirmation) Ask(cmd *cobra.Command, act string) error {
	act = Printable(act)
	switch {
	case c.yes:
		return nil
	case !IsTerminal(cmd.InOrStdin()) || !IsTerminal(cmd.ErrOrStderr()):
		return input.Usagef("cannot ask whether to %s, since there is no terminal: confirm with --yes", act)
	}
	_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%s%s? [y/N] ", strings.ToUpper(act[:1]), act[1:])
	answer, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n') // an error is no answer
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errNotConfirmed
}
