package soak

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/eventhook/eventhook/bench/plot"
)

// Summary is the result of a run.
type Summary struct {
	Started     time.Time         `json:"started"`
	Seconds     float64           `json:"seconds"` // of sending
	Rate        int               `json:"rate_per_s"`
	SettledRows int               `json:"settled_rows_before"`
	Processors  int               `json:"processors"`
	Sent        int               `json:"sent"`
	Accepted    int               `json:"accepted"`
	Refused     int               `json:"refused_requests"` // and sent again
	Settled     int               `json:"settled"`          // stored and settled once, with one completed execution and all deliveries
	Aged        int               `json:"dropped_by_retention"`
	Executed    int               `json:"executed"`
	Calls       int               `json:"handler_calls"`
	Subscribers []SubscriberCount `json:"subscribers"`
	Lost        int               `json:"lost"`
	// Problems are the losses, and other reasons why the run failed; empty if it succeeded.
	Problems []string `json:"problems"`

	GatewayCPU  float64  `json:"gateway_cpu_us_per_event"`  // of both
	DatabaseCPU float64  `json:"database_cpu_us_per_event"` // with the queries of the run itself
	Faults      []mark   `json:"faults"`
	Samples     []sample `json:"samples"`
}

// SubscriberCount counts the answered requests to a subscriber.
type SubscriberCount struct {
	Name        string `json:"name"`
	Events      int    `json:"events"`
	Requests    int    `json:"requests"`
	Repeated    int    `json:"repeated_events"`
	Unexplained int    `json:"repeated_without_a_fault"`
}

func (r *run) summarize() Summary {
	s := Summary{
		Started: r.began.UTC(), Seconds: r.For.Seconds(), Rate: r.Rate, SettledRows: r.Options.Settled, Processors: runtime.NumCPU(),
		Aged: r.aged, Faults: r.marks.all(), Samples: r.samples.list, Problems: []string{},
	}
	r.ledger.count(&s, s.Faults)
	for _, g := range r.fleet.gateways {
		_, cpu := g.usage()
		s.GatewayCPU += cpu / float64(max(s.Accepted, 1))
	}
	s.DatabaseCPU = r.samples.pgCPU / float64(max(s.Accepted, 1))
	return s
}

func (m *marks) all() []mark {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.list)
}

// write writes the reports.
func (r *run) write(s Summary) error {
	raw, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err
	}
	for name, text := range map[string]string{"soak.json": string(raw) + "\n", "soak.md": s.Markdown()} {
		if err := os.WriteFile(filepath.Join(r.Report, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	f, err := os.Create(filepath.Join(r.Report, "soak.svg"))
	if err != nil {
		return err
	}
	if err := s.figure().Write(f); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

// Markdown returns the summary as text.
func (s Summary) Markdown() string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("# Soak of %s\n", s.Started.Format(time.RFC3339))
	p("%d webhooks/s for %s, two gateways, %d subscribers, %d processors, %d settled rows before the start, %d faults.\n",
		s.Rate, time.Duration(s.Seconds*float64(time.Second)), len(s.Subscribers), s.Processors, s.SettledRows, len(s.Faults))
	p("| | events |\n|---|---|")
	for _, row := range []struct {
		name string
		n    int
	}{
		{"sent", s.Sent}, {"accepted", s.Accepted}, {"stored and settled once", s.Settled}, {"of these counted before retention dropped them", s.Aged},
		{"executed", s.Executed}, {"**lost**", s.Lost}, {"requests that were refused and sent again", s.Refused}, {"calls of handlers beyond one per event", s.Calls - s.Executed},
	} {
		p("| %s | %d |", row.name, row.n)
	}
	p("\n| subscriber | events | requests | repeated events | of these without a fault near them |\n|---|---|---|---|---|")
	for _, c := range s.Subscribers {
		p("| %s | %d | %d | %d | %d |", c.Name, c.Events, c.Requests, c.Repeated, c.Unexplained)
	}
	p("\n| | median | maximum | last |\n|---|---|---|---|")
	for _, row := range s.rows() {
		p("| %s | %.1f | %.1f | %.1f |", row.name, row.median, row.max, row.last)
	}
	p("\nProcessor time per event: gateways %.0f µs, PostgreSQL %.0f µs.", s.GatewayCPU, s.DatabaseCPU)
	for _, problem := range s.Problems {
		p("\n**%s**", problem)
	}
	return b.String()
}

type row struct {
	name              string
	median, max, last float64
}

// rows returns the statistics of the samples while webhooks were sent.
func (s Summary) rows() (rows []row) {
	for _, x := range []struct {
		name string
		get  func(sample) *float64
	}{
		{"accepted/s", func(x sample) *float64 { return x.Accepted }},
		{"answer p50, ms", func(x sample) *float64 { return x.AnswerP50 }},
		{"answer p99, ms", func(x sample) *float64 { return x.AnswerP99 }},
		{"sent to received p50, ms", func(x sample) *float64 { return x.ArrivalP50 }},
		{"sent to received p99, ms", func(x sample) *float64 { return x.ArrivalP99 }},
		{"backlog, events", func(x sample) *float64 { return &x.Backlog }},
		{"memory of gateway A, MiB", func(x sample) *float64 { return x.Memory[0] }},
		{"memory of gateway B, MiB", func(x sample) *float64 { return x.Memory[1] }},
		{"database, MiB", func(x sample) *float64 { return x.Database }},
		{"write-ahead log, MiB", func(x sample) *float64 { return x.Log }},
		{"dead rows", func(x sample) *float64 { return x.DeadRows }},
	} {
		var values []float64
		for _, y := range s.Samples {
			if v := x.get(y); v != nil && y.At <= s.Seconds {
				values = append(values, *v)
			}
		}
		if len(values) > 0 {
			last := values[len(values)-1]
			slices.Sort(values)
			rows = append(rows, row{x.name, values[len(values)/2], values[len(values)-1], last})
		}
	}
	return rows
}

// line returns a series of the samples.
func (s Summary) line(name string, get func(sample) *float64) plot.Line {
	l := plot.Line{Name: name}
	for _, x := range s.Samples {
		l.Points = append(l.Points, plot.Point{At: time.Duration(x.At * float64(time.Second)), Value: value(get(x))})
	}
	return l
}

func (s Summary) figure() plot.Figure {
	f := plot.Figure{
		Title:    fmt.Sprintf("Soak: %d webhooks/s for %s", s.Rate, time.Duration(s.Seconds*float64(time.Second))),
		Subtitle: fmt.Sprintf("two gateways and PostgreSQL on %d processors; %d events sent, %d lost; %s", s.Processors, s.Sent, s.Lost, s.Started.Format(time.RFC3339)),
	}
	for _, m := range s.Faults {
		f.Marks = append(f.Marks, plot.Mark{At: m.At, Kind: m.Kind})
		f.Length = max(f.Length, m.Until)
	}
	if n := len(s.Samples); n > 0 {
		f.Length = max(f.Length, time.Duration(s.Samples[n-1].At*float64(time.Second)))
	}
	rates := []plot.Line{s.line("accepted", func(x sample) *float64 { return x.Accepted }), s.line("executed", func(x sample) *float64 { return x.Executed })}
	for i, name := range kinds {
		rates = append(rates, s.line("to "+name, func(x sample) *float64 { return x.Delivered[i] }))
	}
	f.Panels = []plot.Panel{
		{Title: "Rates", Unit: "events/s", Log: true, Lines: rates},
		{Title: "Answer to the sender, with repetitions", Unit: "ms", Log: true, Lines: []plot.Line{
			s.line("p50", func(x sample) *float64 { return x.AnswerP50 }), s.line("p99", func(x sample) *float64 { return x.AnswerP99 }),
		}},
		{Title: "From sending to the good subscriber", Unit: "ms", Log: true, Lines: []plot.Line{
			s.line("p50", func(x sample) *float64 { return x.ArrivalP50 }), s.line("p99", func(x sample) *float64 { return x.ArrivalP99 }),
		}},
		{Title: "Events since the oldest one that has not arrived everywhere", Unit: "events", Lines: []plot.Line{s.line("backlog", func(x sample) *float64 { return &x.Backlog })}},
		{Title: "Resident memory", Unit: "MiB", Lines: []plot.Line{
			s.line("gateway A", func(x sample) *float64 { return x.Memory[0] }), s.line("gateway B", func(x sample) *float64 { return x.Memory[1] }),
		}},
		{Title: "Disk", Unit: "MiB", Lines: []plot.Line{
			s.line("database", func(x sample) *float64 { return x.Database }), s.line("write-ahead log", func(x sample) *float64 { return x.Log }),
		}},
		{Title: "Dead rows that vacuum has not removed", Unit: "rows", Lines: []plot.Line{s.line("dead rows", func(x sample) *float64 { return x.DeadRows })}},
	}
	return f
}
