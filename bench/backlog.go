package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/eventhook/eventhook/bench/measure"
)

const (
	fewDue, manyDue = 10_000, 1_000_000
	maxMemory       = 1.2 // memory with many due deliveries over memory with few
)

// backlogResult is the result with one backlog.
type backlogResult struct {
	memory        float64 // bytes
	pause, remove time.Duration
}

// backlog compares the memory of a gateway with many due deliveries to a subscriber
// that never answers with the memory of a gateway with few, under the same load. It
// also measures how long it takes to pause and to delete that subscription.
func (r *run) backlog(ctx context.Context) error {
	r.print("backlog: a gateway with %d due deliveries to a subscriber that never answers, and with %d\n", manyDue, fewDue)
	to, err := startSink(ctx)
	if err != nil {
		return err
	}
	defer to.stop()
	few, err := r.measureBacklog(ctx, "backlog-few", to, fewDue)
	if err != nil {
		return err
	}
	many, err := r.measureBacklog(ctx, "backlog-many", to, manyDue)
	if err != nil {
		return err
	}
	const mega = 1 << 20
	for _, row := range []struct {
		name string
		backlogResult
	}{{"with few", few}, {"with many", many}} {
		r.print("  %-12s %4.0f MB   paused in %s   deleted in %s\n", row.name, row.memory/mega, row.pause.Round(time.Millisecond), row.remove.Round(time.Millisecond))
	}
	r.addRatios(measure.AtMost(fmt.Sprintf("memory with %d due deliveries / with %d", manyDue, fewDue), many.memory/few.memory, maxMemory))
	return nil
}

// measureBacklog measures a gateway under load with a number of due deliveries.
func (r *run) measureBacklog(ctx context.Context, name string, to *sinkProcess, due int) (b backlogResult, err error) {
	p, err := r.publisher(ctx, name)
	if err != nil {
		return b, err
	}
	defer p.stop()
	dead, err := p.createSubscription(ctx, silentSubscription(to.url(never, "dead"), eventRouted))
	if err != nil {
		return b, err
	}
	if err := p.insertDue(ctx, dead, due); err != nil {
		return b, err
	}
	if _, err := p.createSubscription(ctx, subscription{Name: "healthy", URL: to.url("0ms", "healthy"), EventTypes: []string{eventCreated}, MaxInFlight: r.connections}); err != nil {
		return b, err
	}
	const loads = 3
	for range loads {
		if _, err := send(ctx, p.publishRequests(eventCreated), r.connections, r.length); err != nil {
			return b, err
		}
		if err := p.raiseToMemory(&b.memory); err != nil {
			return b, err
		}
	}
	path := "/subscriptions/" + dead
	if b.pause, err = p.callTime(ctx, http.MethodPost, path+"/pause"); err != nil {
		return b, err
	}
	b.remove, err = p.callTime(ctx, http.MethodDelete, path)
	return b, err
}

// callTime returns the duration of a call of the API.
func (p *publisher) callTime(ctx context.Context, method, path string) (time.Duration, error) {
	began := time.Now()
	err := p.call(ctx, method, path, struct{}{}, nil)
	return time.Since(began), err
}
