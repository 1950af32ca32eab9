package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eventhook/eventhook/client"
)

// Gateway has the flags --server and --key, and --tenant if it works on one tenant, of a command
// that another package defines.
type Gateway struct{ r remote }

// NewGateway returns a Gateway, whose requests contain version in the User-Agent.
func NewGateway(version string) *Gateway {
	return &Gateway{remote{version: version, output: "table"}}
}

// NewTenantGateway is like NewGateway, for a command that works on one tenant.
func NewTenantGateway(version string) *Gateway {
	return &Gateway{remote{version: version, output: "table", ofTenant: true}}
}

// AddTo defines the flags.
func (g *Gateway) AddTo(flags *pflag.FlagSet) {
	g.r.addConnectionTo(flags)
	g.r.addTenantTo(flags)
}

// Connection is a connection to a gateway.
type Connection struct {
	*client.Client
	Tenant string            // slug; "" unless the command works on one tenant
	Advise func(error) error // adds advice for the user to the error of a call
}

// Connect checks the flags and finds the API key. It does not call the gateway.
func (g *Gateway) Connect(cmd *cobra.Command) (Connection, error) {
	s, err := g.r.open(cmd)
	if err != nil {
		return Connection{}, err
	}
	return Connection{s.Client, s.tenant, s.withAdvice}, nil
}

// Call connects to the gateway and calls do. It adds advice to errors.
func (g *Gateway) Call(cmd *cobra.Command, do func(*client.Client) error) error {
	s, err := g.r.open(cmd)
	if err != nil {
		return err
	}
	return s.withAdvice(do(s.Client))
}
