package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/configs"
	"github.com/eventhook/eventhook/internal/cli"
	"github.com/eventhook/eventhook/internal/cli/terminal"
)

// The states of a finding.
const (
	findingOK      = "ok"
	findingWarning = "warning" // the gateway works, but worse than it could
	findingFailed  = "failed"  // the gateway does not work, or loses data in a crash
	findingSkipped = "skipped" // could not be checked
)

// finding is the result of one check of doctor. It contains no secret.
type finding struct {
	Check  string `json:"check"`
	Status string `json:"status"`
	Detail string `json:"detail"`
	Change string `json:"change,omitempty"` // what to change
}

// doctor checks a configuration and the surroundings of a gateway. It changes nothing.
type doctor struct {
	config   configs.Config
	probeURL string // a public URL that outbound requests reach
	now      func() time.Time
	findings []finding
}

func (d *doctor) ok(check, format string, args ...any) {
	d.findings = append(d.findings, finding{check, findingOK, fmt.Sprintf(format, args...), ""})
}

func (d *doctor) skip(check, format string, args ...any) {
	d.findings = append(d.findings, finding{check, findingSkipped, fmt.Sprintf(format, args...), ""})
}

func (d *doctor) warn(check, detail, change string) {
	d.findings = append(d.findings, finding{check, findingWarning, detail, change})
}

func (d *doctor) fail(check, detail, change string) {
	d.findings = append(d.findings, finding{check, findingFailed, detail, change})
}

// checkTime is the longest time of the checks of one part.
const checkTime = 10 * time.Second

func newDoctor() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the configuration, the database and the network of a gateway",
		Long: `Check the configuration, the database, the encryption keys, the partitions, the log of
webhooks, the disk, the public URL, the outbound network, the TLS certificate and the
roles of a gateway, and say what to change. Give doctor the same file, variables and flags as serve.

doctor changes nothing. It may run while the gateway runs, and while the database is down:
checks that need the database are then skipped. Each part takes 10 seconds at most.

Exit codes: 0 if no check failed; 1 if one failed; 2 if the configuration is not valid.`,
		Args: cobra.NoArgs,
	}
	s := addSettings(cmd)
	s.add(cmd, "roles", "roles", "parts that this instance runs: "+strings.Join(configs.Roles(), ",")+" (default all)")
	output := cmd.Flags().StringP("output", "o", "table", "table or json")
	probe := cmd.Flags().String("probe-url", "https://www.example.com/", "an https URL that outbound requests should reach; empty for no request")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		p, err := terminal.NewPrinter(cmd, *output)
		if err != nil {
			return err
		}
		d := &doctor{probeURL: *probe, now: time.Now}
		config, _, err := s.load(cmd)
		if err != nil {
			d.addFaults(err)
		} else {
			d.config = config
			d.run(cmd.Context())
		}
		if printErr := d.print(p); printErr != nil {
			return printErr
		}
		return d.result(err)
	}
	return cmd
}

// addFaults adds a finding for each fault of the configuration.
func (d *doctor) addFaults(err error) {
	const change = "Correct this setting in the file, the environment or the flags; configs/example.yaml describes every setting."
	e, ok := errors.AsType[*eventhook.Error](err)
	if !ok || len(e.Faults) == 0 {
		d.fail("configuration", err.Error(), change)
		return
	}
	for _, f := range e.Faults {
		d.fail("configuration", f.Location+": "+f.Message, change)
	}
}

// run runs all checks.
func (d *doctor) run(ctx context.Context) {
	d.checkConfiguration()
	for _, check := range []func(context.Context){d.checkDatabase, d.checkIngestLog, d.checkDisk, d.checkTLS, d.checkPublicURL, d.checkOutbound} {
		part, cancel := context.WithTimeout(ctx, checkTime)
		check(part)
		cancel()
	}
}

func (d *doctor) checkConfiguration() {
	d.ok("configuration", "every setting is valid")
	if missing := d.missingRoles(); len(missing) > 0 {
		d.warn("roles", "this instance runs "+strings.Join(d.config.Roles, ", ")+", without "+strings.Join(missing, ", "),
			"Other instances on the same database must run the missing roles.")
	} else {
		d.ok("roles", "this instance runs every role")
	}
	if d.config.Outbound.AllowPrivateNetworks {
		d.warn("outbound addresses", "tenants may send requests to private networks and to this machine",
			"Unset EVENTHOOK_OUTBOUND_ALLOW_PRIVATE_NETWORKS, or list the allowed networks in EVENTHOOK_OUTBOUND_ALLOWED_CIDRS, unless you trust every tenant.")
	}
	if d.config.PProf {
		d.warn("pprof", "the management listener serves Go's profiler", "Unset EVENTHOOK_PPROF when you do not need it.")
	}
	if d.config.Log.Level == "debug" {
		d.warn("log level", "the log has the level debug", "Set EVENTHOOK_LOG_LEVEL=info, and change the level of a running gateway with PUT /log-level.")
	}
}

func (d *doctor) missingRoles() (missing []string) {
	for _, role := range configs.Roles() {
		if !d.config.HasRole(role) {
			missing = append(missing, role)
		}
	}
	return missing
}

// count returns the number of findings with a status.
func (d *doctor) count(status string) (n int) {
	for _, f := range d.findings {
		if f.Status == status {
			n++
		}
	}
	return n
}

func (d *doctor) print(p terminal.Printer) error {
	if p.JSON {
		return terminal.PrintLine(p.Out, map[string]any{"findings": d.findings, "failed": d.count(findingFailed),
			"warnings": d.count(findingWarning), "skipped": d.count(findingSkipped)})
	}
	for _, f := range d.findings {
		d.printFinding(p.Out, f)
	}
	_, err := fmt.Fprintf(p.Out, "%d failed, %d warnings, %d skipped, %d ok\n", d.count(findingFailed), d.count(findingWarning),
		d.count(findingSkipped), d.count(findingOK))
	return err
}

func (d *doctor) printFinding(w io.Writer, f finding) {
	_, _ = fmt.Fprintf(w, "%-7s  %s: %s\n", f.Status, f.Check, terminal.Quote(f.Detail))
	if f.Change != "" {
		_, _ = fmt.Fprintf(w, "         → %s\n", f.Change)
	}
}

// result returns the error of the command. invalid is the error of the configuration, or nil.
func (d *doctor) result(invalid error) error {
	switch {
	case invalid != nil:
		return unhealthy{cli.ExitUsage}
	case d.count(findingFailed) > 0:
		return unhealthy{cli.ExitFailed}
	}
	return nil
}

// unhealthy is the result of doctor if a check failed. It was printed.
type unhealthy struct{ code int }

func (u unhealthy) Error() string { return "a check failed" }

// ExitCode returns the exit code of the command.
func (u unhealthy) ExitCode() int { return u.code }

// Is reports that the error was printed.
func (u unhealthy) Is(target error) bool { return target == terminal.ErrPrinted }

// checkDisk checks the space for the private PostgreSQL.
func (d *doctor) checkDisk(context.Context) {
	const check, gigabyte, least, few = "disk", 1 << 30, 200 << 20, 2 << 30
	if d.config.DatabaseURL != "" {
		return // checkDatabase reports the size of the database
	}
	if _, err := os.Stat(d.config.DataDir); err != nil {
		d.skip(check, "the data folder does not exist yet; the first start creates it")
		return
	}
	free, err := freeBytes(d.config.DataDir)
	text := fmt.Sprintf("%.1f GB are free in the data folder", float64(free)/gigabyte)
	const change = "Free space, move EVENTHOOK_DATA_DIR to a larger disk, or shorten EVENTHOOK_RETENTION_EVENTS_DAYS and EVENTHOOK_RETENTION_DELIVERIES_DAYS."
	switch {
	case err != nil:
		d.warn(check, "the free space of the data folder cannot be read", "Check that this user may read EVENTHOOK_DATA_DIR.")
	case free < least:
		d.fail(check, text, change)
	case free < few:
		d.warn(check, text, change)
	default:
		d.ok(check, "%s", text)
	}
}
