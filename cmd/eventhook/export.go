package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/configs"
	"github.com/eventhook/eventhook/internal/cli/input"
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
them. Closed tenants are omitted.

The command calls the gateway at --server or EVENTHOOK_SERVER
(http://localhost:8080) with the admin key, or with a tenant's key with the scope
manage: --key or EVENTHOOK_KEY. With --database it reads the database of
DATABASE_URL instead.`,
		Args: cobra.NoArgs,
	}
	target := addTarget(cmd)
	slugs := cmd.Flags().StringArray("tenant", nil,
		"slug of a tenant to export; may be repeated; all tenants by default, or EVENTHOOK_TENANT with a tenant's key")
	folder := cmd.Flags().StringP("output", "o", "", "folder for one file per tenant; one file on standard output by default")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		overHTTP := func(c *client.Client) error {
			raw, err := exportOverHTTP(cmd.Context(), c, *slugs)
			if err != nil {
				return err
			}
			return writeExport(cmd, raw, *folder)
		}
		return target.run(cmd, overHTTP, func(ctx context.Context, st *store) error {
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

// exportOverHTTP returns the configuration of tenants, or of all tenants without slugs, as
// configs.FilesOf reads it. With a tenant's key, it exports the tenant of EVENTHOOK_TENANT if
// there are no slugs.
func exportOverHTTP(ctx context.Context, c *client.Client, slugs []string) (json.RawMessage, error) {
	var raw []byte
	if len(slugs) == 0 {
		_, err := c.ExportConfiguration(ctx, client.ExportConfigurationParams{}, client.KeepBody(&raw))
		own := os.Getenv(input.TenantVariable)
		if client.StatusOf(err) != http.StatusForbidden || own == "" {
			return raw, err
		}
		slugs = []string{own}
	}
	var all exportedDocument
	slices.Sort(slugs)
	for _, slug := range slices.Compact(slugs) {
		var one exportedDocument
		if _, err := c.ExportTenantConfiguration(ctx, slug, client.KeepBody(&raw)); err != nil {
			return nil, fmt.Errorf("tenant %s: %w", slug, err)
		}
		if err := json.Unmarshal(raw, &one); err != nil {
			return nil, err
		}
		all.Tenants, all.Variables = append(all.Tenants, one.Tenants...), append(all.Variables, one.Variables...)
	}
	return json.Marshal(all)
}

// exportedDocument is the JSON of an export.
type exportedDocument struct {
	Tenants   []json.RawMessage `json:"tenants"`
	Variables []string          `json:"variables"`
}

// writeExport writes an export to standard output, or to a file for each tenant in a folder.
func writeExport(cmd *cobra.Command, raw json.RawMessage, folder string) error {
	files, err := configs.FilesOf(raw, folder != "")
	switch {
	case err != nil:
		return err
	case folder == "":
		_, err = cmd.OutOrStdout().Write(files[0].YAML)
		return err
	}
	return writeFiles(folder, files, cmd.ErrOrStderr())
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

// exportFiles writes a file for each tenant; see writeFiles.
func exportFiles(folder string, tenants []eventhook.TenantConfig, w io.Writer) error {
	var files []configs.ExportedFile
	exporter := configs.NewExporter()
	for _, t := range tenants {
		file, err := exporter.Export([]eventhook.TenantConfig{t})
		if err != nil {
			return err
		}
		files = append(files, configs.ExportedFile{Tenant: t.Slug, YAML: file})
	}
	return writeFiles(folder, files, w)
}

// writeFiles replaces files of earlier exports and fails at a file that was not written by an
// export.
func writeFiles(folder string, files []configs.ExportedFile, w io.Writer) error {
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	for _, f := range files {
		path := filepath.Join(folder, f.Tenant+".yaml")
		if err := checkReplaceable(path); err != nil {
			return err
		}
		if err := os.WriteFile(path, f.YAML, 0o600); err != nil {
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
