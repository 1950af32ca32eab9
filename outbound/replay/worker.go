package replay

import (
	"context"
	"log/slog"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/cpushare"
)

// Worker handles the replays of an instance, one step of one replay at a time.
type Worker struct {
	Store      Store
	CPULimiter *cpushare.Limiter // limits the time of each tenant for filters
	// Retention is how long deliveries are stored; 0: without end. An event that is older
	// counts as missing only if it is older than the subscription.
	Retention time.Duration
	Log       *slog.Logger
	Now       func() time.Time
}

const (
	leaseTime   = 30 * time.Second
	longestPage = 2 * time.Second // of evaluating filters, and of waiting for time to do it
	pageSize    = 1000
	pollEvery   = time.Second     // without a wake-up
	retryAfter  = 5 * time.Second // a step that failed
	releaseTime = 2 * time.Second // for ending the lease after that

	shortestWait = 50 * time.Millisecond // of a replay that waits for its deliveries
	longestWait  = 5 * time.Second
)

// Run handles replays until ctx ends.
func (w *Worker) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		wake := w.Store.ReplaysWake()
		worked, next, err := w.Step(ctx)
		if err != nil && ctx.Err() == nil {
			w.Log.Warn("cannot continue a replay; retrying", "error", err)
		}
		if !worked || err != nil {
			w.pause(ctx, wake, next)
		}
	}
	return nil
}

// Step does one step of a replay that is due, and reports whether there was one. If there was
// no due replay, it returns the time at which the next one is due; zero without a next one.
func (w *Worker) Step(ctx context.Context) (worked bool, next time.Time, err error) {
	job, next, err := w.Store.LeaseReplay(ctx, leaseTime)
	if err != nil || job == nil {
		return false, next, err
	}
	if err = w.step(ctx, job); err != nil {
		w.release(ctx, job)
	}
	return true, next, err
}

// release ends the lease of a replay whose step has failed: the step is done again after
// retryAfter, or at once by another instance if ctx has ended. If that fails, too, the lease
// expires.
func (w *Worker) release(ctx context.Context, job *Job) {
	s := w.next(job)
	s.Counts = false
	if ctx.Err() == nil {
		s.DueAt = s.DueAt.Add(retryAfter)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
	defer cancel()
	if err := w.Store.AdvanceReplay(ctx, job, s); err != nil {
		w.Log.Debug("cannot end the lease of a replay; it expires", "replay", job.ID, "error", err)
	}
}

// pause returns at next, at a wake-up, or after pollEvery.
func (w *Worker) pause(ctx context.Context, wake <-chan struct{}, next time.Time) {
	delay := pollEvery
	if !next.IsZero() {
		delay = min(max(next.Sub(w.Now()), shortestWait/5), pollEvery)
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-timer.C:
	}
}

// step handles the next page of a replay, or decides that the replay waits or ends.
func (w *Worker) step(ctx context.Context, job *Job) error {
	switch {
	case job.Kind == eventhook.ReplayRecovery && !job.Subscription.Recovery.IsEnabled():
		return w.Store.AdvanceReplay(ctx, job, w.end(job, eventhook.ReplayCancelled))
	case job.IsRead && job.Open == 0:
		return w.Store.AdvanceReplay(ctx, job, w.end(job, eventhook.ReplayCompleted))
	case job.IsRead || job.Open+pageSize > MaxOpen || w.waits(job):
		return w.Store.AdvanceReplay(ctx, job, w.wait(job))
	}
	return w.handlePage(ctx, job)
}

// waits reports whether nothing may be sent to the subscription now.
func (w *Worker) waits(job *Job) bool {
	return job.Subscription.Status != eventhook.SubscriptionActive || job.Kind == eventhook.ReplayRecovery && job.IsFailing
}

// next returns a step that changes nothing.
func (w *Worker) next(job *Job) Step {
	now := w.Now()
	return Step{Cursor: job.Cursor, IsRead: job.IsRead, DueAt: now, Counts: w.isCountDue(job, now)}
}

// isCountDue reports whether sent and failed deliveries are counted now: every second for a
// small replay, and less often the more there is to count.
func (w *Worker) isCountDue(job *Job, now time.Time) bool {
	const perSecond = 10_000 // deliveries
	return now.Sub(job.CountedAt) >= time.Second*time.Duration(1+job.Queued/perSecond)
}

// wait returns a step that postpones the next one, the longer the longer nothing was queued.
func (w *Worker) wait(job *Job) Step {
	s := w.next(job)
	since := job.ReleasedAt
	if since.IsZero() {
		since = job.CreatedAt
	}
	s.DueAt = s.DueAt.Add(min(max(s.DueAt.Sub(since)/4, shortestWait), longestWait))
	return s
}

// end returns the last step.
func (w *Worker) end(job *Job, status eventhook.ReplayStatus) Step {
	s := w.next(job)
	s.End, s.Counts = status, true
	return s
}

// Estimate returns how many events a replay of a subscription would match by their types,
// without its filter. It counts in the first MaxReplayEstimate rows that the replay reads.
func (w *Worker) Estimate(ctx context.Context, of eventhook.Subscription, r eventhook.ReplayRequest) (n int64, err error) {
	job := &Job{Subscription: of, Replay: eventhook.Replay{TenantID: of.TenantID, SubscriptionID: of.ID,
		Kind: eventhook.ReplayRequested, ReplayRequest: r.Normalized()}}
	if now := w.Now(); job.Until.IsZero() || job.Until.After(now) {
		job.Until = now
	}
	for range eventhook.MaxReplayEstimate / pageSize {
		page, err := w.Store.ReplayPage(ctx, job, pageSize)
		if err != nil {
			return 0, err
		}
		n += int64(len(w.wanted(job, page.Deliveries)))
		if page.IsLast {
			break
		}
		job.Cursor = page.Cursor
	}
	if r.Limit > 0 {
		n = min(n, int64(r.Limit))
	}
	return n, nil
}
