package main

import (
	"cmp"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/configs"
	"github.com/eventhook/eventhook/internal/cli"
	"github.com/eventhook/eventhook/internal/cli/terminal"
	"github.com/eventhook/eventhook/internal/pg"
	"github.com/eventhook/eventhook/internal/telemetry"
)

// wireLog makes the log name tenants by their slugs, hold back lines about outages of the
// database, and change its level.
func (g *gateway) wireLog() {
	handler := telemetry.LogHandlerOf(g.log)
	g.tenantSlugs = newTenantSlugs(g.db, g.log)
	handler.ResolveTenants(g.tenantSlugs.slug)
	g.outage = &telemetry.Outage{Probe: g.db.Usable, IsDown: isOutage, Now: time.Now}
	handler.WatchOutages(g.outage)
	handler.BoundRepeats(&telemetry.Repeats{IsRepeated: pg.IsDiskFull, Interval: time.Minute, Now: time.Now})
	g.logLevel = telemetry.NewLogLevel(g.log, time.Now)
	g.health.LogLevel = g.logLevel
}

// isOutage reports whether an error may be caused by an outage of the database. Errors of requests
// to receivers have a class.
func isOutage(err error) bool {
	_, isRequest := errors.AsType[interface {
		error
		Class() string
	}](err)
	return pg.IsOutage(err) && !isRequest
}

// reloadLogLevel sets the level that the configuration names now.
func (g *gateway) reloadLogLevel() {
	if g.reread == nil {
		return
	}
	c, err := g.reread()
	if err != nil {
		g.log.Error("the configuration cannot be read again; the log keeps its level", "error", err)
		return
	}
	g.logLevel.Configure(telemetry.ParseLevel(c.Log.Level))
}

// errorPrinter returns the function that prints the errors of commands: as text, or as a line of
// the log if the gateway's log is JSON.
func errorPrinter(args []string) cli.PrintError {
	return func(cmd *cobra.Command, stderr io.Writer, err error) {
		if !logsJSON(cmd, args) {
			terminal.PrintError(stderr, err)
			return
		}
		attrs := []any{"command", cmd.CommandPath(), "exit_code", cli.ExitCode(err)}
		text := err.Error()
		if e, ok := errors.AsType[*eventhook.Error](err); ok && len(e.Faults) > 0 {
			text = e.Message
			attrs = append(attrs, "faults", faultTexts(e.Faults))
		}
		telemetry.NewLogger(stderr, "error", "json").Error(text, attrs...)
	}
}

func faultTexts(faults []eventhook.Fault) (texts []string) {
	for _, f := range faults {
		texts = append(texts, f.Location+": "+f.Message)
	}
	return texts
}

// logsJSON reports whether the log of a command is JSON. The arguments may be wrong, so that
// their flags were not parsed. A command that calls the API has no log.
func logsJSON(cmd *cobra.Command, args []string) bool {
	if cmd.HasParent() && cmd.Flags().Lookup("log-format") == nil {
		return false
	}
	if format, ok := valueOf(args, "--log-format"); ok {
		return format == "json"
	}
	file, _ := valueOf(args, "--config")
	return configs.LogFormat(configs.Sources{File: cmp.Or(file, os.Getenv("EVENTHOOK_CONFIG")), Environ: os.Environ()}) == "json"
}

// valueOf returns the value of the last flag of that name among arguments.
func valueOf(args []string, flag string) (value string, ok bool) {
	for i, arg := range args {
		switch name, inline, hasValue := strings.Cut(arg, "="); {
		case name != flag:
		case hasValue:
			value, ok = inline, true
		case i+1 < len(args):
			value, ok = args[i+1], true
		}
	}
	return value, ok
}
