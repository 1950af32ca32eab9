package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/eventhook/eventhook/bench/measure"
)

const (
	eventForAgent  = "bench.agent"
	agentLabel     = "env:bench"
	agentShare     = 2 // an agent holds a delivery until its result is stored, and the gateway holds a slot until the answer
	waitingAgents  = 1000
	waitingWatched = 10 * time.Second
)

// Limits of deliveries by agents. maxWaitingMemory is in MiB and maxWaitingQueries in transactions
// per second of all waiting agents together.
const minByAgent, maxAgentP50, maxWaitingMemory, maxWaitingQueries = 0.5, 10.0, 64.0, 100.0

// agents compares deliveries by one agent on the same machine with those of the gateway, measures
// the time from publishing to the receiver at a low rate, and what agents cost that wait.
func (r *run) agents(ctx context.Context) error {
	r.print("agents: one agent with %d concurrent requests; %d rounds of %s each; %d agents that wait\n", r.connections, r.rounds, r.length, waitingAgents)
	to, err := startSink(ctx)
	if err != nil {
		return err
	}
	defer to.stop()
	p, err := r.publisher(ctx, "agents")
	if err != nil {
		return err
	}
	defer p.stop()
	for _, s := range []subscription{
		{Name: "gateway", URL: to.url("0ms", "gateway"), EventTypes: []string{eventForOne}, MaxInFlight: r.connections},
		{Name: "agent", URL: to.url("0ms", "agent"), EventTypes: []string{eventForAgent}, MaxInFlight: agentShare * r.connections, TargetLabels: []string{agentLabel}},
	} {
		if _, err := p.createSubscription(ctx, s); err != nil {
			return err
		}
	}
	if err := r.measureByAgent(ctx, p, to); err != nil {
		return err
	}
	return r.measureWaiting(ctx, p)
}

func (r *run) measureByAgent(ctx context.Context, p *publisher, to *sinkProcess) error {
	stop, err := r.startAgent(ctx, p, to)
	if err != nil {
		return err
	}
	defer stop()
	var ratios []float64
	for round := range r.rounds + 1 { // the first is a warm-up
		direct, err := p.measureDeliveries(ctx, r, to, p.publishRequests(eventForOne), 1, r.length)
		if err != nil {
			return fmt.Errorf("gateway: %w", err)
		}
		got, err := p.measureDeliveries(ctx, r, to, p.publishRequests(eventForAgent), 1, r.length)
		if err != nil {
			return fmt.Errorf("agent: %w", err)
		}
		if round > 0 {
			ratios = append(ratios, got.perSec/direct.perSec)
			r.print("  by the gateway %6.0f/s   by an agent %6.0f/s (%.2f)   transactions per delivery %.3f and %.3f\n",
				direct.perSec, got.perSec, got.perSec/direct.perSec, direct.transactions, got.transactions)
		}
	}
	events := p.publishRequests(eventForAgent)
	events.timestamped = true
	t, err := p.measureLatency(ctx, to, events, latencyRate, latencyLength)
	if err != nil {
		return err
	}
	r.print("  at %d a second: published to received p50 %s   p99 %s\n", latencyRate, t.P50, t.P99)
	r.addRatios(measure.AtLeast("deliveries by an agent / by the gateway", median(ratios), minByAgent),
		measure.AtMost("p50 from publishing to the receiver by an agent, in ms", milliseconds(t.P50), maxAgentP50))
	return nil
}

// measureWaiting measures the memory and the transactions of agents that wait, each with a label of
// its own.
func (r *run) measureWaiting(ctx context.Context, p *publisher) error {
	var keys []string
	for i := range waitingAgents {
		key, err := p.createAgent(ctx, fmt.Sprintf("waiting-%d", i), agentLabel, fmt.Sprintf("host:h%d", i))
		if err != nil {
			return err
		}
		keys = append(keys, key)
	}
	idle, err := p.idle(ctx)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	var waiting sync.WaitGroup
	for _, key := range keys {
		waiting.Go(func() { p.wait(ctx, key) })
	}
	defer waiting.Wait()
	defer stop()
	time.Sleep(waitingWatched) // until all of them wait
	busy, err := p.idle(ctx)
	if err != nil {
		return err
	}
	memory, queries := (busy.memory-idle.memory)/(1<<20), busy.transactions-idle.transactions
	r.print("  %d waiting agents: %.0f MiB, %.1f transactions a second\n", waitingAgents, memory, queries)
	r.addRatios(measure.AtMost("memory of 1000 waiting agents, in MiB", memory, maxWaitingMemory),
		measure.AtMost("transactions a second of 1000 waiting agents", queries, maxWaitingQueries))
	return nil
}

// idleCost is what a gateway costs that does nothing.
type idleCost struct{ memory, transactions float64 }

// idle measures for waitingWatched.
func (p *publisher) idle(ctx context.Context) (c idleCost, err error) {
	before, err := p.stats.read(ctx)
	if err != nil {
		return c, err
	}
	time.Sleep(waitingWatched)
	after, err := p.stats.read(ctx)
	if err != nil {
		return c, err
	}
	c.transactions = (after.transactions - before.transactions) / waitingWatched.Seconds()
	c.memory, err = p.Memory()
	return c, err
}

// createAgent creates an agent with labels and returns its key.
func (p *publisher) createAgent(ctx context.Context, name string, labels ...string) (key string, err error) {
	var created struct{ Key string }
	err = p.call(ctx, http.MethodPost, "/agents", map[string]any{"name": name, "labels": labels}, &created)
	return created.Key, err
}

// startAgent starts the program of an agent, which may send to the sink.
func (r *run) startAgent(ctx context.Context, p *publisher, to *sinkProcess) (stop func(), err error) {
	key, err := p.createAgent(ctx, "sender", agentLabel)
	if err != nil {
		return nil, err
	}
	const started = "agent of the bench" // printed by a shell, since the program prints nothing
	a, _, err := start(ctx, started, "/bin/sh", []string{"EVENTHOOK_KEY=" + key}, "-c", `echo "`+started+`"; exec "$0" "$@"`,
		r.binary, "agent", "--server", "http://"+p.to.address, "--tenant", benchTenant, "--allow", "http://"+to.address,
		"--concurrency", strconv.Itoa(agentShare*r.connections), "--listen", "", "--log-level", "warn")
	if err != nil {
		return nil, err
	}
	return a.stop, nil
}

// wait claims with the key of an agent until ctx ends. No delivery is due.
func (p *publisher) wait(ctx context.Context, key string) {
	own := publisher{p.gateway, key}
	for ctx.Err() == nil {
		if err := own.call(ctx, http.MethodPost, "/agents/claim", map[string]int{"wait_seconds": 60}, nil); err != nil { //nolint:mnd // the maximum
			time.Sleep(time.Second)
		}
	}
}
