package pg

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/bench/measure"
	"github.com/eventhook/eventhook/configs"
	"github.com/eventhook/eventhook/internal/clocktest"
	"github.com/eventhook/eventhook/internal/pgembed"
	"github.com/eventhook/eventhook/internal/pgtest"
	"github.com/eventhook/eventhook/verify"
)

const (
	benchFileSources = 100 // sources in a small file
	benchFiles       = 20  // small files in one measurement
	maxApplyCost     = 1.5 // cost of a source in a large file over its cost in a small one
)

// benchChanges are the changes that BenchmarkApply measures, in this order.
var benchChanges = []eventhook.ChangeAction{create, unchanged, update}

// BenchmarkApply applies a file of BENCH_SOURCES sources and small files, each source
// with a route: first to create them, then unchanged, then changed. It measures from
// reading the file to the end of the transaction.
func BenchmarkApply(b *testing.B) {
	sources := measure.Size(b, "BENCH_SOURCES", 1000)
	f := &fixture{TB: b, dsn: pgtest.NewServer(b).DSN(pgembed.Database), clock: clocktest.New(noon)}
	f.db = f.open(func(o *Options) { o.Describe = verify.Describe })
	type costs struct{ small, large []float64 } // by benchChanges
	f.applyCosts("warm", benchFileSources, benchFiles)
	var rounds []costs
	for b.Loop() {
		n := len(rounds)
		rounds = append(rounds, costs{
			small: f.applyCosts(fmt.Sprintf("small-%d", n), benchFileSources, benchFiles),
			large: f.applyCosts(fmt.Sprintf("large-%d", n), sources, 1),
		})
	}
	for i, action := range benchChanges {
		b.ReportMetric(measure.Median(rounds, func(c costs) float64 { return c.large[i] }), string(action)+"_µs/source")
		measure.AtMost(fmt.Sprintf("apply (%s): a source among %d / among %d", action, sources, benchFileSources),
			measure.Median(rounds, func(c costs) float64 { return c.large[i] / c.small[i] }), maxApplyCost).Report(b, string(action)+"_slower_than_small")
	}
}

// applyCosts applies each of several files of new tenants three times. It returns the
// microseconds per source for each change of benchChanges.
func (f *fixture) applyCosts(name string, sources, files int) []float64 {
	f.Helper()
	costs := make([]float64, len(benchChanges))
	for file := range files {
		for i, action := range benchChanges {
			took := f.applyFile(fmt.Sprintf("%s-%d", name, file), sources, action)
			costs[i] += float64(took.Microseconds()) / float64(sources*files)
		}
	}
	return costs
}

// applyFile applies a file and checks that it changes every source and route as
// expected.
func (f *fixture) applyFile(tenant string, sources int, want eventhook.ChangeAction) time.Duration {
	f.Helper()
	file := filepath.Join(f.TempDir(), "tenant.yaml")
	f.must(os.WriteFile(file, tenantYAML(tenant, sources, want == update), 0o600))
	start := time.Now()
	tenants, err := configs.LoadTenants(file, os.LookupEnv)
	f.must(err)
	changed := 0
	for _, t := range tenants {
		for _, c := range f.apply(t) {
			if c.Action == want {
				changed++
			}
		}
	}
	took := time.Since(start)
	if min := 2 * sources; changed < min { // a source and its route
		f.Fatalf("%s: %d sources and routes, want %d", want, changed, min)
	}
	return took
}

// tenantYAML returns a tenant with sources. If isChanged, every source and every route
// differs from the tenant without it.
func tenantYAML(tenant string, sources int, isChanged bool) []byte {
	name, priority := "first", 1
	if isChanged {
		name, priority = "second", 2
	}
	var b strings.Builder
	fmt.Fprintf(&b, "tenants:\n- slug: %s\n  sources:\n", tenant)
	for n := range sources {
		fmt.Fprintf(&b, `  - slug: source-%06d
    name: %s
    provider: github
    secrets: ["a-secret-of-the-benchmark-%d"]
    routes:
    - name: pushes
      priority: %d
      filter_event_types: [push]
      filter: {body.ref: refs/heads/main}
      targets: [{type: task, task_kind: build}]
`, n, name, n, priority)
	}
	return []byte(b.String())
}
