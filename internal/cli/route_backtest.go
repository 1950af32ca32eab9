package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/cli/input"
	"github.com/eventhook/eventhook/internal/cli/terminal"
)

// backtestFlags select the events of a backtest.
type backtestFlags struct {
	source, since string
	last, samples int64
}

func newRouteBacktest(r *remote) *cobra.Command {
	var f backtestFlags
	var b *body
	cmd := r.verb("backtest [NAME]", "Test a route against stored events, without effects", cobra.MaximumNArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		route, err := s.proposal(cmd, f.source, b, args)
		if err != nil {
			return err
		}
		request, err := f.request(cmd, route, time.Now())
		if err != nil {
			return err
		}
		found, err := s.BacktestRouteFrom(cmd.Context(), s.tenant, request, s.keepBody())
		if err != nil {
			return err
		}
		return s.answer(func(w io.Writer) error { return showBacktest(w, found) })
	})
	cmd.Long = cmd.Short + `. NAME is a route
of the source, and flags override its fields. Without NAME, the flags or a file
describe a route that does not have to exist.`
	cmd.Example = `  eventhook route backtest payments --source stripe
  eventhook route backtest payments --source stripe --filter '{"body.data.object.amount":{"$gte":500}}'
  eventhook route backtest --source stripe --filter-expression body.livemode --task book --last 10000
  eventhook route backtest --source stripe -f route.yaml --since 24h`
	b = newBody(cmd).routeFlags()
	flags := cmd.Flags()
	flags.Int64Var(&f.last, "last", 0, "number of the newest events to test, at most 10000; 1000 by default")
	flags.Int64Var(&f.samples, "samples", 0, "number of events to show for each outcome, at most 20; 5 by default")
	flags.StringVar(&f.since, "since", "", "test only events received after a time, or within a duration such as 24h")
	return withSource(cmd, &f.source)
}

// proposal returns the route to test as JSON: a stored route with the changes of the
// flags, or the route of the flags and the file.
func (s *session) proposal(cmd *cobra.Command, source string, b *body, args []string) (json.RawMessage, error) {
	if len(args) == 0 {
		return b.readNamed("name", nil)
	}
	if b.file != "" {
		return nil, input.Usagef("a route's name and -f cannot be combined")
	}
	id, err := s.routeID(cmd.Context(), source, args[0])
	if err != nil {
		return nil, err
	}
	if _, err := s.GetRoute(cmd.Context(), s.tenant, source, id, s.keepBody()); err != nil {
		return nil, err
	}
	value, err := parseJSON(s.raw)
	if err != nil {
		return nil, err
	}
	stored, _ := value.(map[string]any)
	return b.read(document(stored).withoutReadOnly())
}

// withoutReadOnly removes the members that a request must not contain.
func (d document) withoutReadOnly() document {
	for name, value := range d {
		switch name {
		case "id", "version", "created_at", "updated_at", "secrets_lost", "warnings":
			delete(d, name)
		}
		if value == nil {
			delete(d, name)
		}
	}
	return d
}

// request returns the body of the request. A route without a name gets the name
// "proposed", since the API requires one.
func (f *backtestFlags) request(cmd *cobra.Command, route json.RawMessage, now time.Time) (json.RawMessage, error) {
	value, err := parseJSON(route)
	if err != nil {
		return nil, err
	}
	if r, ok := value.(map[string]any); ok && r["name"] == nil {
		r["name"] = "proposed"
	}
	d := document{"source": f.source, "route": value}
	if cmd.Flags().Changed("last") {
		d["last"] = f.last
	}
	if cmd.Flags().Changed("samples") {
		d["samples"] = f.samples
	}
	if f.since != "" {
		since, err := pastTimeFlag("since", f.since, now)
		if err != nil {
			return nil, err
		}
		d["since"] = since
	}
	return json.Marshal(d)
}

func showBacktest(w io.Writer, b client.Backtest) error {
	if err := showBacktestCounts(w, b); err != nil {
		return err
	}
	for _, o := range []backtestOutcome{
		{"Matched", nil, b.MatchedSamples},
		{"Would fail", b.FailedReasons, b.FailedSamples},
		{"Not matched", b.UnmatchedReasons, b.UnmatchedSamples},
	} {
		if err := o.show(w); err != nil {
			return err
		}
	}
	return nil
}

// backtestOutcome are the events of a backtest with the same outcome.
type backtestOutcome struct {
	title   string
	reasons []client.BacktestReason
	samples []client.BacktestSample
}

// show prints the number of events by reason, and for each sample the inputs of the
// targets, or the reason if there are none.
func (o backtestOutcome) show(w io.Writer) error {
	if len(o.reasons)+len(o.samples) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "\n%s:\n", o.title)
	for _, r := range o.reasons {
		_, err = fmt.Fprintf(w, "  %d × %s\n", r.Events, terminal.Printable(r.Reason))
	}
	for _, x := range o.samples {
		reason := ""
		if len(x.Actions) == 0 {
			reason = ": " + x.Reason
		}
		if _, err = fmt.Fprintf(w, "  %s %s %s\n", x.EventID, terminal.Time(x.ReceivedAt), terminal.Printable(x.EventType+reason)); err == nil {
			err = showActions(w, x.Actions, func(s string) string { return terminal.Cell(s, 2*terminal.MaxWidth) })
		}
	}
	return err
}

func showBacktestCounts(w io.Writer, b client.Backtest) error {
	if b.Tested == 0 && b.SkippedWithoutBody == 0 {
		_, err := fmt.Fprintln(w, "No events of the source were selected.")
		return err
	}
	received := ""
	if b.Oldest != nil && b.Newest != nil {
		received = terminal.Time(*b.Oldest) + " to " + terminal.Time(*b.Newest)
	}
	without, complete := "", ""
	if b.SkippedWithoutBody > 0 {
		without = fmt.Sprintf("%d events whose bodies were deleted after their retention", b.SkippedWithoutBody)
	}
	if !b.IsComplete {
		complete = "no: the time limit was reached"
	}
	return printFields(w, field{"events tested", fmt.Sprint(b.Tested)}, field{"received", received}, field{"matched", fmt.Sprint(b.Matched)},
		field{"would fail", fmt.Sprint(b.Failed)}, field{"not matched", fmt.Sprint(b.Unmatched)}, field{"skipped", without}, field{"complete", complete})
}
