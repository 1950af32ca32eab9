package cli

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/cli/input"
	"github.com/eventhook/eventhook/internal/cli/terminal"
)

// remote are the flags that say which gateway is called, as whom, about which
// tenant, and how the answer is printed.
type remote struct {
	version                     string // of this program
	server, key, tenant, output string
	ofTenant                    bool // the command is about a tenant's things
}

// callHelp ends the help of every command that calls a gateway.
const callHelp = `

It calls the gateway at --server or EVENTHOOK_SERVER (http://localhost:8080)
with the key of --key or EVENTHOOK_KEY. For a gateway on this machine the admin
key in the data folder (EVENTHOOK_DATA_DIR, or ./data) will do.

Exit codes: 0 done; 1 failed; 2 wrong usage, or refused as invalid.`

// newNoun is a command that groups what can be done with one sort of thing.
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
	return cmd
}

// addTo gives a command the flags.
func (r *remote) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&r.server, "server", "", "the gateway's URL; EVENTHOOK_SERVER, or "+input.DefaultServer)
	flags.StringVar(&r.key, "key", "", "API key; better in EVENTHOOK_KEY, which no process list shows")
	flags.StringVarP(&r.output, "output", "o", "table", "table, or json: the API's answer as it is")
	if r.ofTenant {
		flags.StringVar(&r.tenant, "tenant", "", "the tenant's slug; EVENTHOOK_TENANT")
	}
}

// verb is a command of a noun: it calls the gateway.
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
			return s.explain(run(cmd, s, args))
		},
	}
}

// session is one command's talk with a gateway.
type session struct {
	*client.Client
	server string
	tenant string
	key    foundKey
	raw    []byte // the last answer, if it was kept
	terminal.Printer
}

func (r *remote) open(cmd *cobra.Command) (*session, error) {
	s := &session{server: input.ServerURL(r.server), tenant: cmp.Or(r.tenant, os.Getenv(input.TenantVariable))}
	var err error
	if s.Printer, err = terminal.NewPrinter(cmd, r.output); err != nil {
		return nil, err
	}
	if r.ofTenant && s.tenant == "" {
		return nil, input.Usagef("which tenant? Name it with --tenant or EVENTHOOK_TENANT; eventhook tenant list shows them")
	}
	if s.key, err = findKey(r.key, s.server); err != nil {
		return nil, err
	}
	s.key.announce(cmd.ErrOrStderr())
	if s.Client, err = client.New(s.server, s.key.text, client.WithUserAgent("eventhook/"+r.version)); err != nil {
		return nil, input.Usage(err)
	}
	return s, nil
}

// keep has a call keep its answer, for -o json.
func (s *session) keep() client.CallOption { return client.KeepBody(&s.raw) }

// explain says of an error what helps.
func (s *session) explain(err error) error {
	var unreachable *url.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("nothing answers at %s: start a gateway with eventhook serve, or name another with --server or EVENTHOOK_SERVER", s.server)
	case errors.As(err, &unreachable):
		return fmt.Errorf("%s cannot be reached: %w", s.server, unreachable.Err)
	case client.StatusOf(err) == http.StatusUnauthorized:
		return fmt.Errorf("%w\nThe key came from %s", err, s.key.from)
	}
	return err
}
