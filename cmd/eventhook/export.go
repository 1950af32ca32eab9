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
		Short: "Write what is configured as files that apply takes",
		Long: `Write tenants with their sources and routes as YAML that apply takes, always
in the same order, and only what differs from the defaults.

No secret is written: ${ACME_GITHUB_SECRET_1} stands for the first secret of
acme's source github, and a comment lists all such variables. Secrets that came
with a handshake are left out, and stay where they are when the file is applied.
Tenants that are closed are left out.`,
		Args: cobra.NoArgs,
	}
	s := addSettings(cmd)
	slugs := cmd.Flags().StringArray("tenant", nil, "a tenant to write, may be repeated; all by default")
	folder := cmd.Flags().StringP("output", "o", "", "folder to write a file for each tenant in, instead of one to stdout")
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

// tenantConfigs reads what tenants are configured with, by their slugs; with none
// named, of all that are not closed.
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

// openTenants are the slugs of all tenants that are not closed.
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

// exportFiles writes a file for each tenant, over the one that an earlier
// export has left. Other files it does not touch: somebody wrote them.
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
		if err := mayWriteOver(path); err != nil {
			return err
		}
		if err := os.WriteFile(path, file, 0o600); err != nil {
			return fmt.Errorf("export: %w", err)
		}
		_, _ = fmt.Fprintln(w, "wrote", path)
	}
	return nil
}

func mayWriteOver(path string) error {
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
		return fmt.Errorf("export: %s is there and was not written by export: move it away, or name another folder", path)
	}
	return nil
}
