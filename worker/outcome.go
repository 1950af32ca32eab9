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
)

// handle has a job done, keeps its lease meanwhile, and tells the gateway what
// came of it, also when the handler panics or ends its goroutine.
func (r *run) handle(handling context.Context, h *held) {
	defer r.give(1)
	ctx, cancel := context.WithCancelCause(handling)
	telling := context.WithoutCancel(handling)
	kept := make(chan struct{})
	keeping, stop := context.WithCancel(telling)
	go func() {
		defer close(kept)
		r.keep(keeping, h, cancel)
	}()
	o := outcome{err: errors.New("the handler ended without an outcome")} // as runtime.Goexit does
	defer func() {
		stop()
		<-kept
		if errors.Is(context.Cause(ctx), ErrStopped) {
			o.permanent = false // whoever was interrupted cannot know
		}
		cancel(nil)
		r.tell(telling, h, o)
	}()
	o = r.call(ctx, h)
}

// outcome is what came of a job; one of suspend and err, or neither.
type outcome struct {
	output    json.RawMessage
	suspend   *suspendError
	err       error // of a text that may be shown
	permanent bool
}

// call calls the handler, and reads all that it leaves. What a panic says is
// for the log alone.
func (r *run) call(ctx context.Context, h *held) (o outcome) {
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
		return outcome{err: errors.New(reason(ctx, err)), permanent: permanent}
	}
	return o
}

// reason is an error's text. Of a handler whose context was cancelled since the
// worker stopped, it says that: people read it.
func reason(ctx context.Context, err error) string {
	text := err.Error()
	switch {
	case !errors.Is(context.Cause(ctx), ErrStopped), errors.Is(err, ErrStopped), !errors.Is(err, context.Canceled):
		return text
	case text == context.Canceled.Error():
		return ErrStopped.Error()
	}
	return ErrStopped.Error() + ": " + text
}

// tell writes an outcome down, and tries again until the lease ends. What the
// gateway refuses to write down is a failure that says why.
func (r *run) tell(ctx context.Context, h *held, o outcome) {
	if o.err != nil {
		h.log.WarnContext(ctx, "the work failed", "error", o.err, "permanent", o.permanent)
	}
	var pause backoff
	for !h.lost {
		err := r.write(ctx, h, o)
		left := time.Until(h.until)
		switch {
		case err == nil:
			return
		case isLost(err):
			h.lost = true // unless an earlier try came through and its answer did not
		case !passes(err) && o.err == nil:
			o = outcome{err: fmt.Errorf("the outcome was refused: %w", err), permanent: true}
		case !passes(err), left <= 0:
			h.log.ErrorContext(ctx, "the outcome could not be told; the work is due again when its lease ends", "error", err)
			return
		default:
			sleep(ctx, min(pause.next(err), left))
		}
	}
	h.log.WarnContext(ctx, "the lease was lost; the outcome is not written", "tries", pause.tries+1)
}

// write tells an outcome once.
func (r *run) write(ctx context.Context, h *held, o outcome) (err error) {
	ctx, cancel := context.WithTimeout(ctx, writeMost)
	defer cancel()
	switch {
	case o.suspend != nil:
		body := client.SuspendRequest{LeaseToken: h.token, Await: o.suspend.await, TimeoutSeconds: o.suspend.timeout}
		if o.suspend.state != nil {
			body.State = o.suspend.state
		}
		_, err = r.api.SuspendWork(ctx, r.tenant, h.ID, body)
	case o.err != nil:
		_, err = r.api.FailWork(ctx, r.tenant, h.ID, client.FailRequest{LeaseToken: h.token, Error: cut(o.err.Error()), Retryable: new(!o.permanent)})
	default:
		body := client.CompleteRequest{LeaseToken: h.token}
		if o.output != nil {
			body.Output = o.output
		}
		_, err = r.api.CompleteWork(ctx, r.tenant, h.ID, body)
	}
	return err
}

// writeMost bounds one try to tell an outcome.
const writeMost = 10 * time.Second

// cut bounds an error's text as the gateway does.
func cut(s string) string {
	const most = 10000
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= most {
		return s
	}
	for s = s[:most]; !utf8.ValidString(s); {
		s = s[:len(s)-1]
	}
	return s
}
