// Command eventhook is the gateway: one binary that receives webhooks,
// verifies and stores each once, routes them, and hands the work out. Only
// this package knows all rooms; it wires them and holds no rule of its own.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/client"
)

// version is set at build time.
var version = "dev"

// Exit codes of the contract.
const (
	exitFailed = 1
	exitUsage  = 2
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is main without the process around it.
func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if errors.Is(err, errSaid) {
		return exitFailed
	}
	printError(stderr, err)
	if _, ok := errors.AsType[usageError](err); ok || eventhook.KindOf(err) == eventhook.KindInvalid || isRefused(err) || errors.Is(err, errDrift) {
		return exitUsage
	}
	return exitFailed
}

func printError(w io.Writer, err error) {
	if p, ok := errors.AsType[*client.Problem](err); ok {
		printProblem(w, err, p)
		return
	}
	e, ok := errors.AsType[*eventhook.Error](err)
	if !ok || len(e.Faults) == 0 {
		_, _ = fmt.Fprintln(w, "eventhook:", err)
		return
	}
	_, _ = fmt.Fprintf(w, "eventhook: %s:\n", e.Message)
	for _, f := range e.Faults {
		_, _ = fmt.Fprintf(w, "  %s: %s\n", f.Location, f.Message)
	}
}

// usageError is a wrong way of calling a command.
type usageError struct{ error }

// errSaid fails a command that has told why.
var errSaid = errors.New("failed, as was told")

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "eventhook",
		Short:         "A webhook gateway: receive, verify, store once, route, hand out",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(newServe(), newMigrate(), newApply(), newExport(), newSecrets(), newDemo(), newSend(), newReceive(), newVerify(), newProviders(), newOpenAPI(), newCheck(), newVersion())
	root.AddCommand(newTenant(), newAPIKey(), newSource(), newRoute(), newEvent(), newEventType(), newPublish(), newSubscription(), newDelivery(), newAudit())
	markUsage(root)
	return root
}

// markUsage makes wrong flags and arguments of all commands usage errors.
func markUsage(c *cobra.Command) {
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	if check := c.Args; check != nil {
		c.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				hint := "want " + cmd.UseLine()
				if cmd.HasSubCommands() {
					hint = "see " + cmd.CommandPath() + " --help"
				}
				return usageError{fmt.Errorf("%w; %s", err, hint)}
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		markUsage(sub)
	}
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			goVersion := "unknown"
			if info, ok := debug.ReadBuildInfo(); ok {
				goVersion = info.GoVersion
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "eventhook %s (%s)\n", version, goVersion)
			return err
		},
	}
}
