package cli

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eventhook/eventhook/client"
)

// completeTimeout bounds the request of a completion: the shell waits for it.
const completeTimeout = 2 * time.Second

// lister returns the values of a flag or argument from the gateway.
type lister func(ctx context.Context, s *session) ([]string, error)

// complete adds completions to the subcommands of a noun: the values of flags such as --source,
// --tenant and --status, and the first argument.
func (r *remote) complete(noun *cobra.Command) {
	r.completeFlags(noun, noun.PersistentFlags())
	for _, verb := range noun.Commands() {
		r.completeFlags(verb, verb.Flags())
		if verb.ValidArgsFunction == nil && len(verb.ValidArgs) == 0 {
			verb.ValidArgsFunction = r.completeArgument(noun.Name(), verb.Use)
		}
	}
}

// flagLists has the lists for the values of flags by their names.
var flagLists = map[string]lister{
	"source": listSources, "tenant": listTenants, "provider": listProviders, "type": listTypes, "subscription": listSubscriptions,
	"from-tenant": listTenants,
}

func (r *remote) completeFlags(cmd *cobra.Command, flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		values := flagValues(f)
		if list := flagLists[f.Name]; list != nil {
			values = r.fromGateway(list)
		}
		if values != nil {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, values) // fails only if the flag has one already
		}
	})
}

// listedValues matches the values at the beginning of a flag's help, such as "status: failed,
// dead or unrouted; all by default".
var listedValues = regexp.MustCompile(`^(?:status|scopes of the key|state|kind): ([a-z_-]+(?:, [a-z_-]+)*(?: or [a-z_-]+)?)`)

// flagValues returns a completion with the values that the help of a flag lists, or nil.
func flagValues(f *pflag.Flag) cobra.CompletionFunc {
	if f.Name == "output" && f.DefValue == "table" {
		return cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp)
	}
	m := listedValues.FindStringSubmatch(f.Usage)
	if m == nil {
		return nil
	}
	values := strings.Split(strings.ReplaceAll(m[1], " or ", ", "), ", ")
	return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
}

// argumentLists has the lists for the first argument of the commands of a noun.
var argumentLists = map[string]lister{"source": listSources, "tenant": listTenants, "subscription": listSubscriptions,
	"event-type": listTypes}

// completeArgument returns the completion for the first argument of a command. use is its usage
// line, such as "get ID|latest".
func (r *remote) completeArgument(noun, use string) cobra.CompletionFunc {
	list := argumentLists[noun]
	if strings.HasPrefix(use, "create ") {
		list = nil // a new name
	}
	return func(cmd *cobra.Command, args []string, toComplete string) (values []cobra.Completion, directive cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		if list != nil {
			values, _ = r.fromGateway(list)(cmd, args, toComplete)
		}
		if strings.Contains(use, latest) {
			values = append(values, latest)
		}
		return values, cobra.ShellCompDirectiveNoFileComp
	}
}

// fromGateway returns a completion with the values of a list, or no values if the gateway does
// not answer in time.
func (r *remote) fromGateway(list lister) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(context.Background(), completeTimeout)
		defer cancel()
		s, err := r.connect(cmd)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		values, _ := list(ctx, s) // a part of the list is better than none
		slices.Sort(values)
		return slices.DeleteFunc(slices.Compact(values), func(v string) bool { return !strings.HasPrefix(v, toComplete) }),
			cobra.ShellCompDirectiveNoFileComp
	}
}

func listSources(ctx context.Context, s *session) (slugs []string, err error) {
	p, err := s.ListSources(ctx, s.tenant, client.ListSourcesParams{Limit: new(int64(maxPerPage))})
	for _, x := range p.Items {
		slugs = append(slugs, x.Slug)
	}
	return slugs, err
}

func listTenants(ctx context.Context, s *session) (slugs []string, err error) {
	p, err := s.ListTenants(ctx, client.ListTenantsParams{Limit: new(int64(maxPerPage))})
	for _, x := range p.Items {
		slugs = append(slugs, x.Slug)
	}
	return slugs, err
}

func listProviders(ctx context.Context, s *session) (ids []string, err error) {
	p, err := s.ListProviders(ctx, s.tenant, client.ListProvidersParams{Limit: new(int64(maxPerPage))})
	for _, x := range p.Items {
		ids = append(ids, x.ID)
	}
	return ids, err
}

func listTypes(ctx context.Context, s *session) (names []string, err error) {
	p, err := s.ListEventTypes(ctx, s.tenant, client.ListEventTypesParams{Limit: new(int64(maxPerPage))})
	for _, x := range p.Items {
		names = append(names, x.Name)
	}
	return names, err
}

func listSubscriptions(ctx context.Context, s *session) (names []string, err error) {
	list, _, err := s.listOfSubscriptions(ctx, client.ListSubscriptionsParams{Limit: new(int64(maxPerPage))})
	for _, x := range list {
		names = append(names, x.Name)
	}
	return names, err
}
