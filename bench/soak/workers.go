package soak

import (
	"context"
	"errors"
	"log/slog"

	"github.com/eventhook/eventhook/worker"
)

const workerCount = 2

// workers are the Go workers of a run, and are restarted together.
type workers struct {
	cancel  context.CancelFunc
	stopped chan error
}

func startWorkers(ctx context.Context, r *run) *workers {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w := &workers{cancel, make(chan error, workerCount)}
	for range workerCount {
		go func() { w.stopped <- r.newWorker().Run(ctx) }()
	}
	return w
}

func (r *run) newWorker() *worker.Worker {
	const concurrency = 20
	return worker.New(baseURL+"/api/tenants/"+tenant+"/eventhook", adminKey, worker.WithConcurrency(concurrency), worker.WithLease(r.lease()),
		worker.WithHTTPClient(r.fleet.client(concurrency)), worker.WithLogger(slog.New(slog.DiscardHandler))).
		Handle(taskKind, func(_ context.Context, job *worker.Job) error {
			r.ledger.handle(numberOf(job.Input))
			return nil
		})
}

// stop ends the workers after their running jobs.
func (w *workers) stop() (err error) {
	w.cancel()
	for range workerCount {
		err = errors.Join(err, <-w.stopped)
	}
	return err
}
