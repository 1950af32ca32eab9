package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/configs"
	"github.com/eventhook/eventhook/internal/cli/input"
	"github.com/eventhook/eventhook/internal/cli/terminal"
	"github.com/eventhook/eventhook/internal/datadir"
	"github.com/eventhook/eventhook/internal/panics"
	"github.com/eventhook/eventhook/internal/pg"
)

func newServe() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the gateway",
		Long: `Run the gateway until SIGTERM or Ctrl-C. A second SIGTERM or Ctrl-C ends it at
once. SIGHUP does not end it.

Without DATABASE_URL the gateway runs a private PostgreSQL in --data-dir, and
generates its keys there.`,
		Args: cobra.NoArgs,
	}
	s := addSettings(cmd)
	s.add(cmd, "roles", "roles", "parts that this instance runs: "+strings.Join(configs.Roles(), ",")+" (default all)")
	apply := cmd.Flags().String("apply", "", "YAML file or folder to apply at the start, as eventhook apply does")
	makeSecrets := cmd.Flags().Bool("make-secrets", false, "generate secrets for each ${NAME} in --apply that is not set, and store them in --data-dir")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		hangups := notifyHangups()
		c, log, err := s.load(cmd)
		if err != nil {
			return err
		}
		if *makeSecrets && (c.DatabaseURL != "" || *apply == "") {
			return input.Usagef("--make-secrets requires --apply and the private PostgreSQL")
		}
		tuneMemory()
		divertStandardLog(log)
		panics.EndProcess(log)
		defer panics.End()
		g, err := newGateway(cmd.Context(), c, log)
		if err != nil {
			return err
		}
		g.hangups = hangups
		g.reread = func() (configs.Config, error) {
			c, _, err := s.load(cmd)
			return c, err
		}
		var generated *datadir.Secrets
		if *apply != "" {
			if generated, err = applyAtStart(cmd.Context(), g, *apply, *makeSecrets); err != nil {
				g.close()
				return err
			}
		}
		return g.run(cmd.Context(), func() { g.announce(cmd.OutOrStdout(), generated) })
	}
	return cmd
}

// tuneMemory trades memory for CPU time: the heap of the gateway is small, and Go
// collects a small heap very often. GOGC and GOMEMLIMIT have precedence.
func tuneMemory() {
	const percent, limit = 400, 2 << 30
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit)
	}
}

// applyAtStart applies files before the gateway serves requests. If the schema or the
// encryption keys do not fit, the files are applied as soon as they fit. It returns the
// generated secrets, nil without makeSecrets.
func applyAtStart(ctx context.Context, g *gateway, path string, makeSecrets bool) (*datadir.Secrets, error) {
	lookup := os.LookupEnv
	var generated *datadir.Secrets
	if makeSecrets {
		var err error
		if generated, err = datadir.OpenSecrets(g.config.DataDir); err != nil {
			return nil, err
		}
		lookup = generated.Lookup
	}
	tenants, err := configs.LoadTenants(path, lookup)
	if err == nil {
		err = checkTenants(g.config, tenants)
	}
	if err != nil {
		return nil, err
	}
	if generated != nil {
		if err := generated.Save(); err != nil {
			return nil, err
		}
	}
	apply := func(ctx context.Context) error { return g.applyFile(ctx, path, tenants) }
	if isFit := g.db.Fit() == nil; !isFit {
		g.applyWhenFit = apply
		return generated, nil
	}
	return generated, apply(ctx)
}

func (g *gateway) applyFile(ctx context.Context, path string, tenants []eventhook.TenantConfig) error {
	for _, t := range tenants {
		changes, err := g.db.ApplyTenant(ctx, operator, t, pg.ApplyOptions{})
		if err != nil {
			return fmt.Errorf("apply %s: %w", path, err)
		}
		g.log.Info("applied configuration", "tenant", t.Slug, "changes", countChanges(changes))
	}
	return nil
}

// applyLater applies the files of --apply that could not be applied at the start. It retries
// until they are applied, and does nothing if there are none.
func (g *gateway) applyLater(ctx context.Context) error {
	if g.applyWhenFit == nil {
		return nil
	}
	const interval = time.Second
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return g.every(interval, "apply the files of --apply", func(ctx context.Context) (bool, error) {
		err := g.applyWhenFit(ctx)
		if err == nil {
			cancel()
		}
		return false, err
	})(ctx)
}

func countChanges(changes []eventhook.Change) int {
	n := 0
	for _, c := range changes {
		if c.Action != eventhook.ChangeUnchanged {
			n++
		}
	}
	return n
}

// allowsLoopback reports whether the gateway sends requests of tenants to this host.
func (g *gateway) allowsLoopback() bool {
	return g.out.client.CheckHost(&url.URL{Scheme: "http", Host: "localhost"}) == nil
}

// announce prints the addresses of the gateway and, if secrets were generated,
// example commands.
func (g *gateway) announce(w io.Writer, generated *datadir.Secrets) {
	url := g.config.PublicURL
	_, _ = fmt.Fprintf(w, "Eventhook %s is ready.\n  webhooks and API  %s\n  API pages         %s/docs\n  health, metrics   %s/metrics\n",
		version, url, url, g.scheme()+terminal.Address(g.management.Addr()))
	g.announceConsole(w, generated != nil)
	if own := g.scheme() + terminal.Address(g.public.Addr()); own != url {
		_, _ = fmt.Fprintf(w, "  listening at      %s\n", own)
	}
	if len(g.config.Roles) < len(configs.Roles()) {
		_, _ = fmt.Fprintf(w, "  roles             %s; the paths of other roles answer 404\n", strings.Join(g.config.Roles, ", "))
	}
	if g.allowsLoopback() {
		_, _ = fmt.Fprint(w, "  allowed           requests to this host; do not allow them on a shared gateway\n")
	}
	if generated == nil {
		return
	}
	github, _ := generated.Lookup("GITHUB_WEBHOOK_SECRET")
	stripe, _ := generated.Lookup("STRIPE_WEBHOOK_SECRET")
	_, _ = fmt.Fprintf(w, `  admin key         %[2]s

The keys and secrets are stored in %[3]s. Try in another terminal:

  # Send a signed GitHub push. Send it twice to see a duplicate.
  ./bin/eventhook send github --id 1 --secret %[4]s --url %[1]s/api/tenants/acme/eventhook/in/github

  # Show the event.
  ./bin/eventhook event get latest --tenant acme --server %[1]s --key %[2]s

  # Claim its task, as a worker does.
  curl -s -H 'Authorization: Bearer %[2]s' -H 'Content-Type: application/json' \
    -d '{"queue":"ci","lease_seconds":60}' %[1]s/api/tenants/acme/eventhook/work/claim

  # Receive published events: verify and print them. Publish one in a third terminal.
  ./bin/eventhook receive --port 9000 --secret whsec_dHJ5aW5nIGl0IG91dCwgbm90IGEgc2VjcmV0
  ./bin/eventhook subscription create me --url http://localhost:9000/ --type '*' --secret whsec_dHJ5aW5nIGl0IG91dCwgbm90IGEgc2VjcmV0 --tenant acme --server %[1]s --key %[2]s
  ./bin/eventhook publish payment.made --data '{"amount":42}' --tenant acme --server %[1]s --key %[2]s

  # Send a signed Stripe payment.
  ./bin/eventhook send stripe --secret %[5]s --url %[1]s/api/tenants/acme/eventhook/in/stripe

Stop with Ctrl-C.
`, url, g.keys.admin[0].Reveal(), g.config.DataDir, github, stripe)
}
