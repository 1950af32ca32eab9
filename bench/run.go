package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/eventhook/eventhook/bench/measure"
)

// run is one run of the command.
type run struct {
	binary      string
	rounds      int
	length      time.Duration
	connections int
	attacks     string // numbers of the attacks of hostile; all if empty
	logLevel    string // log level of gateways; warn if empty
	out         io.Writer

	dir    string // folder of the run, removed at the end
	file   string // configuration of the bench's tenant
	ratios []measure.Ratio
}

// part is a measurement that can be run alone.
type part struct {
	name    string
	measure func(*run, context.Context) error
}

// parts are measured in this order. Each part starts and stops its own processes.
var parts = []part{
	{"accept", (*run).accept},
	{"log", (*run).log},
	{"instances", (*run).instances},
	{"sources", (*run).sources},
	{"routes", (*run).routes},
	{"publish", (*run).publish},
	{"deliver", (*run).deliver},
	{"agents", (*run).agents},
	{"storage", (*run).storage},
	{"latency", (*run).latency},
	{"dead", (*run).dead},
	{"backlog", (*run).backlog},
	{"ordered", (*run).ordered},
	{"recovery", (*run).recovery},
	{"transform", (*run).transform},
	{"scope_filter", (*run).scopeFilter},
	{"replay", (*run).replay},
	{"exactly", (*run).exactly},
	{"hostile", (*run).hostile},
}

func partNames() string {
	names := make([]string, len(parts))
	for i, p := range parts {
		names[i] = p.name
	}
	return strings.Join(names, ", ")
}

// choose finds parts by their names, separated by commas. An empty text selects all
// parts.
func choose(names string) ([]part, error) {
	if names == "" {
		return parts, nil
	}
	var chosen []part
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(parts, func(p part) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no part %q, want some of %s", name, partNames())
		}
		chosen = append(chosen, parts[i])
	}
	return chosen, nil
}

// tenants is the default configuration: one source without limits, with one route to a
// task.
const tenants = `
tenants:
  - slug: bench
    sources:
      - slug: github
        provider: github
        secrets: ["` + secret + `"]
        ` + unlimitedSettings + `
        routes:
          - name: pushes
            filter_event_types: [push]
            targets: [{type: task, task_kind: build}]
`

const benchTenant, benchSource = "bench", "github"

// all runs parts and prints their ratios together at the end.
func (r *run) all(ctx context.Context, chosen []part) (err error) {
	if r.dir, err = os.MkdirTemp("", "eventhook-bench-"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(r.dir) }()
	if err := os.Chmod(r.dir, 0o711); err != nil {
		return err
	}
	r.file = filepath.Join(r.dir, "bench.yaml")
	if err := os.WriteFile(r.file, []byte(tenants), 0o600); err != nil {
		return err
	}
	for _, p := range chosen {
		began := time.Now()
		if err := p.measure(r, ctx); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		r.print("(%s took %s)\n\n", p.name, time.Since(began).Round(time.Second))
	}
	for _, x := range r.ratios {
		r.print("%s\n", x)
	}
	return nil
}

func (r *run) print(format string, args ...any) { _, _ = fmt.Fprintf(r.out, format, args...) }

func (r *run) addRatios(ratios ...measure.Ratio) { r.ratios = append(r.ratios, ratios...) }
