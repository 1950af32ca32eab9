package providers

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/internal/api"
	"github.com/eventhook/eventhook/internal/cli/input"
	"github.com/eventhook/eventhook/internal/docs"
)

// New returns the command.
func New() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "providers [ID]",
		Short: "List the built-in providers, or show one",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			list, markdown := api.Providers(), docs.Providers
			if len(args) > 0 {
				list = slices.DeleteFunc(list, func(p api.Provider) bool { return p.ID != args[0] })
				markdown = func() string { return docs.Provider(args[0]) }
			}
			if len(list) == 0 {
				return input.Usagef("there is no provider %q; eventhook providers lists all", args[0])
			}
			return printProviders(cmd.OutOrStdout(), output, list, markdown)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table, json or markdown")
	return cmd
}

func printProviders(w io.Writer, format string, list []api.Provider, markdown func() string) error {
	switch format {
	case "table":
		return printProviderTable(w, list)
	case "json":
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(list)
	case "markdown":
		_, err := io.WriteString(w, markdown())
		return err
	}
	return input.Usagef("--output %q, want table, json or markdown", format)
}

func printProviderTable(w io.Writer, list []api.Provider) error {
	const gap = 2
	t := tabwriter.NewWriter(w, 0, 0, gap, ' ', 0)
	_, _ = fmt.Fprintln(t, "PROVIDER\tSCHEME\tNEEDS\tBODY COVERED\tHANDSHAKE\tNAME") // Flush returns the error
	for _, p := range list {
		covered, handshake := "yes", "-"
		if !p.CoversBody {
			covered = "no"
		}
		if p.Handshake != nil {
			handshake = *p.Handshake
		}
		needs := strings.Join(p.RequiredFields, ",")
		if needs == "" {
			needs = "-"
		}
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", p.ID, p.Scheme, needs, covered, handshake, p.Name)
	}
	return t.Flush()
}
