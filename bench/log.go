package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/eventhook/eventhook"
)

// logRound is the result of one round.
type logRound struct {
	direct measurement
	// The log with PostgreSQL storing meanwhile, the log while PostgreSQL stores nothing, and the log
	// whose servers write each message to the disk first.
	beside, alone, synced logged
}

// logged is the result of accepting into the log.
type logged struct {
	measurement
	stored    float64 // events per second from the first request until all are in the database
	drained   float64 // events per second from the first one that may be stored, or from the last request
	waiting   int     // events that were not in the database at the end of the requests
	logCPU    float64 // of the three servers, per event
	untilDone time.Duration
}

// log compares accepting into a log of three NATS servers with accepting into the database.
func (r *run) log(ctx context.Context) error {
	r.print("log: webhooks accepted into three NATS servers (one process), and into PostgreSQL; %d connections, %d rounds of %s each\n",
		r.connections, r.rounds, r.length)
	direct, err := r.gateway(ctx, "direct", acceptOnly)
	if err != nil {
		return err
	}
	defer direct.stop()
	front, err := r.logGateway(ctx, "log")
	if err != nil {
		return err
	}
	defer front.stop()
	synced, err := r.logGateway(ctx, "synced", "-nats-sync")
	if err != nil {
		return err
	}
	defer synced.stop()
	var rounds []logRound
	for round := range r.rounds + 1 { // the first is a warm-up
		one, err := r.logRound(ctx, direct, front, synced)
		if err != nil {
			return err
		}
		if round > 0 {
			rounds = append(rounds, one)
			r.print("  PostgreSQL %6.0f/s   log %6.0f/s (%.2f), stored %6.0f/s   log alone %6.0f/s (%.2f), then drained %6.0f/s   synced log %6.0f/s (%.2f)\n",
				one.direct.perSec, one.beside.perSec, one.beside.perSec/one.direct.perSec, one.beside.stored,
				one.alone.perSec, one.alone.perSec/one.direct.perSec, one.alone.drained, one.synced.perSec, one.synced.perSec/one.direct.perSec)
		}
	}
	r.reportLog(rounds)
	return nil
}

func (r *run) logRound(ctx context.Context, direct *gateway, front, synced *logGateway) (one logRound, err error) {
	if one.direct, err = direct.measure(ctx, r, false); err != nil {
		return one, fmt.Errorf("PostgreSQL: %w", err)
	}
	if one.beside, err = front.measureLog(ctx, r, false); err != nil {
		return one, fmt.Errorf("log: %w", err)
	}
	if one.alone, err = front.measureLog(ctx, r, true); err != nil {
		return one, fmt.Errorf("log alone: %w", err)
	}
	if one.synced, err = synced.measureLog(ctx, r, false); err != nil {
		return one, fmt.Errorf("synced log: %w", err)
	}
	return one, nil
}

// logGateway is a gateway with a log in front of its database.
type logGateway struct {
	*gateway
	servers *process
}

func (r *run) logGateway(ctx context.Context, name string, args ...string) (*logGateway, error) {
	servers, addresses, err := r.startNATS(ctx, args...)
	if err != nil {
		return nil, err
	}
	env := []string{acceptOnly, "EVENTHOOK_INGEST_LOG_URL=" + addresses}
	g, lines, err := r.startGateway(ctx, name, env, gatewayReady, managementReady)
	if err != nil {
		servers.stop()
		return nil, err
	}
	l := &logGateway{g, servers}
	if err := waitReady(ctx, strings.TrimSuffix(lines[1], "/metrics")); err != nil {
		l.stop()
		return nil, err
	}
	return l, nil
}

// managementReady precedes the address of the metrics in the output of a gateway.
const managementReady = "health, metrics   http://"

// waitReady waits until a gateway, whose management listener has an address, accepts webhooks.
func waitReady(ctx context.Context, address string) error {
	const patience, pause = time.Minute, 100 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for ; ; time.Sleep(pause) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/health/ready", nil)
		if err != nil {
			return err
		}
		if _, err := successBody(http.DefaultClient, r); err == nil || ctx.Err() != nil {
			return err
		}
	}
}

func (l *logGateway) stop() {
	l.gateway.stop()
	l.servers.stop()
}

// measureLog sends for some time and waits until all events are in the database. If isHeld is set, the
// database stores none before the end of the requests.
func (l *logGateway) measureLog(ctx context.Context, r *run, isHeld bool) (m logged, err error) {
	before, err := l.stats.read(ctx)
	if err != nil {
		return m, err
	}
	first := eventhook.NewID[eventhook.Event](time.Now())
	cpu, databaseCPU, logCPU := l.CPU(), l.databaseCPU(), l.servers.CPU()
	release := func() error { return nil }
	if isHeld {
		if release, err = l.stats.hold(ctx); err != nil {
			return m, err
		}
	}
	began := time.Now()
	m.loadResult, err = send(ctx, l.to, r.connections, r.length)
	if err != nil {
		_ = release()
		return m, err
	}
	released := time.Now()
	if err := release(); err != nil {
		return m, err
	}
	stored, err := l.stats.stored(ctx, first)
	if err != nil {
		return m, err
	}
	m.waiting = m.ok - stored
	if err := l.stats.waitStored(ctx, first, m.ok); err != nil {
		return m, err
	}
	m.untilDone = time.Since(released)
	m.drained = float64(m.waiting) / m.untilDone.Seconds()
	m.stored = float64(m.ok) / time.Since(began).Seconds()
	after, err := l.stats.read(ctx)
	m.costs(before, after, l.CPU()-cpu, l.databaseCPU()-databaseCPU)
	m.logCPU = (l.servers.CPU() - logCPU) / float64(m.ok)
	return m, err
}
