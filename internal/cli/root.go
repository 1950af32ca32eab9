package cli

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/cli/input"
	"github.com/eventhook/eventhook/internal/cli/terminal"
)

// The documented exit codes of a command that failed.
const (
	ExitFailed = 1
	ExitUsage  = 2 // wrong usage, or input that is not valid
)

// Commands returns the commands that call a gateway. Their requests contain version
// in the User-Agent.
func Commands(version string) []*cobra.Command {
	return []*cobra.Command{
		newTenant(version), newAPIKey(version), newSource(version), newRoute(version), newEvent(version), newEventType(version),
		newPublish(version), newExpression(version), newSubscription(version), newDelivery(version), newAgents(version), newWork(version),
		newPromise(version), newAudit(version), newTop(version), newListen(version),
	}
}

// Run executes the command line args of the program eventhook with the given
// subcommands, and returns the exit code. SIGINT and SIGTERM cancel the context of
// the command. A second signal ends the process at once, with ExitFailed.
func Run(commands []*cobra.Command, args []string, stdout, stderr io.Writer) int {
	printError := func(_ *cobra.Command, w io.Writer, err error) { terminal.PrintError(w, err) }
	return RunWith(printError, commands, args, stdout, stderr)
}

// PrintError prints the error of a command.
type PrintError func(cmd *cobra.Command, stderr io.Writer, err error)

// RunWith is Run with a function that prints the error of the command.
func RunWith(printError PrintError, commands []*cobra.Command, args []string, stdout, stderr io.Writer) int {
	ctx, stop := signalContext(stderr)
	defer stop()
	root := newRoot(commands)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && !errors.Is(err, terminal.ErrPrinted) {
		printError(cmd, stderr, err)
	}
	return ExitCode(err)
}

// ExitCode returns the exit code of a command that returned err. An error with
// a method ExitCode chooses the code itself.
func ExitCode(err error) int {
	if err == nil {
		return 0
	}
	if coded, ok := errors.AsType[interface {
		error
		ExitCode() int
	}](err); ok {
		return coded.ExitCode()
	}
	if eventhook.KindOf(err) == eventhook.KindInvalid || isRefused(err) {
		return ExitUsage
	}
	return ExitFailed
}

func newRoot(commands []*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:   "eventhook",
		Short: "A webhook gateway: receive, verify, store once, route, deliver",
		Long: `A webhook gateway: receive, verify, store once, route, deliver.

Workers claim, heartbeat, complete, fail and suspend tasks and workflows over the API:
see eventhook openapi, or /docs of a running gateway.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if printsVersion, _ := cmd.Flags().GetBool("version"); printsVersion {
				cmd.SetArgs([]string{"version"})
				return cmd.Execute()
			}
			return cmd.Help()
		},
	}
	root.Flags().Bool("version", false, "print the version")
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(commands...)
	markUsage(root)
	return root
}

// markUsage makes errors in the flags and arguments of all commands usage errors.
func markUsage(c *cobra.Command) {
	c.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return flagError(suggestFlags(cmd, err)) })
	if check := c.Args; check != nil {
		c.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				hint := "usage: " + cmd.UseLine()
				if cmd.HasSubCommands() {
					hint = "see " + cmd.CommandPath() + " --help"
				}
				return input.Usagef("%w; %s", argumentsError(cmd, check, args, err), hint)
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		markUsage(sub)
	}
}

// argumentsError replaces the text of cobra if the number of args is wrong. check has
// returned err.
func argumentsError(cmd *cobra.Command, check cobra.PositionalArgs, args []string, err error) error {
	if !strings.Contains(err.Error(), "arg(s)") {
		return withSuggestions(cmd, args, err)
	}
	for n := range args {
		if check(cmd, args[:n]) == nil {
			return fmt.Errorf("too many arguments (%d)", len(args))
		}
	}
	return errors.New("an argument is missing")
}

// withSuggestions adds to the error for an unknown command the commands with similar names.
func withSuggestions(cmd *cobra.Command, args []string, err error) error {
	const maxDistance = 2
	cmd.SuggestionsMinimumDistance = maxDistance
	if !cmd.HasSubCommands() || len(args) == 0 {
		return err
	}
	if names := cmd.SuggestionsFor(args[0]); len(names) > 0 {
		return fmt.Errorf("%w: did you mean %s?", err, strings.Join(names, " or "))
	}
	return err
}

// suggestFlags adds to the error for an unknown flag the flags of the command of which one name
// begins with the other.
func suggestFlags(cmd *cobra.Command, err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return err
	}
	given := unknown.GetSpecifiedName()
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if strings.HasPrefix(f.Name, given) || strings.HasPrefix(given, f.Name) {
			names = append(names, "--"+f.Name)
		}
	})
	if len(names) > 0 {
		err = fmt.Errorf("%w: did you mean %s?", err, strings.Join(names, " or "))
	}
	return fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())
}

// wantedValues describes the values of flags by the name of their type.
var wantedValues = map[string]string{
	"int":      "a whole number",
	"int64":    "a whole number",
	"bool":     "true or false",
	"duration": "a duration such as 24h or 7d",
}

// flagError returns the usage error for a flag that cannot be parsed. It replaces the
// texts of strconv and time.
func flagError(err error) error {
	e, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return input.Usage(err)
	}
	want, ok := wantedValues[e.GetFlag().Value.Type()]
	switch {
	case !ok:
		return input.Usage(err)
	case errors.Is(err, strconv.ErrRange):
		want = "a number with fewer digits"
	}
	return input.Usagef("--%s %q, want %s", e.GetFlag().Name, e.GetValue(), want)
}

// isRefused reports whether a gateway refused a request as invalid.
func isRefused(err error) bool {
	status := client.StatusOf(err)
	return status == http.StatusBadRequest || status == http.StatusUnprocessableEntity
}
