package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/configs"
	"github.com/eventhook/eventhook/internal/pg"
	"github.com/eventhook/eventhook/internal/pgembed"
	"github.com/eventhook/eventhook/internal/seal"
	"github.com/eventhook/eventhook/migrations"
	"github.com/eventhook/eventhook/verify"
)

// The files that are held against each other, by how many sources are in them.
// There are many of few, one after the other, so that what else the machine
// does hits both.
const (
	fewApplied, manyApplied = 100, 10_000
	filesOfFew              = 50
	applyRounds             = 3
	dearer                  = 1.5 // may a source among many be
)

// acts are what applying can do, in this order.
var acts = []struct {
	name   string
	action eventhook.ChangeAction
}{
	{"create", eventhook.ChangeCreate}, {"leave unchanged", eventhook.ChangeUnchanged}, {"change", eventhook.ChangeUpdate},
}

// applied is what each act cost per source, in microseconds.
type applied []float64

// applyRound is what one round gave.
type applyRound struct{ few, many applied }

// apply holds what a source costs in a file of many against one of few, from
// the reading of the file to the end of its transaction. The start of a process
// is left out: it would cost the few more.
func (r *run) apply(ctx context.Context) error {
	r.print("apply: a file of %d sources against %d, each with a route; %d rounds\n", manyApplied, fewApplied, applyRounds)
	a, end, err := newApplier(ctx, filepath.Join(r.dir, "apply"))
	if err != nil {
		return err
	}
	defer end()
	var rounds []applyRound
	if _, err := a.measure(ctx, "warm", fewApplied, filesOfFew); err != nil {
		return err
	}
	for round := range applyRounds {
		var x applyRound
		if x.few, err = a.measure(ctx, fmt.Sprintf("few-%d", round), fewApplied, filesOfFew); err != nil {
			return err
		}
		if x.many, err = a.measure(ctx, fmt.Sprintf("many-%d", round), manyApplied, 1); err != nil {
			return err
		}
		rounds = append(rounds, x)
	}
	for i, act := range acts {
		few, many := medianOf(rounds, func(x applyRound) float64 { return x.few[i] }), medianOf(rounds, func(x applyRound) float64 { return x.many[i] })
		r.print("  %-16s %5.0fµs a source of few, %5.0fµs of many\n", act.name, few, many)
		r.ratios = append(r.ratios, ratio{"apply, " + act.name + ": a source of many / of few",
			medianOf(rounds, func(x applyRound) float64 { return x.many[i] / x.few[i] }), dearer, true})
	}
	return nil
}

// applier applies files as the command does, to a database of its own.
type applier struct {
	db   *pg.DB
	file string
}

func newApplier(ctx context.Context, dir string) (a *applier, end func(), err error) {
	server, err := pgembed.Start(ctx, pgembed.Options{DataDir: dir})
	if err != nil {
		return nil, nil, err
	}
	stop := func() { _ = server.Stop(context.WithoutCancel(ctx)) }
	defer func() {
		if err != nil {
			stop()
		}
	}()
	if err = migrations.Up(ctx, server.DSN(pgembed.Database)); err != nil {
		return nil, nil, err
	}
	keys, err := seal.New(seal.NewKey())
	if err != nil {
		return nil, nil, err
	}
	a = &applier{file: filepath.Join(dir, "applied.yaml")}
	a.db, err = pg.Open(ctx, server.DSN(pgembed.Database), pg.Options{Sealer: keys, Describe: verify.Describe, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, nil, err
	}
	return a, func() { a.db.Close(); stop() }, nil
}

// measure does each act with the new tenants of some files.
func (a *applier) measure(ctx context.Context, name string, sources, files int) (costs applied, err error) {
	costs = make(applied, len(acts))
	for file := range files {
		for i, act := range acts {
			took, err := a.act(ctx, act.action, fmt.Sprintf("%s-%d", name, file), sources)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", act.name, err)
			}
			costs[i] += float64(took.Microseconds()) / float64(sources*files)
		}
	}
	return costs, nil
}

// act applies a file that does this to each of its sources and routes.
func (a *applier) act(ctx context.Context, action eventhook.ChangeAction, tenant string, sources int) (took time.Duration, err error) {
	if err := os.WriteFile(a.file, configOf(tenant, sources, action == eventhook.ChangeUpdate), 0o600); err != nil {
		return 0, err
	}
	began := time.Now()
	done, err := a.apply(ctx)
	took = time.Since(began)
	const things = 2 // a source and its route
	if n := done[action]; err == nil && n < things*sources {
		err = fmt.Errorf("this was done to %d of %d sources and routes", n, things*sources)
	}
	return took, err
}

// apply reads the file and applies it, and says how often it did what.
func (a *applier) apply(ctx context.Context) (done map[eventhook.ChangeAction]int, err error) {
	tenants, err := configs.LoadTenants(a.file, os.LookupEnv)
	if err != nil {
		return nil, err
	}
	done = map[eventhook.ChangeAction]int{}
	for _, t := range tenants {
		changes, err := a.db.ApplyTenant(ctx, eventhook.Actor{Type: eventhook.ActorOperator, Name: "bench"}, t, pg.ApplyOptions{})
		if err != nil {
			return nil, err
		}
		for _, c := range changes {
			done[c.Action]++
		}
	}
	return done, nil
}

// configOf is a tenant of some sources in YAML. Every source and every route of
// it differs if isChanged.
func configOf(tenant string, sources int, isChanged bool) []byte {
	name, priority := "as it was made", 1
	if isChanged {
		name, priority = "as it was changed", 2
	}
	var b strings.Builder
	fmt.Fprintf(&b, "tenants:\n- slug: %s\n  sources:\n", tenant)
	for n := range sources {
		fmt.Fprintf(&b, `  - slug: %s
    name: %s
    provider: github
    secrets: ["%s-%d"]
    routes:
    - name: pushes
      priority: %d
      filter_event_types: [push]
      filter: {body.ref: refs/heads/main}
      targets: [{type: task, task_kind: build}]
`, filledSource(n+1), name, secret, n, priority)
	}
	return []byte(b.String())
}
