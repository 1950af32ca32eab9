package worker

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/eventhook/eventhook/client"
)

// held is a job under its lease.
type held struct {
	*Job
	token int64
	until time.Time // the lease, by this worker's clock
	lost  bool      // the gateway has said so
	log   *slog.Logger
}

// keep extends the lease after each third of it, until ctx ends. When the lease
// is lost, or was not extended in time, it cancels the handler's context.
func (r *run) keep(ctx context.Context, h *held, cancel context.CancelCauseFunc) {
	for wait := r.lease / 3; sleep(ctx, min(wait, time.Until(h.until))); {
		began := time.Now()
		err := r.extend(ctx, h)
		switch {
		case err == nil:
			h.until, wait = began.Add(r.lease), r.lease/3
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
			wait = r.lease / 12
		}
	}
}

// extend is done before the lease ends, or an error. It says how long, which the
// gateway would take from the claim.
func (r *run) extend(ctx context.Context, h *held) error {
	ctx, cancel := context.WithDeadline(ctx, h.until)
	defer cancel()
	_, err := r.api.HeartbeatWork(ctx, r.tenant, h.ID, client.HeartbeatRequest{LeaseToken: h.token, LeaseSeconds: seconds(r.lease)})
	return err
}

// isLost tells that the work is no longer the worker's, or no longer there.
func isLost(err error) bool {
	status := client.StatusOf(err)
	return status == http.StatusConflict || status == http.StatusNotFound
}
