package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/configs"
	"github.com/eventhook/eventhook/internal/cli/input"
	"github.com/eventhook/eventhook/internal/cli/terminal"
	"github.com/eventhook/eventhook/internal/datadir"
	"github.com/eventhook/eventhook/internal/pg"
)

func newServe() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the gateway",
		Long: `Run the gateway until it is told to stop (SIGTERM, Ctrl-C).

Without DATABASE_URL it runs a private PostgreSQL under --data-dir, and makes
the keys it needs there.`,
		Args: cobra.NoArgs,
	}
	s := addSettings(cmd)
	apply := cmd.Flags().String("apply", "", "file or folder of tenants, sources and routes to apply at the start")
	makeSecrets := cmd.Flags().Bool("make-secrets", false, "make the secrets that --apply names as ${…} and nobody has set, and keep them in --data-dir")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, log, err := s.load(cmd)
		if err != nil {
			return err
		}
		if *makeSecrets && (c.DatabaseURL != "" || *apply == "") {
			return input.Usagef("--make-secrets is for --apply on the private PostgreSQL")
		}
		tuneMemory()
		divertStandardLog(log)
		g, err := newGateway(cmd.Context(), c, log)
		if err != nil {
			return err
		}
		var made *datadir.Secrets
		if *apply != "" {
			if made, err = applyAtStart(cmd.Context(), g, *apply, *makeSecrets); err != nil {
				g.close()
				return err
			}
		}
		return g.run(cmd.Context(), func() { g.announce(cmd.OutOrStdout(), made) })
	}
	return cmd
}

// tuneMemory trades memory for time: the gateway keeps little, so that a
// small heap would be collected all the time. GOGC and GOMEMLIMIT go first.
func tuneMemory() {
	const percent, limit = 400, 2 << 30
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit)
	}
}

// applyAtStart applies a file before requests are served.
func applyAtStart(ctx context.Context, g *gateway, path string, makeSecrets bool) (*datadir.Secrets, error) {
	lookup := os.LookupEnv
	var made *datadir.Secrets
	if makeSecrets {
		var err error
		if made, err = datadir.OpenSecrets(g.config.DataDir); err != nil {
			return nil, err
		}
		lookup = made.Lookup
	}
	tenants, err := configs.LoadTenants(path, lookup)
	if err == nil {
		err = mayApply(g.config, tenants)
	}
	if err != nil {
		return nil, err
	}
	if made != nil {
		if err := made.Save(); err != nil {
			return nil, err
		}
	}
	for _, t := range tenants {
		changes, err := g.db.ApplyTenant(ctx, operator, t, pg.ApplyOptions{})
		if err != nil {
			return nil, fmt.Errorf("apply %s: %w", path, err)
		}
		g.log.Info("applied configuration", "tenant", t.Slug, "changes", countChanges(changes))
	}
	return made, nil
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

// reachesItself reports whether tenants can have requests made to this machine.
func (g *gateway) reachesItself() bool {
	return g.out.client.CheckHost(&url.URL{Scheme: "http", Host: "localhost"}) == nil
}

// announce says where the gateway is and, after a start with made secrets,
// what to try.
func (g *gateway) announce(w io.Writer, made *datadir.Secrets) {
	url := g.config.PublicURL
	_, _ = fmt.Fprintf(w, "Eventhook %s is ready.\n  webhooks and API  %s\n  API pages         %s/docs\n  health, metrics   http://%s/metrics\n",
		version, url, url, terminal.Address(g.management.Addr()))
	if own := "http://" + terminal.Address(g.public.Addr()); own != url {
		_, _ = fmt.Fprintf(w, "  listening at      %s\n", own)
	}
	if g.reachesItself() {
		_, _ = fmt.Fprint(w, "  allowed           requests to this machine, for trying things out; a gateway that others use should not\n")
	}
	if made == nil {
		return
	}
	github, _ := made.Lookup("GITHUB_WEBHOOK_SECRET")
	stripe, _ := made.Lookup("STRIPE_WEBHOOK_SECRET")
	_, _ = fmt.Fprintf(w, `  admin key         %[2]s

Keys and secrets are kept in %[3]s. Try, in another terminal:

  # a signed GitHub push; send it twice to see it recognized
  ./bin/eventhook send github --id 1 --secret %[4]s --url %[1]s/api/tenants/acme/eventhook/in/github

  # what became of it
  ./bin/eventhook event get latest --tenant acme --server %[1]s --key %[2]s

  # be the worker: claim the task it made
  curl -s -H 'Authorization: Bearer %[2]s' -H 'Content-Type: application/json' \
    -d '{"queue":"ci","lease_seconds":60}' %[1]s/api/tenants/acme/eventhook/work/claim

  # be a subscriber: verify and print what is published; then, in a third terminal, publish
  ./bin/eventhook receive --port 9000 --secret whsec_dHJ5aW5nIGl0IG91dCwgbm90IGEgc2VjcmV0
  ./bin/eventhook subscription create me --url http://localhost:9000/ --type '*' --secret whsec_dHJ5aW5nIGl0IG91dCwgbm90IGEgc2VjcmV0 --tenant acme --server %[1]s --key %[2]s
  ./bin/eventhook publish payment.made --data '{"amount":42}' --tenant acme --server %[1]s --key %[2]s

  # a signed Stripe payment
  ./bin/eventhook send stripe --secret %[5]s --url %[1]s/api/tenants/acme/eventhook/in/stripe

Stop with Ctrl-C.
`, url, g.keys.admin.Reveal(), g.config.DataDir, github, stripe)
}
