package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/configs"
	"github.com/eventhook/eventhook/internal/cli/input"
	"github.com/eventhook/eventhook/internal/cli/plan"
	"github.com/eventhook/eventhook/internal/pg"
)

// driftError is the result of apply --check if the files would change the
// configuration.
type driftError struct{}

func (driftError) Error() string { return "what is configured differs from the files" }

// ExitCode is the documented exit code of apply --check.
func (driftError) ExitCode() int { return 2 }

// applying is how a command applies files.
type applying struct {
	path                       string
	prune, dry, check, verbose bool
}

func newApply() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "apply -f FILE|FOLDER",
		Short: "Bring tenants, sources, routes and subscriptions to what files say",
		Long: `Bring tenants, sources, routes and subscriptions to what files say, one
transaction per tenant, and print what changes, like a diff. Applying the same
twice changes nothing the second time.

What the files do not name stays. With --prune the sources, routes and
subscriptions of the named tenants go that are not named; a tenant is never
deleted. In a folder all files together say what there is, and each tenant is in
one of them.

${NAME} in a text is replaced by the environment variable NAME; $$ is a $. A
secret may also be file:PATH, relative to the file that it stands in.
docs/configuration-as-code.md has all of it.`,
		Args: cobra.NoArgs,
	}
	s := addSettings(cmd)
	var a applying
	cmd.Flags().StringVarP(&a.path, "file", "f", "", "YAML file, or folder of them")
	cmd.Flags().BoolVar(&a.prune, "prune", false, "delete sources, routes and subscriptions of the named tenants that the files do not name; never a tenant")
	cmd.Flags().BoolVar(&a.dry, "dry-run", false, "print the plan and change nothing")
	cmd.Flags().BoolVar(&a.check, "check", false, "like --dry-run, but exit with 2 if there is anything to do")
	cmd.Flags().BoolVarP(&a.verbose, "verbose", "v", false, "print what is unchanged, too")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if a.path == "" {
			return input.Usagef("apply needs -f FILE or -f FOLDER")
		}
		tenants, err := configs.LoadTenants(a.path, os.LookupEnv)
		if err != nil {
			return err
		}
		a.dry = a.dry || a.check
		return s.withStore(cmd, a.dry, func(ctx context.Context, st *store) error {
			if err := mayApply(st.config, tenants); err != nil {
				return err
			}
			return a.run(ctx, st.DB, tenants, cmd.OutOrStdout())
		})
	}
	return cmd
}

var errPlainHTTP = errors.New("must begin with https://, as outbound.require_https is set")

// mayApply refuses what the gateway's own configuration does not allow tenants.
// What a name resolves to is judged when it is dialled.
func mayApply(c configs.Config, tenants []eventhook.TenantConfig) error {
	client := newClient(c)
	return configs.CheckReceivers(tenants, func(u *url.URL) error {
		if c.Outbound.RequireHTTPS && u.Scheme != "https" {
			return errPlainHTTP
		}
		return client.CheckHost(u)
	})
}

// run applies the tenants one after the other. One that cannot be applied stays
// as it is and ends it; those before it are done.
func (a applying) run(ctx context.Context, db *pg.DB, tenants []eventhook.TenantConfig, w io.Writer) error {
	out := bufio.NewWriter(w)
	defer func() { _ = out.Flush() }()
	p := plan.New(out, a.verbose, a.dry)
	for i, t := range tenants {
		changes, err := db.ApplyTenant(ctx, operator, t, pg.ApplyOptions{DryRun: a.dry, Prune: a.prune})
		if err != nil {
			return a.failed(tenants, i, err)
		}
		p.Add(changes)
	}
	_, _ = fmt.Fprintln(out, p.Summary())
	if a.check && p.Differs() {
		return driftError{}
	}
	return nil
}

// failed says what stands when tenant i cannot be applied.
func (a applying) failed(tenants []eventhook.TenantConfig, i int, err error) error {
	err = fmt.Errorf("tenant %s: %w", tenants[i].Slug, err)
	if a.dry || len(tenants) == 1 {
		return err
	}
	var done []string
	for _, t := range tenants[:i] {
		done = append(done, t.Slug)
	}
	before := "none was applied before it"
	if len(done) > 0 {
		before = "applied before it, and stays so: " + strings.Join(done, ", ")
	}
	return fmt.Errorf("%w\nnothing of this tenant was changed; %s; not tried: %d", err, before, len(tenants)-i-1)
}
