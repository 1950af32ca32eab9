package terminal

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/internal/cli/input"
)

// printer prints answers: tables for people, or the API's JSON for programs.
type Printer struct {
	Out, Hints io.Writer
	JSON       bool
}

func NewPrinter(cmd *cobra.Command, format string) (Printer, error) {
	if format != "table" && format != "json" {
		return Printer{}, input.Usagef("--output %q, want table or json", format)
	}
	return Printer{Out: cmd.OutOrStdout(), Hints: cmd.ErrOrStderr(), JSON: format == "json"}, nil
}

// say tells a person something; a program hears nothing.
func (p Printer) Say(format string, args ...any) {
	if !p.JSON {
		_, _ = fmt.Fprintf(p.Out, format+"\n", args...)
	}
}
