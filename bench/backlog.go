package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// How much waits in the databases that are held against each other.
const (
	fewOwed, manyOwed = 10_000, 1_000_000
	mostMemory        = 1.2 // may a gateway beside many have of what it has beside few
)

// backlogged is what one gateway gave, beside its backlog.
type backlogged struct {
	memory        float64 // bytes
	pause, remove time.Duration
}

// backlog holds the memory of a gateway in whose database many deliveries are
// due to one that never answers against that of one with few, under the same
// load; how long it takes to pause and to delete that subscription; and what a
// claim costs beside many deliveries that have ended and many that are due.
func (r *run) backlog(ctx context.Context) error {
	r.print("backlog: a gateway beside %d due deliveries to one that never answers, and beside %d\n", manyOwed, fewOwed)
	to, err := startSink(ctx)
	if err != nil {
		return err
	}
	defer to.stop()
	few, err := r.besideBacklog(ctx, "backlog-few", to, fewOwed)
	if err != nil {
		return err
	}
	many, err := r.besideBacklog(ctx, "backlog-many", to, manyOwed)
	if err != nil {
		return err
	}
	const mega = 1 << 20
	for _, row := range []struct {
		name string
		backlogged
	}{{"beside few", few}, {"beside many", many}} {
		r.print("  %-12s %4.0f MB   paused in %s   deleted in %s\n", row.name, row.memory/mega, row.pause.Round(time.Millisecond), row.remove.Round(time.Millisecond))
	}
	r.ratios = append(r.ratios, ratio{fmt.Sprintf("memory beside %d due deliveries / beside %d", manyOwed, fewOwed), many.memory / few.memory, mostMemory, true})
	return r.claimCost(ctx)
}

// besideBacklog is what a gateway needs under load beside so many due deliveries.
func (r *run) besideBacklog(ctx context.Context, name string, to *sinkProcess, due int) (b backlogged, err error) {
	p, err := r.publisher(ctx, name)
	if err != nil {
		return b, err
	}
	defer p.stop()
	dead, err := p.subscribe(ctx, deadSubscription(to.url(never, "dead"), viaRoute))
	if err != nil {
		return b, err
	}
	if err := p.owe(ctx, dead, due); err != nil {
		return b, err
	}
	if _, err := p.subscribe(ctx, subscription{Name: "healthy", URL: to.url("0ms", "healthy"), EventTypes: []string{made}, MaxInFlight: r.connections}); err != nil {
		return b, err
	}
	const loads = 3
	for range loads {
		if _, err := send(ctx, p.publishes(made), r.connections, r.length); err != nil {
			return b, err
		}
		if err := p.memory(&b.memory); err != nil {
			return b, err
		}
	}
	path := "/subscriptions/" + dead
	if b.pause, err = p.took(ctx, http.MethodPost, path+"/pause"); err != nil {
		return b, err
	}
	b.remove, err = p.took(ctx, http.MethodDelete, path)
	return b, err
}

// took is how long a call of the API takes.
func (p *publisher) took(ctx context.Context, method, path string) (time.Duration, error) {
	began := time.Now()
	err := p.call(ctx, method, path, struct{}{}, nil)
	return time.Since(began), err
}

// memory raises the most that was seen to what the process has now. Linux tells
// it; elsewhere this part fails.
func (p *process) memory(most *float64) error {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return fmt.Errorf("memory: %w", err)
	}
	bytes, err := residentIn(string(raw))
	*most = max(*most, bytes)
	return err
}

// residentIn finds the memory of a process in its status.
func residentIn(status string) (bytes float64, err error) {
	const name, unit, kilo = "\nVmRSS:", "kB", 1 << 10
	_, rest, found := strings.Cut(status, name)
	line, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(line, unit)), 64)
	if !found || err != nil {
		return 0, fmt.Errorf("memory: %q is not told in kB", line)
	}
	return n * kilo, nil
}
