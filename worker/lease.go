package worker

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/backoff"
)

// leasedJob is a job with its lease. While its handler runs, only extendLease uses until and
// lost.
type leasedJob struct {
	*Job
	token int64
	until time.Time // the end of the lease by this worker's clock
	lost  bool      // the gateway has reported that the lease is lost
	log   *slog.Logger
}

// extendLease sends a heartbeat after each third of the lease until ctx ends, and after a
// failed heartbeat each twelfth. If the lease is lost or ends, extendLease cancels the
// handler's context with ErrLeaseLost.
func (r *run) extendLease(ctx context.Context, h *leasedJob, cancel context.CancelCauseFunc) {
	interval, retryInterval := r.lease/3, r.lease/12
	for wait := interval; backoff.Sleep(ctx, min(wait, time.Until(h.until))); {
		began := time.Now()
		err := r.heartbeat(ctx, h)
		switch {
		case err == nil:
			h.until, wait = began.Add(r.lease), interval
		case ctx.Err() != nil:
			return
		case isLost(err):
			h.lost = true
			cancel(ErrLeaseLost)
			return
		case !time.Now().Before(h.until):
			h.log.WarnContext(ctx, "the lease could not be extended in time", "error", err)
			cancel(ErrLeaseLost)
			return
		default:
			wait = retryInterval
		}
	}
}

// heartbeat extends the lease by r.lease. It returns an error if the gateway does not answer
// before the lease ends.
func (r *run) heartbeat(ctx context.Context, h *leasedJob) error {
	ctx, cancel := context.WithDeadline(ctx, h.until)
	defer cancel()
	_, err := r.api.HeartbeatWork(ctx, r.tenant, h.ID, client.HeartbeatRequest{LeaseToken: h.token, LeaseSeconds: seconds(r.lease)})
	return err
}

// isLost reports whether err means that the job is leased to another worker, has ended, or
// does not exist any more.
func isLost(err error) bool {
	status := client.StatusOf(err)
	return status == http.StatusConflict || status == http.StatusNotFound
}
