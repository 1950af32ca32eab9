package main

import (
	"cmp"
	"context"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
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
	dir := filepath.Join(r.dir, name)
	p, address, err := start(ctx, gatewayReady, r.binary, env,
		"serve", "--data-dir", dir, "--listen", "127.0.0.1:0", "--management-listen", "127.0.0.1:0", "--apply", r.file, "--log-level", cmp.Or(r.logLevel, "warn"))
	if err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, "host="+filepath.Join(dir, "postgres")+" user=eventhook dbname=eventhook sslmode=disable")
	if err != nil {
		p.stop()
		return nil, err
	}
	return &gateway{p, dir, requestSpec{address: address, paths: []string{benchPath}}, &stats{conn}}, nil
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
	m.transactions = (after.transactions - before.transactions) / float64(m.ok)
	m.wal = (after.wal - before.wal) / float64(m.ok)
	m.gatewayCPU = (g.CPU() - cpu) / float64(m.ok)
	m.databaseCPU = (g.databaseCPU() - databaseCPU) / float64(m.ok)
	return m, err
}
