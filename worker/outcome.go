package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/backoff"
)

// handle calls the handler of a job, extends the lease meanwhile, and reports the outcome, even
// if the handler panics or calls runtime.Goexit. It releases the slot of the job.
func (r *run) handle(handlerCtx context.Context, h *leasedJob) {
	defer r.releaseSlots(1)
	ctx, cancel := context.WithCancelCause(handlerCtx)
	reportCtx := context.WithoutCancel(handlerCtx)
	heartbeatCtx, stopHeartbeats := context.WithCancel(reportCtx)
	heartbeatsEnded := make(chan struct{})
	go func() {
		defer close(heartbeatsEnded)
		r.extendLease(heartbeatCtx, h, cancel)
	}()
	o := outcome{err: errors.New("the handler ended without an outcome")} // after runtime.Goexit
	defer func() {
		stopHeartbeats()
		<-heartbeatsEnded
		if errors.Is(context.Cause(ctx), ErrStopped) {
			o.permanent = false // the handler was interrupted, so a retry may succeed
		}
		cancel(nil)
		r.report(reportCtx, h, o)
	}()
	ctx, span := startSpan(ctx, h.Job)
	defer func() { endSpan(span, o) }() // after runtime.Goexit, too
	o = r.call(ctx, h)
}

// outcome is the outcome of an attempt. The attempt failed if err is not nil, is suspended if
// suspend is not nil, and is completed otherwise.
type outcome struct {
	output    json.RawMessage
	suspend   *suspendError
	err       error // its text is stored by the gateway
	permanent bool
}

// call calls the handler and returns the outcome. The value of a panic is logged and not
// reported to the gateway, because it may contain secrets.
func (r *run) call(ctx context.Context, h *leasedJob) (o outcome) {
	defer func() {
		if v := recover(); v != nil {
			h.log.ErrorContext(ctx, "the handler panicked", "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			o = outcome{err: errors.New("the handler panicked")}
		}
	}()
	err := r.Worker.handlers[h.Kind](ctx, h.Job)
	if s, ok := errors.AsType[*suspendError](err); ok {
		return outcome{suspend: s}
	}
	if err == nil && h.Output != nil {
		if o.output, err = json.Marshal(h.Output); err != nil {
			err = Permanent(fmt.Errorf("the output cannot be written: %w", err))
		}
	}
	if err != nil {
		_, permanent := errors.AsType[permanentError](err)
		return outcome{err: errors.New(failureText(ctx, err)), permanent: permanent}
	}
	return o
}

// failureText returns the text of a handler's error. If the handler returned
// context.Canceled because the worker stopped, the text says so.
func failureText(ctx context.Context, err error) string {
	text := err.Error()
	switch {
	case !errors.Is(context.Cause(ctx), ErrStopped), errors.Is(err, ErrStopped), !errors.Is(err, context.Canceled):
		return text
	case text == context.Canceled.Error():
		return ErrStopped.Error()
	}
	return ErrStopped.Error() + ": " + text
}

// report reports an outcome to the gateway and retries until the lease ends. If the gateway
// rejects an outcome permanently, for example because the output is too large, report fails
// the job permanently with the reason.
func (r *run) report(ctx context.Context, h *leasedJob, o outcome) {
	if o.err != nil {
		h.log.WarnContext(ctx, "the job failed", "error", o.err, "permanent", o.permanent)
	}
	var retry backoff.Calls
	for !h.lost {
		err := r.reportOnce(ctx, h, o)
		left := time.Until(h.until)
		switch {
		case err == nil:
			return
		case isLost(err):
			h.lost = true // or an earlier try succeeded and its answer was lost
		case !client.IsTemporary(err) && o.err == nil:
			o = outcome{err: fmt.Errorf("the gateway rejected the outcome: %w", err), permanent: true}
		case !client.IsTemporary(err), left <= 0:
			h.log.ErrorContext(ctx, "the outcome could not be reported; the job is due again when its lease ends", "error", err)
			return
		default:
			backoff.Sleep(ctx, min(retry.Next(client.RetryAfterOf(err)), left))
		}
	}
	h.log.WarnContext(ctx, "the lease was lost; the outcome was not reported", "tries", retry.Tries+1)
}

// reportTimeout limits one call that reports an outcome.
const reportTimeout = 10 * time.Second

// reportOnce reports an outcome without retries.
func (r *run) reportOnce(ctx context.Context, h *leasedJob, o outcome) (err error) {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	switch {
	case o.suspend != nil:
		body := client.SuspendRequest{LeaseToken: h.token, Await: o.suspend.await, TimeoutSeconds: o.suspend.timeout}
		if o.suspend.state != nil {
			body.State = o.suspend.state
		}
		_, err = r.api.SuspendWork(ctx, r.tenant, h.ID, body)
	case o.err != nil:
		_, err = r.api.FailWork(ctx, r.tenant, h.ID, client.FailRequest{LeaseToken: h.token, Error: truncate(o.err.Error()), Retryable: new(!o.permanent)})
	default:
		body := client.CompleteRequest{LeaseToken: h.token}
		if o.output != nil {
			body.Output = o.output
		}
		_, err = r.api.CompleteWork(ctx, r.tenant, h.ID, body)
	}
	return err
}

// truncate makes s valid UTF-8 and cuts it to the length that the gateway stores of an error.
func truncate(s string) string {
	const maxBytes = 10000
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= maxBytes {
		return s
	}
	for s = s[:maxBytes]; !utf8.ValidString(s); {
		s = s[:len(s)-1]
	}
	return s
}
