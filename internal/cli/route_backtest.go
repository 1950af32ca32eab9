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

// backtestFlags say which events a route is held against.
type backtestFlags struct {
	source, since string
	last, samples int64
}

func newRouteBacktest(r *remote) *cobra.Command {
	var f backtestFlags
	var b *body
	cmd := r.verb("backtest [NAME]", "Tell what a route would have made of past events; nothing is done", cobra.MaximumNArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		route, err := s.proposal(cmd, f.source, b, args)
		if err != nil {
			return err
		}
		asked, err := f.document(cmd, route, time.Now())
		if err != nil {
			return err
		}
		found, err := s.BacktestRouteFrom(cmd.Context(), s.tenant, asked, s.keep())
		if err != nil {
			return err
		}
		return s.answer(func(w io.Writer) error { return showBacktest(w, found) })
	})
	cmd.Long = cmd.Short + `. NAME is a route of the
source, over which the flags of create go; without it, they or a file say all
of a route that need not exist.`
	cmd.Example = `  eventhook route backtest payments --source stripe
  eventhook route backtest payments --source stripe --filter '{"body.data.object.amount":{"$gte":500}}'
  eventhook route backtest --source stripe --filter-expression body.livemode --task book --last 10000
  eventhook route backtest --source stripe -f route.yaml --since 24h`
	b = newBody(cmd).routeFlags()
	flags := cmd.Flags()
	flags.Int64Var(&f.last, "last", 0, "how many of the newest events, at most 10000; 1000 by default")
	flags.Int64Var(&f.samples, "samples", 0, "how many events of each outcome to show, at most 20; 5 by default")
	flags.StringVar(&f.since, "since", "", "only events received after a time, or since so long ago, such as 24h")
	return ofSource(cmd, &f.source)
}

// proposal is the route that is to be tried, as a document.
func (s *session) proposal(cmd *cobra.Command, source string, b *body, args []string) (json.RawMessage, error) {
	if len(args) == 0 {
		return b.readNamed("name", nil)
	}
	if b.file != "" {
		return nil, input.Usagef("a route's name, or a file: not both")
	}
	id, err := s.routeID(cmd.Context(), source, args[0])
	if err != nil {
		return nil, err
	}
	if _, err := s.GetRoute(cmd.Context(), s.tenant, source, id, s.keep()); err != nil {
		return nil, err
	}
	value, err := parseJSON(s.raw)
	if err != nil {
		return nil, err
	}
	have, _ := value.(map[string]any)
	return b.read(document(have).withoutWhatIsTold())
}

// withoutWhatIsTold is a stored thing without what only the gateway says of it.
func (d document) withoutWhatIsTold() document {
	for name, value := range d {
		switch name {
		case "id", "version", "created_at", "updated_at":
			delete(d, name)
		}
		if value == nil {
			delete(d, name)
		}
	}
	return d
}

// document is the request. A route that nobody has named yet has a name here.
func (f *backtestFlags) document(cmd *cobra.Command, route json.RawMessage, now time.Time) (json.RawMessage, error) {
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
		since, err := agoFlag("since", f.since, now)
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
		{"It would have taken", nil, b.MatchedSamples},
		{"It would have failed on", b.FailedReasons, b.FailedSamples},
		{"It would not have taken", b.UnmatchedReasons, b.UnmatchedSamples},
	} {
		if err := o.show(w); err != nil {
			return err
		}
	}
	return nil
}

// backtestOutcome is a part of a backtest's events.
type backtestOutcome struct {
	title   string
	reasons []client.BacktestReason
	samples []client.BacktestSample
}

// show tells why so many, and then of each that is shown what its targets would
// get or, without targets, why it has none.
func (o backtestOutcome) show(w io.Writer) error {
	if len(o.reasons)+len(o.samples) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "\n%s:\n", o.title)
	for _, r := range o.reasons {
		_, err = fmt.Fprintf(w, "  %d × %s\n", r.Events, terminal.Printable(r.Reason))
	}
	for _, x := range o.samples {
		why := ""
		if len(x.Actions) == 0 {
			why = ": " + x.Reason
		}
		if _, err = fmt.Fprintf(w, "  %s %s %s\n", x.EventID, terminal.Time(x.ReceivedAt), terminal.Printable(x.EventType+why)); err == nil {
			err = showActions(w, x.Actions, func(s string) string { return terminal.Cell(s, 2*terminal.MaxWidth) })
		}
	}
	return err
}

func showBacktestCounts(w io.Writer, b client.Backtest) error {
	if b.Tested == 0 && b.SkippedWithoutBody == 0 {
		_, err := fmt.Fprintln(w, "The source has no such events.")
		return err
	}
	received := ""
	if b.Oldest != nil && b.Newest != nil {
		received = terminal.Time(*b.Oldest) + " to " + terminal.Time(*b.Newest)
	}
	without, complete := "", ""
	if b.SkippedWithoutBody > 0 {
		without = fmt.Sprintf("%d, whose bodies are past their retention", b.SkippedWithoutBody)
	}
	if !b.IsComplete {
		complete = "no: time ran out"
	}
	return printFields(w, field{"events tested", fmt.Sprint(b.Tested)}, field{"received", received}, field{"would be taken", fmt.Sprint(b.Matched)},
		field{"would fail", fmt.Sprint(b.Failed)}, field{"would not be", fmt.Sprint(b.Unmatched)}, field{"left out", without}, field{"complete", complete})
}
