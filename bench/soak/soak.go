// Package soak runs gateways under load for a long time, with faults, and counts every event at
// the end.
//
// A run has two gateways on a PostgreSQL of its own, workers, and four subscribers: one answers at
// once, one slowly, one fails for a while, and the address of one is closed for a while. Meanwhile
// the run stops and kills gateways, PostgreSQL and workers, and makes days pass for the partitions. A
// sender repeats each webhook until it is accepted, as providers do.
//
// An event is lost unless it is stored once, settled, processed by one execution, and delivered to
// every subscriber. A repeated delivery or a repeated call of a handler is not a loss: both are at least
// once. Everything listens on loopback or a socket, and is stopped and deleted at the end.
package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook/internal/pgembed"
)

// Options describe a run.
type Options struct {
	Gateway []string      // the program of a gateway with its first arguments; "serve" and flags follow
	Env     []string      // variables of gateways
	For     time.Duration // how long to send; the run takes up to Patience longer
	Rate    int           // webhooks per second
	// Patience is how long all events may take to be settled and delivered after the last one was sent.
	Patience time.Duration
	// Settled is the number of settled events with a delivery each that the database has before the start.
	Settled int
	Report  string // folder of soak.svg, soak.json and soak.md; created if necessary
	Log     io.Writer
}

// Validate returns every fault of the options.
func (o Options) Validate() error {
	const maxEvents = 20_000_000 // memory: about 60 bytes each
	var faults []error
	if len(o.Gateway) == 0 {
		faults = append(faults, errors.New("no program of a gateway"))
	}
	if o.For < minLength || o.Rate < 1 || o.For.Seconds()*float64(o.Rate) > maxEvents {
		faults = append(faults, fmt.Errorf("%s at %d events/s: want at least %s and 1/s, and at most %d events", o.For, o.Rate, minLength, maxEvents))
	}
	if o.Settled < 0 {
		faults = append(faults, fmt.Errorf("%d settled events: want at least 0", o.Settled))
	}
	return errors.Join(faults...)
}

const minLength = 5 * time.Second

// run is the state of a run.
type run struct {
	Options
	dir      string // removed at the end
	began    time.Time
	database *pgembed.Server
	fleet    *fleet
	ledger   *ledger
	subs     []*subscriber
	workers  *workers
	marks    marks
	samples  *sampler
	agings   int // number of times that days have passed
	aged     int // events that were counted before their day passed

	settledDropped bool // the seeded events are past the retention
}

// Run runs a soak and writes its report. It returns the summary, and an error if the run could not
// be completed; an event that was lost is no error, see Summary.Problems.
func Run(ctx context.Context, o Options) (s Summary, err error) {
	if err := o.Validate(); err != nil {
		return s, err
	}
	r := &run{Options: o}
	if r.dir, err = os.MkdirTemp("", "eventhook-soak-"); err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, r.cleanUp()) }()
	if err := r.start(ctx); err != nil {
		return s, err
	}
	if err := r.exercise(ctx); err != nil {
		return s, err
	}
	s, err = r.audit(ctx)
	return s, errors.Join(err, r.write(s))
}

// settings keep the disk small, and vacuum often, so that a run of minutes sees many vacuums.
var settings = map[string]string{
	"max_wal_size":                 "512MB",
	"autovacuum_naptime":           "5s",
	"autovacuum_vacuum_cost_delay": "0",
	"max_connections":              "150",
	"log_min_messages":             "fatal",
}

func (r *run) start(ctx context.Context) (err error) {
	if err := os.Chmod(r.dir, 0o711); err != nil {
		return err
	}
	if r.database, err = pgembed.Start(ctx, pgembed.Options{DataDir: filepath.Join(r.dir, "data"), Settings: settings, DieWithParent: true}); err != nil {
		return err
	}
	r.ledger = newLedger(int(r.For.Seconds()*float64(r.Rate))+r.Rate, len(kinds))
	if r.subs, err = startSubscribers(r.ledger); err != nil {
		return err
	}
	if r.fleet, err = r.startFleet(ctx); err != nil {
		return err
	}
	if err := r.subscribe(ctx); err != nil {
		return err
	}
	if err := r.seed(ctx); err != nil {
		return err
	}
	r.began = time.Now()
	r.marks.began, r.ledger.began = r.began, r.began
	r.workers = startWorkers(ctx, r)
	r.samples = newSampler(r)
	return nil
}

// exercise sends for the time of the run, while faults happen. Then it waits until every event has
// arrived everywhere.
func (r *run) exercise(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	sampled, failed := make(chan struct{}), make(chan error, 1)
	go func() { defer close(sampled); r.samples.readAll(ctx) }()
	go func() {
		err := r.fail(ctx)
		if err != nil {
			stop() // else send would repeat webhooks forever to gateways that are gone
		}
		failed <- err
	}()
	r.send(ctx)
	err := <-failed
	if err == nil {
		err = r.recover(ctx)
	}
	if err == nil {
		r.printf("sent for %s; waiting until all events are settled and delivered", r.For)
		r.awaitAll(ctx)
	}
	stop()
	<-sampled
	return errors.Join(err, r.workers.stop())
}

// awaitAll waits until the ledger is complete, for at most Patience. The audit reports the rest.
func (r *run) awaitAll(ctx context.Context) {
	const poll = 100 * time.Millisecond
	deadline := time.Now().Add(r.Patience)
	for tick := time.NewTicker(poll); !r.ledger.isComplete() && time.Now().Before(deadline); {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (r *run) cleanUp() error {
	if r.fleet != nil {
		r.fleet.killAll()
	}
	for _, s := range r.subs {
		s.close()
	}
	if r.database != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = r.database.Stop(ctx)
		if err := pgembed.Discard(filepath.Join(r.dir, "data")); err != nil {
			return err
		}
	}
	return os.RemoveAll(r.dir)
}

// connect connects to the database. A database that a fault has stopped is awaited for a minute.
func (r *run) connect(ctx context.Context) (*pgx.Conn, error) {
	const patience, poll = time.Minute, 100 * time.Millisecond
	for deadline := time.Now().Add(patience); ; time.Sleep(poll) {
		conn, err := pgx.Connect(ctx, r.database.DSN(pgembed.Database))
		if err == nil || ctx.Err() != nil || time.Now().After(deadline) {
			return conn, err
		}
	}
}

func (r *run) printf(format string, args ...any) {
	if r.Log != nil {
		_, _ = fmt.Fprintf(r.Log, format+"\n", args...)
	}
}
