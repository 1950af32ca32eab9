package main

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/internal/api"
)

func newOpenAPI() *cobra.Command {
	return &cobra.Command{
		Use:   "openapi",
		Short: "Print the API's OpenAPI 3.1 document, as a gateway serves it at /openapi.json",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := json.NewEncoder(cmd.OutOrStdout())
			out.SetIndent("", "  ")
			return out.Encode(api.Document(version))
		},
	}
}
