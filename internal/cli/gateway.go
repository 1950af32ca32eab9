package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eventhook/eventhook/client"
)

// Gateway has the flags --server and --key of a command that another package defines.
type Gateway struct{ r remote }

// NewGateway returns a Gateway, whose requests contain version in the User-Agent.
func NewGateway(version string) *Gateway {
	return &Gateway{remote{version: version, output: "table"}}
}

// AddTo defines the flags.
func (g *Gateway) AddTo(flags *pflag.FlagSet) { g.r.addConnectionTo(flags) }

// Call connects to the gateway and calls do. It adds advice to errors.
func (g *Gateway) Call(cmd *cobra.Command, do func(*client.Client) error) error {
	s, err := g.r.open(cmd)
	if err != nil {
		return err
	}
	return s.withAdvice(do(s.Client))
}
