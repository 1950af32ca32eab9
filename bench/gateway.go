package main

import (
	"cmp"
	"context"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	servers "github.com/eventhook/eventhook/bench/process"
)

// gateway is a gateway process with a database of its own.
type gateway struct {
	*process
	dir   string
	to    requestSpec
	stats *stats
}

// gatewayReady precedes the address in the output of a gateway.
const gatewayReady = "webhooks and API  http://"

// gateway starts a gateway with the tenant of the bench. name is the name of its
// folder.
func (r *run) gateway(ctx context.Context, name string, env ...string) (*gateway, error) {
	g, _, err := r.startGateway(ctx, name, env, gatewayReady)
	return g, err
}

// startGateway starts a gateway as the method gateway does. It returns the texts after the given parts of
// the output, of which the first precedes the address.
func (r *run) startGateway(ctx context.Context, name string, env []string, lines ...string) (*gateway, []string, error) {
	dir := filepath.Join(r.dir, name)
	args := []string{"serve", "--data-dir", dir, "--listen", "127.0.0.1:0", "--management-listen", "127.0.0.1:0",
		"--apply", r.file, "--log-level", cmp.Or(r.logLevel, "warn")}
	p, found, err := servers.Start(ctx, servers.Command{Binary: r.binary, Args: args, Env: env}, lines...)
	if err != nil {
		return nil, nil, err
	}
	conn, err := pgx.Connect(ctx, "host="+filepath.Join(dir, "postgres")+" user=eventhook dbname=eventhook sslmode=disable")
	if err != nil {
		_ = p.Stop()
		return nil, nil, err
	}
	to := requestSpec{address: found[0], paths: []string{benchPath}}
	return &gateway{&process{p}, dir, to, &stats{conn}}, found, nil
}

// measurement is the result of one measurement of a gateway. Costs are per event.
type measurement struct {
	loadResult
	transactions, wal, gatewayCPU, databaseCPU float64
}

// measure sends for some time. If drain is set, it waits until every event is
// processed, and the rate counts processed events.
func (g *gateway) measure(ctx context.Context, r *run, drain bool) (m measurement, err error) {
	before, err := g.stats.read(ctx)
	if err != nil {
		return m, err
	}
	cpu, databaseCPU := g.CPU(), g.databaseCPU()
	began := time.Now()
	if m.loadResult, err = send(ctx, g.to, r.connections, r.length); err != nil {
		return m, err
	}
	if drain {
		if err := g.stats.waitProcessed(ctx); err != nil {
			return m, err
		}
		m.perSec = float64(m.ok) / time.Since(began).Seconds()
	}
	after, err := g.stats.read(ctx)
	m.costs(before, after, g.CPU()-cpu, g.databaseCPU()-databaseCPU)
	return m, err
}

// costs sets the costs of each event from the counters before and after, and from processor times.
func (m *measurement) costs(before, after counters, gatewayCPU, databaseCPU float64) {
	m.transactions = (after.transactions - before.transactions) / float64(m.ok)
	m.wal = (after.wal - before.wal) / float64(m.ok)
	m.gatewayCPU, m.databaseCPU = gatewayCPU/float64(m.ok), databaseCPU/float64(m.ok)
}
