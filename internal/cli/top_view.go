package cli

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/eventhook/eventhook/internal/cli/terminal"
)

// topView is one view of a gateway. Rates are per second.
type topView struct {
	At          time.Time          `json:"at"`
	Seconds     float64            `json:"seconds"` // between the two samples
	Instances   int                `json:"instances"`
	Ready       int                `json:"ready"`
	Unreachable []string           `json:"unreachable,omitempty"`
	Accepted    float64            `json:"accepted"`
	Duplicates  float64            `json:"duplicates"`
	Refused     map[string]float64 `json:"refused"` // by outcome
	Published   float64            `json:"published"`
	Settled     map[string]float64 `json:"settled"`    // events by status
	Deliveries  map[string]float64 `json:"deliveries"` // by status
	Attempts    map[string]float64 `json:"attempts"`   // by outcome
	DeadLetters map[string]float64 `json:"dead_letters"`
	Latencies   []topLatency       `json:"latencies"`
	Queues      []topQueue         `json:"queues"`
	Parked      map[string]float64 `json:"parked"` // by queue and reason
	Breakers    float64            `json:"breakers_open"`
	Outages     map[string]float64 `json:"outages"`
	Database    topDatabase        `json:"database"`
	Lists       *topLists          `json:"lists,omitempty"`
}

// topLatency has quantiles in seconds; -1 if nothing was measured.
type topLatency struct {
	Name string  `json:"name"`
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
}

type topQueue struct {
	Queue      string  `json:"queue"`
	AgeSeconds float64 `json:"age_seconds"`
	Depth      float64 `json:"depth"`
}

type topDatabase struct {
	IsUp             bool             `json:"is_up"`
	Bytes            float64          `json:"bytes"`
	ClockSkewSeconds float64          `json:"clock_skew_seconds"`
	Connections      []topConnections `json:"connections"`
}

type topConnections struct {
	Pool string  `json:"pool"`
	Used float64 `json:"used"`
	Max  float64 `json:"max"`
}

// newTopView computes the view of the time between two samples.
func newTopView(before, after *sample) *topView {
	requests := rates(before, after, "ingest_requests_total", "outcome")
	v := &topView{At: after.at.UTC(), Seconds: after.at.Sub(before.at).Seconds(), Instances: len(after.instances),
		Ready: int(after.sums("ready", "")[""]), Unreachable: after.unreachable,
		Accepted: requests["accepted"], Duplicates: requests["duplicate"], Refused: requests,
		Published: total(rates(before, after, "published_events_total", "")),
		Settled:   rates(before, after, "events_settled_total", "status"), Deliveries: rates(before, after, "deliveries_settled_total", "status"),
		Attempts: attempts(before, after), DeadLetters: rates(before, after, "dead_letters_total", "kind"),
		Parked: parked(after), Breakers: after.sums("breakers_open", "")[""], Outages: largest(after, "subscription_outages", "state")}
	for _, outcome := range []string{"accepted", "duplicate", "handshake"} {
		delete(v.Refused, outcome)
	}
	for _, l := range []struct{ name, metric string }{{"commit", "received_to_committed_seconds"}, {"settle", "received_to_settled_seconds"},
		{"deliver", "received_to_delivered_seconds"}, {"delay", "delivery_delay_seconds"}} {
		then, now := before.cumulative(l.metric), after.cumulative(l.metric)
		v.Latencies = append(v.Latencies, topLatency{l.name, quantile(0.5, then, now), quantile(0.99, then, now)}) //nolint:mnd // see the field names
	}
	ages, depths := largest(after, "queue_age_seconds", "queue"), largest(after, "queue_depth", "queue")
	for _, queue := range slices.Sorted(maps.Keys(ages)) {
		v.Queues = append(v.Queues, topQueue{queue, ages[queue], depths[queue]})
	}
	v.Database = databaseView(after)
	return v
}

// attempts returns the rates of delivery attempts by outcome.
func attempts(before, after *sample) map[string]float64 {
	count := func(s *sample) map[string]float64 {
		counts := map[string]float64{}
		s.each("delivery_attempt_seconds", func(m *dto.Metric, label func(string) string) {
			counts[label("outcome")] += float64(m.GetHistogram().GetSampleCount())
		})
		return counts
	}
	then, seconds, grown := count(before), after.at.Sub(before.at).Seconds(), map[string]float64{}
	for outcome, n := range count(after) {
		if n > then[outcome] && seconds > 0 {
			grown[outcome] = (n - then[outcome]) / seconds
		}
	}
	return grown
}

// largest returns the largest values of a metric that all instances share, by a label.
func largest(s *sample, name, by string) map[string]float64 {
	values := map[string]float64{}
	s.each(name, func(m *dto.Metric, label func(string) string) { values[label(by)] = max(values[label(by)], valueOf(m)) })
	return values
}

func parked(s *sample) map[string]float64 {
	values := map[string]float64{}
	s.each("parked", func(m *dto.Metric, label func(string) string) {
		if n := valueOf(m); n > 0 {
			key := label("queue") + " " + label("reason")
			values[key] = max(values[key], n)
		}
	})
	return values
}

func databaseView(s *sample) topDatabase {
	d := topDatabase{IsUp: s.least("db_up") == 1, Bytes: s.most("db_bytes"), ClockSkewSeconds: s.most("db_clock_skew_seconds")}
	used, most := map[string]float64{}, map[string]float64{}
	s.each("db_connections", func(m *dto.Metric, label func(string) string) {
		switch label("state") {
		case "used":
			used[label("pool")] += valueOf(m)
		case "max":
			most[label("pool")] += valueOf(m)
		}
	})
	for _, pool := range slices.Sorted(maps.Keys(most)) {
		d.Connections = append(d.Connections, topConnections{pool, used[pool], most[pool]})
	}
	return d
}

// number formats a rate or count in few characters.
func number(n float64) string {
	const thousand, million, ten = 1e3, 1e6, 10
	switch {
	case n >= million:
		return fmt.Sprintf("%.1fM", n/million)
	case n >= ten*thousand:
		return fmt.Sprintf("%.1fk", n/thousand)
	case n >= ten || n == math.Trunc(n):
		return fmt.Sprintf("%.0f", n)
	}
	return fmt.Sprintf("%.1f", n)
}

// seconds formats a time in seconds in few characters.
func seconds(s float64) string {
	if s < 0 {
		return "-"
	}
	d := time.Duration(s * float64(time.Second))
	switch {
	case d < time.Second:
		return fmt.Sprintf("%.1fms", float64(d)/float64(time.Millisecond))
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// write writes the view as text. Lines are at most columns long; 0 means any length.
func (v *topView) write(w io.Writer, columns int) error {
	var text strings.Builder
	v.writeRates(&text)
	v.writeQueues(&text)
	if v.Lists != nil {
		v.Lists.write(&text)
	}
	for line := range strings.Lines(text.String()) {
		line = strings.TrimRight(line, "\n ")
		if runes := []rune(line); columns > 0 && len(runes) > columns {
			line = string(runes[:columns-1]) + "…"
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

func (v *topView) writeRates(w io.Writer) {
	const mostNames = 4
	_, _ = fmt.Fprintf(w, "eventhook  %s  %d of %d instances ready", terminal.Time(v.At), v.Ready, v.Instances)
	if len(v.Unreachable) > 0 {
		_, _ = fmt.Fprintf(w, ", unreachable: %s", strings.Join(v.Unreachable, " "))
	}
	_, _ = fmt.Fprint(w, "\n\n")
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name string, n float64, more string) {
		_, _ = fmt.Fprintf(table, "%s\t%s/s\t%s\n", name, number(n), more)
	}
	row("accepted", v.Accepted, "duplicates "+number(v.Duplicates))
	row("refused", total(v.Refused), joined(v.Refused, mostNames))
	row("published", v.Published, "")
	row("settled", total(v.Settled), joined(v.Settled, mostNames))
	row("delivered", total(v.Deliveries, "success"), "")
	row("failed", total(v.Attempts)-total(v.Attempts, "success"), joined(without(v.Attempts, "success"), mostNames))
	row("dead letters", total(v.DeadLetters), joined(v.DeadLetters, mostNames))
	_ = table.Flush()
	_, _ = fmt.Fprint(w, "\nlatency  ")
	for _, l := range v.Latencies {
		_, _ = fmt.Fprintf(w, "  %s %s (p99 %s)", l.Name, seconds(l.P50), seconds(l.P99))
	}
	_, _ = fmt.Fprintln(w)
}

func without(rates map[string]float64, label string) map[string]float64 {
	rest := maps.Clone(rates)
	delete(rest, label)
	return rest
}

func (v *topView) writeQueues(w io.Writer) {
	const megabyte, mostNames = 1 << 20, 6
	_, _ = fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "QUEUE\tDUE\tOLDEST")
	for _, q := range v.Queues {
		oldest := "-"
		if q.Depth > 0 {
			oldest = seconds(q.AgeSeconds)
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\n", q.Queue, number(q.Depth), oldest)
	}
	_ = table.Flush()
	_, _ = fmt.Fprintf(w, "parked    %s\n", cmp.Or(joined(v.Parked, mostNames), "none"))
	_, _ = fmt.Fprintf(w, "breakers  %s open; subscriptions failing %s, recovering %s\n", number(v.Breakers), number(v.Outages["failing"]),
		number(v.Outages["recovering"]))
	_, _ = fmt.Fprintf(w, "database  %s, %s MB, clock %+.1fms", map[bool]string{true: "up", false: "DOWN"}[v.Database.IsUp],
		number(v.Database.Bytes/megabyte), v.Database.ClockSkewSeconds*1e3) //nolint:mnd // milliseconds
	for _, c := range v.Database.Connections {
		if c.Max == 0 {
			continue // no such pool
		}
		_, _ = fmt.Fprintf(w, ", %s %s/%s", c.Pool, number(c.Used), number(c.Max))
	}
	_, _ = fmt.Fprintln(w)
}
