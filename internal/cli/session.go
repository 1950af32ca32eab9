package cli

import (
	"cmp"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/cli/input"
	"github.com/eventhook/eventhook/internal/cli/terminal"
)

// remote has the flags of a command that calls a gateway: the URL, the API key, the
// tenant and the output format.
type remote struct {
	version                     string // of this program
	server, key, tenant, output string
	ofTenant                    bool // the command requires a tenant
	takesOperator, isOperator   bool // the flag --operator
}

// callHelp is the end of the help of every command that calls a gateway.
const callHelp = `

The command calls the gateway at --server or EVENTHOOK_SERVER
(http://localhost:8080) with the API key of --key, EVENTHOOK_KEY or
EVENTHOOK_ADMIN_KEY. For a gateway on this host, the default is the admin key in the
data folder (EVENTHOOK_DATA_DIR, or ./data).

Exit codes: 0 success; 1 failure; 2 wrong usage or an invalid request.`

// newNoun returns a command that groups the commands for one kind of object.
func newNoun(name, short, long string, r *remote, verbs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   name,
		Short: short,
		Long:  long + callHelp,
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	r.addTo(cmd.PersistentFlags())
	cmd.AddCommand(verbs...)
	r.complete(cmd)
	return cmd
}

// addTo defines the flags.
func (r *remote) addTo(flags *pflag.FlagSet) {
	r.addConnectionTo(flags)
	flags.StringVarP(&r.output, "output", "o", "table", "table, or json: the unchanged answer of the API")
	r.addTenantTo(flags)
	if r.takesOperator {
		flags.BoolVar(&r.isOperator, operatorFlag, false,
			"operator subscriptions, which receive events of all tenants; requires the admin key")
	}
}

// addConnectionTo defines --server and --key.
func (r *remote) addConnectionTo(flags *pflag.FlagSet) {
	flags.StringVar(&r.server, "server", "", "the gateway's URL; EVENTHOOK_SERVER, or "+input.DefaultServer)
	flags.StringVar(&r.key, "key", "", "API key; prefer EVENTHOOK_KEY, which process lists do not show")
}

// addTenantTo defines --tenant if the command requires a tenant.
func (r *remote) addTenantTo(flags *pflag.FlagSet) {
	if r.ofTenant {
		flags.StringVar(&r.tenant, "tenant", "", "the tenant's slug; EVENTHOOK_TENANT")
	}
}

// verb returns a command that calls the gateway. It connects before it calls run.
func (r *remote) verb(use, short string, args cobra.PositionalArgs, run func(*cobra.Command, *session, []string) error) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: short,
		Args:  args,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := r.open(cmd)
			if err != nil {
				return err
			}
			return s.withAdvice(namingFlags(cmd, run(cmd, s, args)))
		},
	}
}

// session is the connection of one command to a gateway.
type session struct {
	*client.Client
	server string
	tenant string
	// isOperator means that subscriptions are operator subscriptions. tenant is "" then.
	isOperator bool
	key        apiKey
	raw        []byte // body of the last answer to a call with keepBody
	terminal.Printer
}

// open validates the flags and finds the API key. It does not call the gateway yet.
func (r *remote) open(cmd *cobra.Command) (*session, error) {
	s, err := r.connect(cmd)
	if err != nil {
		return nil, err
	}
	if err := checkScope(cmd, s.isOperator); err != nil {
		return nil, err
	}
	if isOfAllTenants(cmd) {
		s.tenant = ""
	}
	if r.ofTenant && s.tenant == "" && !isOfAllTenants(cmd) && !s.isOperator {
		return nil, input.Usagef("a tenant is required: set --tenant or EVENTHOOK_TENANT; eventhook tenant list shows all tenants")
	}
	s.key.announce(cmd.ErrOrStderr())
	return s, nil
}

// connect is open for commands that need no tenant. It prints nothing.
func (r *remote) connect(cmd *cobra.Command) (*session, error) {
	s := &session{server: input.ServerURL(r.server), tenant: cmp.Or(r.tenant, os.Getenv(input.TenantVariable))}
	if r.isOperator {
		s.tenant, s.isOperator = "", true
	}
	var err error
	if s.Printer, err = terminal.NewPrinter(cmd, r.output); err != nil {
		return nil, err
	}
	if s.key, err = findKey(r.key, s.server); err != nil {
		return nil, err
	}
	if s.Client, err = client.New(s.server, s.key.text, client.WithUserAgent("eventhook/"+r.version)); err != nil {
		return nil, input.Usage(err)
	}
	return s, nil
}

// keepBody makes a call store the body of its answer in s.raw, for -o json.
func (s *session) keepBody() client.CallOption { return client.KeepBody(&s.raw) }

// withAdvice adds advice for the user to an error.
func (s *session) withAdvice(err error) error {
	if client.StatusOf(err) == http.StatusUnauthorized {
		return fmt.Errorf("%w\nThe API key is from %s", err, s.key.from)
	}
	if client.StatusOf(err) == http.StatusNotFound && s.tenant != "" && strings.Contains(err.Error(), "no such tenant") {
		return fmt.Errorf("the tenant %q does not exist, or the API key from %s is of another tenant; with the admin key, eventhook tenant list shows all tenants", s.tenant, s.key.from)
	}
	if client.StatusOf(err) == http.StatusForbidden && s.tenant == "" {
		return fmt.Errorf("%w\nThe API key from %s is not the admin key", err, s.key.from)
	}
	return terminal.GatewayError(err, s.server)
}
