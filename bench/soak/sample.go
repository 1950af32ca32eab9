package soak

import (
	"context"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook/bench/measure"
	"github.com/eventhook/eventhook/bench/process"
	"github.com/eventhook/eventhook/internal/pgembed"
)

// sample is one reading. Rates are per second since the reading before. A value that could not be
// read, such as the size of a database that is down, is nil.
type sample struct {
	At         float64    `json:"at_s"`
	Accepted   *float64   `json:"accepted_per_s"`
	Executed   *float64   `json:"executed_per_s"`
	Delivered  []*float64 `json:"delivered_per_s"` // by subscriber
	Backlog    float64    `json:"backlog"`         // sent events that are not yet done everywhere, at most: from the oldest of them
	AnswerP50  *float64   `json:"answer_p50_ms"`
	AnswerP99  *float64   `json:"answer_p99_ms"`
	ArrivalP50 *float64   `json:"arrival_p50_ms"`
	ArrivalP99 *float64   `json:"arrival_p99_ms"`
	Memory     []*float64 `json:"memory_mib"` // by gateway
	Database   *float64   `json:"database_mib"`
	Log        *float64   `json:"wal_mib"`
	DeadRows   *float64   `json:"dead_rows"`
}

// sampler reads the state of a run at an interval.
type sampler struct {
	run      *run
	interval time.Duration
	list     []sample

	before     counts
	beforeAt   time.Time
	postmaster int
	pgCPU      float64 // of PostgreSQL, in microseconds, with earlier postmasters
	lastPGCPU  float64 // of the current postmaster
}

// newSampler chooses an interval that gives at most about 400 samples.
func newSampler(r *run) *sampler {
	const most = 400
	postmaster := r.database.PID()
	return &sampler{run: r, postmaster: postmaster, lastPGCPU: process.TreeCPU(postmaster), interval: max(time.Second, (r.For / most).Truncate(time.Second)), before: counts{received: make([]int, len(kinds))}, beforeAt: time.Now()}
}

// readAll reads until ctx ends.
func (s *sampler) readAll(ctx context.Context) {
	tick := time.NewTicker(s.interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.read(ctx)
		}
	}
}

func (s *sampler) read(ctx context.Context) {
	c, w := s.run.ledger.window()
	now := time.Now()
	perSecond := func(n, before int) *float64 {
		return new(float64(n-before) / now.Sub(s.beforeAt).Seconds())
	}
	x := sample{At: now.Sub(s.run.began).Seconds(), Accepted: perSecond(c.accepted, s.before.accepted), Executed: perSecond(c.runs, s.before.runs)}
	for i, n := range c.received {
		x.Delivered = append(x.Delivered, perSecond(n, s.before.received[i]))
	}
	x.Backlog = float64(s.run.ledger.backlog())
	x.AnswerP50, x.AnswerP99 = percentiles(w.answer)
	x.ArrivalP50, x.ArrivalP99 = percentiles(w.arrival)
	for _, g := range s.run.fleet.gateways {
		memory, _ := g.usage()
		x.Memory = append(x.Memory, mebibytes(memory))
	}
	s.readDatabase(ctx, &x)
	s.readCPU()
	s.before, s.beforeAt = c, now
	s.list = append(s.list, x)
}

func percentiles(times []time.Duration) (p50, p99 *float64) {
	if len(times) == 0 {
		return nil, nil
	}
	ms := func(percent int) *float64 {
		return new(float64(measure.Percentile(times, percent)) / float64(time.Millisecond))
	}
	return ms(50), ms(99)
}

// mebibytes converts bytes. Zero bytes are unknown.
func mebibytes(bytes float64) *float64 {
	const mebi = 1 << 20
	if bytes == 0 {
		return nil
	}
	return new(bytes / mebi)
}

// sizesSQL needs a role that may list the write-ahead log.
const sizesSQL = `SELECT pg_database_size(current_database())::float8, (SELECT sum(size) FROM pg_ls_waldir())::float8,
    (SELECT coalesce(sum(n_dead_tup), 0) FROM pg_stat_user_tables)::float8`

// readDatabase reads the sizes, unless PostgreSQL is down.
func (s *sampler) readDatabase(ctx context.Context, x *sample) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.run.database.DSN(pgembed.Database))
	if err != nil {
		return
	}
	defer func() { _ = conn.Close(ctx) }()
	var size, log, dead float64
	if err := conn.QueryRow(ctx, sizesSQL).Scan(&size, &log, &dead); err == nil {
		x.Database, x.Log, x.DeadRows = mebibytes(size), mebibytes(log), &dead
	}
}

// readCPU adds the processor time of PostgreSQL. The time of a postmaster after its last reading is
// not counted.
func (s *sampler) readCPU() {
	if pid := s.run.database.PID(); pid != s.postmaster {
		s.postmaster, s.lastPGCPU = pid, 0
	}
	if now := process.TreeCPU(s.postmaster); now > s.lastPGCPU {
		s.pgCPU += now - s.lastPGCPU
		s.lastPGCPU = now
	}
}

// value returns a value for a plot.
func value(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}
