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
	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/configs"
	"github.com/eventhook/eventhook/internal/cli"
	"github.com/eventhook/eventhook/internal/cli/input"
	"github.com/eventhook/eventhook/internal/cli/plan"
	"github.com/eventhook/eventhook/internal/pg"
)

// driftError is the result of apply --check if the configuration differs from the
// files.
type driftError struct{}

func (driftError) Error() string { return "the configuration differs from the files" }

// ExitCode is the documented exit code of apply --check.
func (driftError) ExitCode() int { return 2 }

// applyFlags are the flags of apply.
type applyFlags struct {
	path                       string
	prune, dry, check, verbose bool
}

func newApply() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "apply -f FILE|FOLDER",
		Short: "Apply tenants, sources, routes and subscriptions from YAML files",
		Long: `Create and update tenants, sources, routes and subscriptions as YAML files
describe them, in one transaction per tenant, and print the changes like a diff.
Applying the same files again changes nothing.

The command calls the gateway at --server or EVENTHOOK_SERVER
(http://localhost:8080) with the admin key, or with a tenant's key with the scope
manage: --key or EVENTHOOK_KEY. With --database it works on the database of
DATABASE_URL instead, which must have its schema.

Objects that the files do not name are not changed. With --prune, sources, routes
and subscriptions of the named tenants are deleted if the files do not name them;
a tenant is never deleted. The files of a folder are applied together, and each
tenant must be in one of them.

${NAME} in a text is replaced by the environment variable NAME, and $$ by $. A
secret may also be file:PATH, relative to the file that contains it. The command
resolves them; the gateway never does. The format is described in
docs/configuration-as-code.md.

Exit codes: 0 success; 1 failure; 2 wrong usage, files that are not valid, or
differences with --check.`,
		Args: cobra.NoArgs,
	}
	target := addTarget(cmd)
	var a applyFlags
	cmd.Flags().StringVarP(&a.path, "file", "f", "", "YAML file, or folder of YAML files")
	cmd.Flags().BoolVar(&a.prune, "prune", false, "delete sources, routes and subscriptions of the named tenants that the files do not name; never a tenant")
	cmd.Flags().BoolVar(&a.dry, "dry-run", false, "print the plan and change nothing")
	cmd.Flags().BoolVar(&a.check, "check", false, "like --dry-run, but exit with 2 if there are changes")
	cmd.Flags().BoolVarP(&a.verbose, "verbose", "v", false, "with --database, also print unchanged objects")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := a.validate(target); err != nil {
			return err
		}
		tenants, err := configs.LoadTenants(a.path, os.LookupEnv)
		if err != nil {
			return err
		}
		return target.run(cmd, func(c *client.Client) error { return a.overHTTP(cmd, c, tenants) },
			func(ctx context.Context, st *store) error {
				if err := checkTenants(st.config, tenants); err != nil {
					return err
				}
				return a.inDatabase(ctx, st.DB, tenants, cmd.OutOrStdout())
			})
	}
	return cmd
}

func (a *applyFlags) validate(t *target) error {
	a.dry = a.dry || a.check
	switch {
	case a.path == "":
		return input.Usagef("-f FILE or -f FOLDER is required")
	case a.verbose && !t.database:
		return input.Usagef("--verbose requires --database: the plan of a gateway names no unchanged objects")
	}
	return nil
}

// target is what apply and export work on: a gateway or, with --database, its database.
type target struct {
	gateway  *cli.Gateway
	settings *settings
	database bool
}

func addTarget(cmd *cobra.Command) *target {
	t := &target{gateway: cli.NewGateway(version)}
	t.gateway.AddTo(cmd.Flags())
	t.settings = addSettings(cmd)
	for _, name := range append(t.settings.names(), "config") {
		flag := cmd.Flags().Lookup(name)
		flag.Usage = "with --database: " + flag.Usage
	}
	cmd.Flags().Lookup("database-url").Usage = "with --database: PostgreSQL URL; DATABASE_URL"
	cmd.Flags().BoolVar(&t.database, "database", false, "work on the database of DATABASE_URL instead of a gateway")
	return t
}

// run calls overHTTP with a client of the gateway or, with --database, inDatabase with the
// store.
func (t *target) run(cmd *cobra.Command, overHTTP func(*client.Client) error, inDatabase func(context.Context, *store) error) error {
	names, needs := append(t.settings.names(), "config"), "--database"
	if t.database {
		names, needs = []string{"server", "key"}, "a gateway, so it cannot be combined with --database"
	}
	for _, name := range names {
		if cmd.Flags().Changed(name) {
			return input.Usagef("--%s requires %s", name, needs)
		}
	}
	if !t.database {
		return t.gateway.Call(cmd, overHTTP)
	}
	return t.settings.withConfiguredStore(cmd, inDatabase)
}

var errPlainHTTP = errors.New("must begin with https://, as outbound.require_https is set")

// checkTenants fails if a tenant has a URL that the configuration of the gateway
// does not allow, or a target that this build of it does not know. The addresses that
// a host name resolves to are checked when the gateway connects.
func checkTenants(c configs.Config, tenants []eventhook.TenantConfig) error {
	if err := configs.CheckTargets(tenants, checkEngine); err != nil {
		return err
	}
	client := newClient(c)
	return configs.CheckReceivers(tenants, func(u *url.URL) error {
		if c.Outbound.RequireHTTPS && u.Scheme != "https" {
			return errPlainHTTP
		}
		return client.CheckHost(u)
	})
}

// inDatabase applies the tenants one after the other and stops at the first that fails.
// The failed tenant is not changed; the tenants before it stay applied.
func (a applyFlags) inDatabase(ctx context.Context, db *pg.DB, tenants []eventhook.TenantConfig, w io.Writer) error {
	return a.print(w, func(p *plan.Plan) error {
		for i, t := range tenants {
			changes, err := db.ApplyTenant(ctx, operator, t, pg.ApplyOptions{DryRun: a.dry, Prune: a.prune})
			if err != nil {
				return a.describeFailure(tenants, i, err)
			}
			p.Add(changes)
		}
		return nil
	})
}

// print calls apply, which adds its changes to the plan, and prints the summary.
func (a applyFlags) print(w io.Writer, apply func(*plan.Plan) error) error {
	out := bufio.NewWriter(w)
	defer func() { _ = out.Flush() }()
	p := plan.New(out, a.verbose, a.dry)
	if err := apply(p); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(out, p.Summary())
	if a.check && p.Differs() {
		return driftError{}
	}
	return nil
}

// describeFailure adds to the error of tenant i which tenants were applied.
func (a applyFlags) describeFailure(tenants []eventhook.TenantConfig, i int, err error) error {
	err = fmt.Errorf("tenant %s: %w", tenants[i].Slug, err)
	if a.dry || len(tenants) == 1 {
		return err
	}
	var done []string
	for _, t := range tenants[:i] {
		done = append(done, t.Slug)
	}
	before := "no tenant was applied before it"
	if len(done) > 0 {
		before = "these tenants were applied before it and stay applied: " + strings.Join(done, ", ")
	}
	return fmt.Errorf("%w\nnothing of this tenant was changed; %s; not tried: %d", err, before, len(tenants)-i-1)
}
