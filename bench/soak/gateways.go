package soak

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventhook/eventhook/bench/process"
	"github.com/eventhook/eventhook/internal/pgembed"
	"github.com/eventhook/eventhook/internal/seal"
)

const (
	tenant    = "soak"
	adminKey  = "ehk_the-admin-key-of-the-soak"
	secret    = "the-secret-of-the-soak"
	source    = "github"
	published = "soak.pushed"
	taskKind  = "soak"
	// keepDays is the retention. Days that pass are longer ago.
	keepDays = 2
)

const tenants = `
tenants:
  - slug: ` + tenant + `
    sources:
      - slug: ` + source + `
        provider: github
        secrets: ["` + secret + `"]
        rate_limit: {requests_per_second: 1000000, requests_per_minute: 60000000, burst_size: 1000000}
        routes:
          - name: pushes
            filter_event_types: [push]
            targets:
              - {type: task, task_kind: ` + taskKind + `, max_attempts: 100}
              - {type: publish, event_type: ` + published + `}
`

// gateway is one of the gateways. Its process is replaced at each restart.
type gateway struct {
	name    string
	mu      sync.Mutex
	process *process.Process // nil while it is stopped
	address string           // "" while it is stopped
	cpu     float64          // of earlier processes, in microseconds
}

// fleet is the gateways. A connection is made to the next one that runs, as a load balancer does.
type fleet struct {
	command  process.Command
	gateways []*gateway
	turn     atomic.Uint64
	log      *os.File
}

// lease is long compared with the pauses of a busy machine, unless the run is short.
func (r *run) lease() time.Duration {
	const share, least, most = 4, 3 * time.Second, 30 * time.Second
	return max(least, min(r.For/share, most)).Truncate(time.Second)
}

func (r *run) startFleet(ctx context.Context) (*fleet, error) {
	file := filepath.Join(r.dir, "tenants.yaml")
	if err := os.WriteFile(file, []byte(tenants), 0o600); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(r.Report, 0o750); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(r.Report, "gateways.log"))
	if err != nil {
		return nil, err
	}
	f := &fleet{log: log}
	f.command = process.Command{
		Binary: r.Gateway[0],
		Args: append(slices.Clone(r.Gateway[1:]), "serve", "--apply", file, "--listen", "127.0.0.1:0",
			"--management-listen", "127.0.0.1:0", "--log-level", "warn"),
		Env: append(slices.Clone(r.Env), "DATABASE_URL="+r.database.DSN(pgembed.Database), "EVENTHOOK_ADMIN_KEY="+adminKey,
			"EVENTHOOK_ENCRYPTION_KEYS="+seal.NewKey(), "EVENTHOOK_OUTBOUND_ALLOW_PRIVATE_NETWORKS=true",
			fmt.Sprintf("EVENTHOOK_LEASE_SECONDS=%.0f", r.lease().Seconds()), fmt.Sprintf("EVENTHOOK_RETENTION_EVENTS_DAYS=%d", keepDays),
			fmt.Sprintf("EVENTHOOK_RETENTION_BODIES_DAYS=%d", keepDays), fmt.Sprintf("EVENTHOOK_RETENTION_DELIVERIES_DAYS=%d", keepDays)),
		Stderr: log,
	}
	for _, name := range []string{"A", "B"} {
		g := &gateway{name: "gateway " + name}
		f.gateways = append(f.gateways, g)
		if err := f.start(ctx, g); err != nil {
			return f, err
		}
	}
	return f, nil
}

// start starts a gateway that is stopped. The process lives longer than ctx: cleanUp kills it.
func (f *fleet) start(ctx context.Context, g *gateway) error {
	p, found, err := process.Start(context.WithoutCancel(ctx), f.command, "webhooks and API  http://")
	if err != nil {
		return fmt.Errorf("start %s: %w", g.name, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.process, g.address = p, found[0]
	return nil
}

// take marks a gateway as stopped and returns its process.
func (g *gateway) take() *process.Process {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.process
	if p != nil {
		g.cpu += p.CPU()
	}
	g.process, g.address = nil, ""
	return p
}

// stop stops a gateway with SIGTERM, which must end it with exit code 0.
func (g *gateway) stop() error {
	if err := g.take().Stop(); err != nil {
		return fmt.Errorf("%s after SIGTERM: %w", g.name, err)
	}
	return nil
}

func (g *gateway) kill() {
	if p := g.take(); p != nil {
		p.Kill()
	}
}

func (f *fleet) killAll() {
	for _, g := range f.gateways {
		g.kill()
	}
	_ = f.log.Close()
}

// usage returns the resident memory in bytes, 0 while the gateway is stopped, and the processor time in
// microseconds since the start of the run.
func (g *gateway) usage() (memory, cpu float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.process == nil {
		return 0, g.cpu
	}
	memory, _ = g.process.Memory()
	return memory, g.cpu + g.process.CPU()
}

var errNoGateway = errors.New("no gateway runs")

// dial connects to the next gateway that runs.
func (f *fleet) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	err := errNoGateway
	turn := f.turn.Add(1)
	for i := range f.gateways {
		g := f.gateways[(turn+uint64(i))%uint64(len(f.gateways))]
		g.mu.Lock()
		address := g.address
		g.mu.Unlock()
		if address == "" {
			continue
		}
		var conn net.Conn
		if conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", address); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// client returns an HTTP client whose connections go to the gateways in turn.
func (f *fleet) client(connections int) *http.Client {
	const timeout, idle = 90 * time.Second, 5 * time.Second // a worker's claim waits half a minute
	return &http.Client{Timeout: timeout, Transport: &http.Transport{DialContext: f.dial, MaxIdleConnsPerHost: connections, IdleConnTimeout: idle}}
}

// baseURL is the URL of the fleet, for its client. The dialer ignores the name.
const baseURL = "http://gateways.invalid"
