package cli

import (
	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/internal/cli/terminal"
)

// confirmed adds --yes to a command that deletes something or cannot be undone. Without the
// flag, the command asks first, before it calls the gateway. act describes it by its arguments,
// such as "delete the source github".
func confirmed(cmd *cobra.Command, act func(args []string) string) *cobra.Command {
	var c terminal.Confirmation
	c.AddTo(cmd)
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := c.Ask(cmd, act(args)); err != nil {
			return err
		}
		return run(cmd, args)
	}
	return cmd
}

// deletes adds --yes to a command that deletes the object that its first argument names.
func deletes(thing string, cmd *cobra.Command) *cobra.Command {
	return confirmed(cmd, func(args []string) string { return "delete the " + thing + " " + args[0] })
}
