package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// run is one run of the bench.
type run struct {
	binary      string
	rounds      int
	length      time.Duration
	connections int
	out         io.Writer
}

// tenants is the configuration that is measured: one source whose limits do
// not matter, one route to a task.
const tenants = `
tenants:
  - slug: bench
    sources:
      - slug: github
        provider: github
        secrets: ["` + secret + `"]
        rate_limit: {requests_per_second: 1000000, requests_per_minute: 60000000, burst_size: 1000000}
        routes:
          - name: pushes
            filter_event_types: [push]
            targets: [{type: task, task_kind: build}]
`

func (r *run) all(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "eventhook-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.Chmod(dir, 0o711); err != nil {
		return err
	}
	file := filepath.Join(dir, "bench.yaml")
	if err := os.WriteFile(file, []byte(tenants), 0o600); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(r.out, "%d connections, 1 KB bodies, HMAC-SHA256, deduplicated; %d rounds of %s each\n", r.connections, r.rounds, r.length)
	bare, bareAddress, err := start(ctx, "bare handler at ", os.Args[0], nil, "-bare", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer bare.stop()
	accepting, err := r.gateway(ctx, filepath.Join(dir, "accept"), file, "EVENTHOOK_ROUTE_WORKERS=0")
	if err != nil {
		return err
	}
	defer accepting.stop()
	routing, err := r.gateway(ctx, filepath.Join(dir, "tasks"), file)
	if err != nil {
		return err
	}
	defer routing.stop()
	var results results
	for round := range r.rounds + 1 { // the first warms up
		var one result
		if one.bare, err = send(ctx, bareAddress, r.connections, r.length); err != nil {
			return fmt.Errorf("bare: %w", err)
		}
		if one.accept, err = accepting.measure(ctx, r, false); err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		if one.tasks, err = routing.measure(ctx, r, true); err != nil {
			return fmt.Errorf("accept to task: %w", err)
		}
		if round > 0 {
			results = append(results, one)
			_, _ = fmt.Fprintf(r.out, "  bare %6.0f/s   accepted %6.0f/s (%.2f)   accept to task %6.0f/s (%.2f)\n", one.bare.perSec,
				one.accept.perSec, one.accept.perSec/one.bare.perSec, one.tasks.perSec, one.tasks.perSec/one.accept.perSec)
		}
	}
	results.report(r.out)
	return nil
}

// measured is what one measurement of a gateway gave, per event where it says so.
type measured struct {
	load
	transactions, wal, gatewayCPU float64
}

type result struct {
	bare          load
	accept, tasks measured
}

type results []result

func (rs results) median(of func(result) float64) float64 {
	v := make([]float64, len(rs))
	for i, r := range rs {
		v[i] = of(r)
	}
	slices.Sort(v)
	return v[len(v)/2]
}

func (rs results) report(w io.Writer) {
	_, _ = fmt.Fprintf(w, "\n%-38s %10s %9s %9s %12s %11s %11s\n", "medians", "per second", "p50", "p99", "transactions", "WAL bytes", "gateway CPU")
	ms := func(get func(result) time.Duration) string {
		return time.Duration(rs.median(func(r result) float64 { return float64(get(r)) })).Round(10 * time.Microsecond).String()
	}
	_, _ = fmt.Fprintf(w, "%-38s %10.0f %9s %9s\n", "bare handler, no database", rs.median(func(r result) float64 { return r.bare.perSec }),
		ms(func(r result) time.Duration { return r.bare.p50 }), ms(func(r result) time.Duration { return r.bare.p99 }))
	for _, row := range []struct {
		name string
		get  func(result) measured
	}{
		{"accepted, committed before the 200", func(r result) measured { return r.accept }},
		{"the same, and routed to a task", func(r result) measured { return r.tasks }},
	} {
		_, _ = fmt.Fprintf(w, "%-38s %10.0f %9s %9s %12.3f %11.0f %9.0fµs\n", row.name, rs.median(func(r result) float64 { return row.get(r).perSec }),
			ms(func(r result) time.Duration { return row.get(r).p50 }), ms(func(r result) time.Duration { return row.get(r).p99 }),
			rs.median(func(r result) float64 { return row.get(r).transactions }), rs.median(func(r result) float64 { return row.get(r).wal }),
			rs.median(func(r result) float64 { return row.get(r).gatewayCPU }))
	}
	_, _ = fmt.Fprintf(w, "\nratio  accepted / bare            %.2f  (wanted: 0.35)\n", rs.median(func(r result) float64 { return r.accept.perSec / r.bare.perSec }))
	_, _ = fmt.Fprintf(w, "ratio  accept to task / accepted  %.2f  (wanted: 0.50)\n", rs.median(func(r result) float64 { return r.tasks.perSec / r.accept.perSec }))
}

// gateway is one that is measured.
type gateway struct {
	*process
	address string
	stats   *stats
}

// measure sends for a while; if drain, until nothing is owed any more: the
// rate is then that of events which have become tasks.
func (g *gateway) measure(ctx context.Context, r *run, drain bool) (m measured, err error) {
	before, err := g.stats.read(ctx)
	if err != nil {
		return m, err
	}
	cpu := g.cpu()
	began := time.Now()
	if m.load, err = send(ctx, g.address, r.connections, r.length); err != nil {
		return m, err
	}
	if drain {
		if err := g.stats.drained(ctx); err != nil {
			return m, err
		}
		m.perSec = float64(m.ok) / time.Since(began).Seconds()
	}
	after, err := g.stats.read(ctx)
	m.transactions = (after.transactions - before.transactions) / float64(m.ok)
	m.wal = (after.wal - before.wal) / float64(m.ok)
	m.gatewayCPU = (g.cpu() - cpu) / float64(m.ok)
	return m, err
}

func (r *run) gateway(ctx context.Context, dir, file string, env ...string) (*gateway, error) {
	p, address, err := start(ctx, "webhooks and API  http://", r.binary, env,
		"serve", "--data-dir", dir, "--listen", "127.0.0.1:0", "--management-listen", "127.0.0.1:0", "--apply", file, "--log-level", "warn")
	if err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, "host="+filepath.Join(dir, "postgres")+" user=eventhook dbname=eventhook sslmode=disable")
	if err != nil {
		p.stop()
		return nil, err
	}
	return &gateway{p, address, &stats{conn}}, nil
}

// cpu is the processor time that the process has used, in microseconds.
func (p *process) cpu() float64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0 // not on Linux
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	fields := strings.Fields(rest)
	const utime, stime, tick = 11, 12, 10_000
	var ticks float64
	for _, f := range []string{fields[utime], fields[stime]} {
		n, _ := strconv.ParseFloat(f, 64)
		ticks += n
	}
	return ticks * tick
}

// stats reads PostgreSQL's own counters.
type stats struct{ conn *pgx.Conn }

type counters struct{ transactions, wal float64 }

func (s *stats) read(ctx context.Context) (c counters, err error) {
	err = s.conn.QueryRow(ctx, `SELECT sum(xact_commit)::float8, pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8
		FROM pg_stat_database WHERE datname = current_database()`).Scan(&c.transactions, &c.wal)
	return c, err
}

// drained waits until no event is owed any more.
func (s *stats) drained(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		var owed bool
		if err := s.conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM eventhook.event WHERE due_at IS NOT NULL)`).Scan(&owed); err != nil {
			return err
		}
		if !owed {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// process is a server of the bench's own.
type process struct{ cmd *exec.Cmd }

// start runs a program and waits for the line that tells its address.
func start(ctx context.Context, line, binary string, env []string, args ...string) (*process, string, error) {
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if _, address, ok := strings.Cut(lines.Text(), line); ok {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return &process{cmd}, address, nil
		}
	}
	return nil, "", fmt.Errorf("%s told no address: %w", filepath.Base(binary), cmd.Wait())
}

func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	_ = p.cmd.Wait()
}
