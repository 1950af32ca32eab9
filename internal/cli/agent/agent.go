package agent

import (
	"cmp"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/internal/agent"
	"github.com/eventhook/eventhook/internal/cli/input"
)

const long = `Claim the deliveries to destinations that the gateway cannot reach, and send them from
here: an agent. It needs no inbound connection. Several agents with the same labels
share the work.

  eventhook agents create berlin --label region:eu     on your computer: prints the agent's key
  EVENTHOOK_KEY=ehk_… eventhook agent --server https://hooks.example.com --tenant acme \
    --allow http://10.0.0.0/8 --allow https://ci.example.com/hooks

The agent sends only to destinations that --allow names, whatever the gateway requests:

  --allow https://ci.example.com/hooks   this scheme, host and port, and the paths from /hooks on
  --allow http://10.0.0.0/8              addresses of a network, and names that resolve to them;
                                         any port, or http://10.0.0.0/8:8080
  --allow 10.0.0.0/8                     the same with http and https

Addresses are checked again when the agent connects. Redirects are not followed. Requests to
destinations use no proxy; requests to the gateway use that of HTTPS_PROXY. Loopback
addresses and link-local addresses, such as the metadata service of a cloud, must be named
themselves.

The agent serves /metrics (Prometheus) and /health at --listen. It reads changed files of
certificates within 10 seconds. Ctrl-C or SIGTERM stops it: it claims no more, waits for the
running requests and reports their results. A second signal ends it at once; deliveries
without a result are sent again when their lease ends.

Environment: EVENTHOOK_KEY (required: the agent's API key), EVENTHOOK_SERVER, EVENTHOOK_TENANT.

Exit codes: 0 stopped by a signal; 1 failure, such as a key that is not valid; 2 wrong usage.`

// command has the flags of the command that are not in agent.Config.
type command struct {
	config            agent.Config
	server, tenant    string
	allow             []string
	logLevel, logType string
	newLogger         func(w io.Writer, level, format string) *slog.Logger
}

// New returns the command. newLogger returns a logger with a level and a format, text or json.
func New(version string, newLogger func(w io.Writer, level, format string) *slog.Logger) *cobra.Command {
	const concurrency, lease, stopTimeout = 10, 2 * time.Minute, 25 * time.Second
	c := &command{newLogger: newLogger, config: agent.Config{Version: version}}
	cmd := &cobra.Command{
		Use:   "agent --server URL --tenant SLUG --allow URL-OR-CIDR…",
		Short: "Run an agent, which sends deliveries where the gateway cannot reach",
		Long:  long,
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return c.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&c.server, "server", "", "the gateway's URL; EVENTHOOK_SERVER")
	flags.StringVar(&c.tenant, "tenant", "", "the tenant's slug; EVENTHOOK_TENANT")
	flags.StringArrayVar(&c.allow, "allow", nil, "a destination: a URL, or a network such as http://10.0.0.0/8; may be repeated")
	flags.IntVar(&c.config.Concurrency, "concurrency", concurrency, "maximum number of requests at once")
	input.DurationVar(flags, &c.config.Lease, "lease", lease, "how long each delivery is leased, longer than the timeouts of the destinations: if this agent is killed, another agent gets the delivery after this time")
	input.DurationVar(flags, &c.config.StopTimeout, "stop-timeout", stopTimeout, "time for running requests at a stop; their results are reported within another 10s")
	flags.StringVar(&c.config.CAFile, "ca-file", "", "PEM file of authorities to trust besides those of the system, for destinations and the gateway")
	flags.StringVar(&c.config.CertFile, "client-cert", "", "PEM file of the certificate for destinations that ask for one")
	flags.StringVar(&c.config.KeyFile, "client-key", "", "PEM file of the key of --client-cert")
	flags.StringVar(&c.config.Listen, "listen", "127.0.0.1:9981", "address for /metrics and /health; empty for none")
	flags.StringVar(&c.logLevel, "log-level", "info", "debug, info, warn or error")
	flags.StringVar(&c.logType, "log-format", "text", "text or json")
	return cmd
}

func (c *command) run(cmd *cobra.Command) error {
	key, err := c.complete()
	if err != nil {
		return input.Usage(err)
	}
	a, err := agent.New(c.config, key, c.newLogger(cmd.ErrOrStderr(), c.logLevel, c.logType), nil)
	if err != nil {
		return input.Usage(err)
	}
	return a.Run(cmd.Context())
}

// complete completes the configuration from the environment, validates it and returns the key.
func (c *command) complete() (key string, err error) {
	key = strings.TrimSpace(os.Getenv(input.KeyVariable))
	switch {
	case key == "":
		return "", errors.New("EVENTHOOK_KEY is required: the agent's API key, which eventhook agents create prints")
	case cmp.Or(c.server, os.Getenv(input.ServerVariable)) == "":
		return "", errors.New("--server is required: the gateway's URL, also in EVENTHOOK_SERVER")
	case c.logType != "text" && c.logType != "json":
		return "", errors.New("--log-format must be text or json")
	}
	var level slog.Level
	if level.UnmarshalText([]byte(c.logLevel)) != nil {
		return "", errors.New("--log-level must be debug, info, warn or error")
	}
	c.config.Server = input.ServerURL(c.server)
	c.config.Tenant = cmp.Or(c.tenant, os.Getenv(input.TenantVariable))
	if c.config.Allow, err = agent.ParseAllowList(c.allow); err != nil {
		return "", errors.New("--allow: " + err.Error())
	}
	return key, c.config.Validate()
}
