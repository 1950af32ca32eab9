package terminal

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/internal/cli/input"
)

// Printer is the output of a command: tables and sentences for users, or the JSON
// of the API for programs.
type Printer struct {
	Out   io.Writer // results
	Hints io.Writer // advice, which is no part of the result
	JSON  bool
}

// NewPrinter returns the printer for a value of --output: table or json.
func NewPrinter(cmd *cobra.Command, format string) (Printer, error) {
	if format != "table" && format != "json" {
		return Printer{}, input.Usagef("--output %q, want table or json", format)
	}
	return Printer{Out: cmd.OutOrStdout(), Hints: cmd.ErrOrStderr(), JSON: format == "json"}, nil
}

// Say prints a line for users. It prints nothing if the output is JSON.
func (p Printer) Say(format string, args ...any) {
	if !p.JSON {
		_, _ = fmt.Fprintf(p.Out, format+"\n", args...)
	}
}
