package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// gateway is one that is measured, with a database of its own.
type gateway struct {
	*process
	dir   string
	to    target
	stats *stats
}

// gatewayAt is what stands before the address in what a gateway prints.
const gatewayAt = "webhooks and API  http://"

// gateway starts one that has the bench's tenant; name is that of its folder.
func (r *run) gateway(ctx context.Context, name string, env ...string) (*gateway, error) {
	dir := filepath.Join(r.dir, name)
	p, address, err := start(ctx, gatewayAt, r.binary, env,
		"serve", "--data-dir", dir, "--listen", "127.0.0.1:0", "--management-listen", "127.0.0.1:0", "--apply", r.file, "--log-level", cmp.Or(r.logLevel, "warn"))
	if err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, "host="+filepath.Join(dir, "postgres")+" user=eventhook dbname=eventhook sslmode=disable")
	if err != nil {
		p.stop()
		return nil, err
	}
	return &gateway{p, dir, target{address: address, paths: []string{benchPath}}, &stats{conn}}, nil
}

// measured is what one measurement of a gateway gave, per event where it says so.
type measured struct {
	load
	transactions, wal, gatewayCPU, databaseCPU float64
}

// measure sends for a while; if drain, until nothing is owed any more: the
// rate is then that of events which have become tasks.
func (g *gateway) measure(ctx context.Context, r *run, drain bool) (m measured, err error) {
	before, err := g.stats.read(ctx)
	if err != nil {
		return m, err
	}
	cpu, databaseCPU := g.cpu(), g.databaseCPU()
	began := time.Now()
	if m.load, err = send(ctx, g.to, r.connections, r.length); err != nil {
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
	m.databaseCPU = (g.databaseCPU() - databaseCPU) / float64(m.ok)
	return m, err
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

// cpu is the processor time that the process has used, in microseconds.
func (p *process) cpu() float64 { return readStat(p.cmd.Process.Pid).cpu }

// databaseCPU is that of the gateway's PostgreSQL, as far as its processes are
// still there.
func (g *gateway) databaseCPU() (sum float64) {
	raw, err := os.ReadFile(filepath.Join(g.dir, "postgres", "postmaster.pid"))
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(raw), "\n")
	postmaster, err := strconv.Atoi(first)
	if err != nil {
		return 0
	}
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if s := readStat(pid); s.parent == postmaster {
			sum += s.cpu
		}
	}
	return sum
}

// stat is what Linux tells of a process; elsewhere nothing is known.
type stat struct {
	parent int
	cpu    float64 // microseconds
}

func readStat(pid int) (s stat) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return s // not on Linux, or it has just ended
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	fields := strings.Fields(rest)
	const parent, utime, stime, tick = 1, 11, 12, 10_000
	s.parent, _ = strconv.Atoi(fields[parent])
	for _, f := range []string{fields[utime], fields[stime]} {
		n, _ := strconv.ParseFloat(f, 64)
		s.cpu += n * tick
	}
	return s
}
