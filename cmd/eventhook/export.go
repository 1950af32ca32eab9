package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/configs"
	"github.com/eventhook/eventhook/internal/pg"
)

func newExport() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export [--tenant SLUG]... [-o FOLDER]",
		Short: "Export tenants, sources, routes and subscriptions as YAML for apply",
		Long: `Export tenants with their sources, routes and subscriptions as YAML for apply.
The order is always the same, and values that equal their default are omitted.

Secrets are not exported: ${ACME_GITHUB_SECRET_1} stands for the first secret of
acme's source github, and a comment lists all such variables. Secrets that a
provider sent in its handshake are omitted; applying the file does not change
them. Closed tenants are omitted.`,
		Args: cobra.NoArgs,
	}
	s := addSettings(cmd)
	slugs := cmd.Flags().StringArray("tenant", nil, "slug of a tenant to export; may be repeated; all tenants by default")
	folder := cmd.Flags().StringP("output", "o", "", "folder for one file per tenant; one file on standard output by default")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return s.withStore(cmd, true, func(ctx context.Context, st *store) error {
			tenants, err := tenantConfigs(ctx, st.DB, *slugs)
			if err != nil {
				return err
			}
			if *folder == "" {
				file, err := configs.NewExporter().Export(tenants)
				if err == nil {
					_, err = cmd.OutOrStdout().Write(file)
				}
				return err
			}
			return exportFiles(*folder, tenants, cmd.ErrOrStderr())
		})
	}
	return cmd
}

// tenantConfigs reads the configuration of the tenants with these slugs, or of all
// tenants that are not closed if there are no slugs.
func tenantConfigs(ctx context.Context, db *pg.DB, slugs []string) (tenants []eventhook.TenantConfig, err error) {
	if len(slugs) == 0 {
		if slugs, err = openTenants(ctx, db); err != nil {
			return nil, err
		}
	}
	slices.Sort(slugs)
	for _, slug := range slices.Compact(slugs) {
		t, err := db.TenantConfig(ctx, slug)
		if err != nil {
			return nil, fmt.Errorf("tenant %s: %w", slug, err)
		}
		tenants = append(tenants, t)
	}
	return tenants, nil
}

// openTenants returns the slugs of all tenants that are not closed.
func openTenants(ctx context.Context, db *pg.DB) (slugs []string, err error) {
	const page = 250
	var before eventhook.TenantID
	for {
		list, err := db.Tenants(ctx, before, page)
		if err != nil || len(list) == 0 {
			return slugs, err
		}
		for _, t := range list {
			if t.Status != eventhook.TenantClosed {
				slugs = append(slugs, t.Slug)
			}
		}
		before = list[len(list)-1].ID
	}
}

// exportFiles writes a file for each tenant. It replaces files of earlier exports
// and fails at a file that was not written by an export.
func exportFiles(folder string, tenants []eventhook.TenantConfig, w io.Writer) error {
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	exporter := configs.NewExporter()
	for _, t := range tenants {
		file, err := exporter.Export([]eventhook.TenantConfig{t})
		if err != nil {
			return err
		}
		path := filepath.Join(folder, t.Slug+".yaml")
		if err := checkReplaceable(path); err != nil {
			return err
		}
		if err := os.WriteFile(path, file, 0o600); err != nil {
			return fmt.Errorf("export: %w", err)
		}
		_, _ = fmt.Fprintln(w, "wrote", path)
	}
	return nil
}

// checkReplaceable fails if a file exists that was not written by an export.
func checkReplaceable(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	defer func() { _ = f.Close() }()
	line, err := bufio.NewReader(f).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("export: %w", err)
	}
	if strings.TrimRight(line, "\r\n") != configs.ExportHeading {
		return fmt.Errorf("export: the file %s exists and was not written by export: move it away, or choose another folder", path)
	}
	return nil
}
