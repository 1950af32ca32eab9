package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/api"
	"github.com/eventhook/eventhook/internal/cli"
	"github.com/eventhook/eventhook/internal/mcp"
)

func newMCP() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serve a tenant's webhooks as tools of the Model Context Protocol",
		Long: `Serve a tenant's webhooks as tools of the Model Context Protocol, for an assistant that
starts this program and calls it over standard input and output. Its configuration is
usually:

  {"mcpServers": {"eventhook": {
    "command": "eventhook", "args": ["mcp", "--server", "https://hooks.example.com"],
    "env": {"EVENTHOOK_TENANT": "acme", "EVENTHOOK_KEY": "ehk_…"}}}}

The tools list and search sources, routes, events, subscriptions, deliveries, work, replays
and agents, explain how an event is routed, and test filters and routes against past
events. With --allow-writes they also retry, reprocess, replay and send test events; a call
for many objects must name their number.

Answers are cut to 64 KiB and marked as untrusted text. Give the program a key with the
scope read. Work and promises need the scope work; tests of sources and backtests of routes,
the audit log, the export, and most tools of --allow-writes need the scope manage.`,
		Args: cobra.NoArgs,
	}
	gateway := cli.NewTenantGateway(version)
	gateway.AddTo(cmd.Flags())
	writes := cmd.Flags().Bool("allow-writes", false, "also offer the tools that retry, reprocess, replay and send test events")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		connection, err := gateway.Connect(cmd)
		if err != nil {
			return err
		}
		server, err := newMCPServer(connection, *writes)
		if err != nil {
			return err
		}
		return server.Run(cmd.Context())
	}
	return cmd
}

func newMCPServer(to cli.Connection, allowWrites bool) (*mcp.Server, error) {
	document, err := json.Marshal(api.Document(version))
	if err != nil {
		return nil, fmt.Errorf("encode the OpenAPI document: %w", err)
	}
	return mcp.New(mcp.Config{
		Version:     version,
		Document:    document,
		Tenant:      to.Tenant,
		AllowWrites: allowWrites,
		Do: func(ctx context.Context, r client.Request) ([]byte, error) {
			answer, err := to.Do(ctx, r)
			return answer, to.Advise(err)
		},
	})
}
