package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
)

// Sources of this part. Those of another tenant have ten routes each, which
// take nothing: at once, or because their filters never end.
const (
	oneRoute, tenRoutes = benchSource, "manyof"
	otherTenant         = "other"
	calm, hanging       = "calm", "hang"
)

// Rounds of fairness, each with a gateway of its own, since what hangs in one
// goes on into the next.
const (
	fairRounds = 5
	fairLength = 5 * time.Second
	fairPace   = 100 // requests a second of each tenant
	fairBefore = time.Second
)

// routes holds processing with ten routes, of which one takes the events,
// against that one alone; and how long a tenant's events take while the filters
// of another never end against how long they take while those are quick.
func (r *run) routes(ctx context.Context) error {
	own := *r
	own.file = filepath.Join(r.dir, "routes.yaml")
	if err := os.WriteFile(own.file, []byte(manyRoutes), 0o600); err != nil {
		return err
	}
	if err := r.manyAgainstOne(ctx, &own); err != nil {
		return err
	}
	return r.fairness(ctx, &own)
}

// limitless are settings of a source to which the bench sends one signed body over
// and over: each request is an event, told apart by its delivery's id.
const limitless = `rate_limit: {requests_per_second: 1000000, requests_per_minute: 60000000, burst_size: 1000000}
        replay_protection: "off"`

// manyRoutes configures the sources. Routes that take nothing are told by their
// types, by patterns over header and body, and by an expression.
var manyRoutes = `
tenants:
  - slug: ` + benchTenant + `
    sources:
      - slug: ` + oneRoute + `
        provider: github
        secrets: ["` + secret + `"]
        ` + limitless + `
        routes:
          - {name: pushes, filter_event_types: [push], targets: [{type: task, task_kind: build}]}
      - slug: ` + tenRoutes + `
        provider: github
        secrets: ["` + secret + `"]
        ` + limitless + `
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
  - slug: ` + otherTenant + `
    sources:
` + tenOf(calm, `filter: {body.ref: none}`) + tenOf(hanging, `filter_function: "function filter() { while (true) {} }"`)

// tenOf is a source with ten routes of one condition.
func tenOf(slug, condition string) string {
	yaml := "      - slug: " + slug + "\n        provider: github\n        secrets: [\"" + secret + "\"]\n        " + limitless + "\n        routes:\n"
	for i := range 10 {
		yaml += fmt.Sprintf("          - {name: r%d, %s, targets: [{type: task, task_kind: build}]}\n", i, condition)
	}
	return yaml
}

// at is the gateway whose requests go to a source of the bench's tenant.
func (g *gateway) at(source string) *gateway {
	other := *g
	other.to.paths = []string{ingest.Path(benchTenant, source)}
	return &other
}

func (r *run) manyAgainstOne(ctx context.Context, own *run) error {
	r.print("routes: ten of which one takes the events against that one; %d rounds of %s each\n", r.rounds, r.length)
	g, err := own.gateway(ctx, "routes")
	if err != nil {
		return err
	}
	defer g.stop()
	type pair struct{ one, ten measured }
	var rounds []pair
	for round := range r.rounds + 1 { // the first warms up
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
	r.reportMeasured(medianMeasured(rounds, func(x pair) measured { return x.one }))
	r.print("%-38s", "the same beside nine others")
	r.reportMeasured(medianMeasured(rounds, func(x pair) measured { return x.ten }))
	r.ratios = append(r.ratios, ratio{"accept to task with ten routes / with one", medianOf(rounds, func(x pair) float64 { return x.ten.perSec / x.one.perSec }), 0.90, false})
	return nil
}

func (r *run) fairness(ctx context.Context, own *run) error {
	r.print("\nroutes: %d events/s of a tenant while another sends as many to ten routes that are quick, or never end; %d rounds of %s each\n", fairPace, fairRounds, fairLength)
	type pair struct{ calm, hanging time.Duration }
	var rounds []pair
	for round := range fairRounds {
		var x pair
		err := func() (err error) {
			g, err := own.gateway(ctx, fmt.Sprintf("fair-%d", round))
			if err != nil {
				return err
			}
			defer g.stop()
			if _, err = g.beside(ctx, calm); err != nil { // warms up
				return err
			}
			if x.calm, err = g.beside(ctx, calm); err != nil {
				return err
			}
			x.hanging, err = g.beside(ctx, hanging)
			return err
		}()
		if err != nil {
			return err
		}
		rounds = append(rounds, x)
		r.print("  accept to processed, p99: beside quick ones %s   beside some that never end %s (%.2f)\n", x.calm, x.hanging, float64(x.hanging)/float64(x.calm))
	}
	r.ratios = append(r.ratios, ratio{"p99 beside filters that never end / beside quick ones", medianOf(rounds, func(x pair) float64 { return float64(x.hanging) / float64(x.calm) }), 1.5, true})
	return nil
}

// beside is the p99 of the time from the receipt of the bench's tenant's events
// until they are processed, while the other tenant sends to a source.
func (g *gateway) beside(ctx context.Context, source string) (p99 time.Duration, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var other sync.WaitGroup
	var otherErr error
	other.Go(func() {
		otherErr = pace(ctx, target{address: g.to.address, paths: []string{ingest.Path(otherTenant, source)}}, fairPace, fairBefore+fairLength)
	})
	time.Sleep(fairBefore)
	from := eventhook.FirstID[eventhook.Event](time.Now())
	err = pace(ctx, g.to, fairPace, fairLength)
	other.Wait()
	if err != nil || otherErr != nil {
		return 0, fmt.Errorf("send: %w, %w", err, otherErr)
	}
	times, err := g.stats.processed(ctx, from)
	if err != nil {
		return 0, err
	}
	return percentile(times, 99), nil
}

// processed are how long the bench's tenant's events from an id on have taken,
// when none of them is owed any more.
func (s *stats) processed(ctx context.Context, from eventhook.EventID) ([]time.Duration, error) {
	const sql = `SELECT e.id, e.processed_at FROM eventhook.event e JOIN eventhook.tenant t ON t.id = e.tenant_id
WHERE t.slug = $1 AND e.id >= $2`
	for wait := time.Now().Add(time.Minute); ; {
		rows, err := s.conn.Query(ctx, sql, benchTenant, [16]byte(from))
		if err != nil {
			return nil, err
		}
		owed := 0
		times, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (time.Duration, error) {
			var id eventhook.EventID
			var at *time.Time
			if err := row.Scan((*[16]byte)(&id), &at); err != nil {
				return 0, err
			}
			if at == nil {
				owed++
				return 0, nil
			}
			return at.Sub(id.Time()), nil
		})
		switch {
		case err != nil:
			return nil, err
		case owed == 0 && len(times) > 0:
			return times, nil
		case time.Now().After(wait):
			return nil, fmt.Errorf("%d of %d events are not processed", owed, len(times))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// pace sends as many requests a second for a while, over some connections.
func pace(ctx context.Context, to target, perSecond int, length time.Duration) error {
	const connections = 10
	errs := make([]error, connections)
	deadline := time.Now().Add(length)
	var senders sync.WaitGroup
	for i := range connections {
		senders.Go(func() {
			errs[i] = paceOn(ctx, to, time.Second*connections/time.Duration(perSecond), deadline)
		})
		time.Sleep(time.Second / time.Duration(perSecond))
	}
	senders.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func paceOn(ctx context.Context, to target, every time.Duration, deadline time.Time) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", to.address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	m, in := to.message(), bufio.NewReader(conn)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for time.Now().Before(deadline) && ctx.Err() == nil {
		if err := m.next(to); err != nil {
			return err
		}
		if _, err := conn.Write(m.raw); err != nil {
			return err
		}
		if err := readAnswer(in, m.answer); err != nil {
			return err
		}
		<-tick.C
	}
	return ctx.Err()
}
