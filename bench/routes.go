package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/bench/measure"
	"github.com/eventhook/eventhook/ingest"
)

// The sources of this part. The second tenant has two sources with ten routes each that
// match no event: with a quick filter, or with a filter that never ends.
const (
	oneRoute, tenRoutes = benchSource, "manyof"
	secondTenant        = "other"
	quick, endless      = "quick", "hang"
)

// The rounds of fairness. Each has a gateway of its own, because filters that never end
// would run on in the next round.
const (
	fairRounds = 5
	fairLength = 5 * time.Second
	fairRate   = 100 // requests per second of each tenant
	fairLead   = time.Second
)

// routes compares processing with ten routes, of which one matches the events, with
// that route alone. It also compares how long the events of a tenant take while the
// filters of another tenant never end and while they are quick.
func (r *run) routes(ctx context.Context) error {
	own := *r
	own.file = filepath.Join(r.dir, "routes.yaml")
	if err := os.WriteFile(own.file, []byte(routesConfig), 0o600); err != nil {
		return err
	}
	if err := r.tenRoutesAgainstOne(ctx, &own); err != nil {
		return err
	}
	return r.fairness(ctx, &own)
}

// unlimitedSettings are settings of a source without limits. The bench sends it one
// signed body many times; the id of the webhook delivery makes each request a new
// event.
const unlimitedSettings = `rate_limit: {requests_per_second: 1000000, requests_per_minute: 60000000, burst_size: 1000000}
        replay_protection: "off"`

// routesConfig configures the sources. The routes that match no event have event
// types, patterns over header and body, and an expression.
var routesConfig = `
tenants:
  - slug: ` + benchTenant + `
    sources:
      - slug: ` + oneRoute + `
        provider: github
        secrets: ["` + secret + `"]
        ` + unlimitedSettings + `
        routes:
          - {name: pushes, filter_event_types: [push], targets: [{type: task, task_kind: build}]}
      - slug: ` + tenRoutes + `
        provider: github
        secrets: ["` + secret + `"]
        ` + unlimitedSettings + `
        routes:
          - {name: pushes, filter_event_types: [push], targets: [{type: task, task_kind: build}]}
          - {name: issues, filter_event_types: [issues], targets: [{type: task, task_kind: build}]}
          - {name: reviews, filter_event_types: ["pull_request.*"], targets: [{type: task, task_kind: build}]}
          - {name: releases, filter_event_types: [release, deployment], targets: [{type: task, task_kind: build}]}
          - {name: stars, filter_event_types: ["star.*", watch], targets: [{type: task, task_kind: build}]}
          - {name: tags, filter: {body.ref: {$startsWith: refs/tags/}}, targets: [{type: task, task_kind: build}]}
          - {name: other, filter: {body.repository.full_name: acme/other}, targets: [{type: task, task_kind: build}]}
          - {name: hooked, filter: {header.x-github-hook-id: "1"}, targets: [{type: task, task_kind: build}]}
          - {name: large, filter: {event.body_size: {$gt: 100000}}, targets: [{type: task, task_kind: build}]}
          - {name: forced, filter_expression: "has(body.forced) && body.forced", targets: [{type: task, task_kind: build}]}
  - slug: ` + secondTenant + `
    sources:
` + tenRoutesOf(quick, `filter: {body.ref: none}`) + tenRoutesOf(endless, `filter_function: "function filter() { while (true) {} }"`)

// tenRoutesOf returns a source with ten routes of one condition.
func tenRoutesOf(slug, condition string) string {
	yaml := "      - slug: " + slug + "\n        provider: github\n        secrets: [\"" + secret + "\"]\n        " + unlimitedSettings + "\n        routes:\n"
	for i := range 10 {
		yaml += fmt.Sprintf("          - {name: r%d, %s, targets: [{type: task, task_kind: build}]}\n", i, condition)
	}
	return yaml
}

// at returns the gateway with requests to another source of the bench's tenant.
func (g *gateway) at(source string) *gateway {
	other := *g
	other.to.paths = []string{ingest.Path(benchTenant, source)}
	return &other
}

func (r *run) tenRoutesAgainstOne(ctx context.Context, own *run) error {
	r.print("routes: ten routes, of which one matches the events, against that one alone; %d rounds of %s each\n", r.rounds, r.length)
	g, err := own.gateway(ctx, "routes")
	if err != nil {
		return err
	}
	defer g.stop()
	type pair struct{ one, ten measurement }
	var rounds []pair
	for round := range r.rounds + 1 { // the first is a warm-up
		var x pair
		if x.one, err = g.at(oneRoute).measure(ctx, r, true); err != nil {
			return fmt.Errorf("one route: %w", err)
		}
		if x.ten, err = g.at(tenRoutes).measure(ctx, r, true); err != nil {
			return fmt.Errorf("ten routes: %w", err)
		}
		if round > 0 {
			rounds = append(rounds, x)
			r.print("  one route %6.0f/s   ten %6.0f/s (%.2f)\n", x.one.perSec, x.ten.perSec, x.ten.perSec/x.one.perSec)
		}
	}
	r.reportHead()
	r.print("%-38s", "accept to task, one route")
	r.reportMeasured(medianMeasured(rounds, func(x pair) measurement { return x.one }))
	r.print("%-38s", "the same with nine other routes")
	r.reportMeasured(medianMeasured(rounds, func(x pair) measurement { return x.ten }))
	r.addRatios(measure.AtLeast("accept to task with ten routes / with one", measure.Median(rounds, func(x pair) float64 { return x.ten.perSec / x.one.perSec }), 0.90))
	return nil
}

func (r *run) fairness(ctx context.Context, own *run) error {
	r.print("\nroutes: %d events/s of a tenant while another tenant sends as many to ten routes whose filters are quick, or never end; %d rounds of %s each\n", fairRate, fairRounds, fairLength)
	type pair struct{ quick, endless time.Duration }
	var rounds []pair
	for round := range fairRounds {
		var x pair
		err := func() (err error) {
			g, err := own.gateway(ctx, fmt.Sprintf("fair-%d", round))
			if err != nil {
				return err
			}
			defer g.stop()
			if _, err = g.p99Beside(ctx, quick); err != nil { // warm-up
				return err
			}
			if x.quick, err = g.p99Beside(ctx, quick); err != nil {
				return err
			}
			x.endless, err = g.p99Beside(ctx, endless)
			return err
		}()
		if err != nil {
			return err
		}
		rounds = append(rounds, x)
		r.print("  accept to processed, p99: with quick filters %s   with filters that never end %s (%.2f)\n", x.quick, x.endless, float64(x.endless)/float64(x.quick))
	}
	r.addRatios(measure.AtMost("p99 with filters that never end / with quick filters", measure.Median(rounds, func(x pair) float64 { return float64(x.endless) / float64(x.quick) }), 1.5))
	return nil
}

// p99Beside returns the p99 of the time from receipt to processed of the bench's
// tenant, while the second tenant sends to a source.
func (g *gateway) p99Beside(ctx context.Context, source string) (p99 time.Duration, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var other sync.WaitGroup
	var otherErr error
	other.Go(func() {
		otherErr = sendPaced(ctx, requestSpec{address: g.to.address, paths: []string{ingest.Path(secondTenant, source)}}, fairRate, fairLead+fairLength)
	})
	time.Sleep(fairLead)
	from := eventhook.FirstID[eventhook.Event](time.Now())
	err = sendPaced(ctx, g.to, fairRate, fairLength)
	other.Wait()
	if err != nil || otherErr != nil {
		return 0, fmt.Errorf("send: %w, %w", err, otherErr)
	}
	times, err := g.stats.processingTimes(ctx, from)
	if err != nil {
		return 0, err
	}
	return measure.Percentile(times, 99), nil
}
