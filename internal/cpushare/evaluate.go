package cpushare

import (
	"context"
	"errors"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/meter"
)

// Limits of waiting for the slow path.
const (
	maxWaiting = 64              // callers of one tenant that wait at the same time
	maxWait    = 5 * time.Second // maximum wait of a caller
)

// ErrBusy reports that a tenant's share stayed used up for as long as a caller may wait.
var ErrBusy = &eventhook.Error{
	Kind: eventhook.KindRateLimited, RetryAfter: maxWait,
	Message: "The tenant's share of time for filters and expressions is used up: try again later.",
}

// Evaluate calls do on the quick path, with a meter of the tenant's bucket. If that was not enough,
// it waits for the slow path and calls do again, so do must be repeatable. The error is
// meter.ErrLimit if the evaluation takes more steps than one event may use, ErrBusy if the slow path
// was not free within 5 s, or ctx's error.
func (l *Limiter) Evaluate(ctx context.Context, tenant eventhook.TenantID, place Place, do func(m *meter.Meter)) error {
	m := meter.New(ctx, meter.Slice, l.Bucket(tenant))
	do(m)
	m.Close()
	err := m.Err()
	if !NeedsSlowPath(err) {
		return err
	}
	l.Count(place, Slow)
	err = l.runSlow(ctx, tenant, func(share meter.Share) error {
		m.Reset(ctx, meter.EventLimit, share)
		defer m.Close()
		do(m)
		return m.Err()
	})
	switch {
	case errors.Is(err, meter.ErrLimit):
		l.Count(place, OverLimit)
	case errors.Is(err, ErrBusy):
		l.Count(place, Refused)
	}
	return err
}

// Compile calls do, which compiles a tenant's expressions, on the slow path. It charges the time of
// do to the tenant's bucket. The error is ErrBusy if the slow path was not free within 5 s, or ctx's
// error.
func (l *Limiter) Compile(ctx context.Context, tenant eventhook.TenantID, do func()) error {
	return l.runSlow(ctx, tenant, func(share meter.Share) error {
		began := l.now()
		do()
		share.Take(meter.StepsIn(l.now().Sub(began)))
		return nil
	})
}

// NeedsSlowPath reports whether an evaluation that ended on the quick path with err may succeed on
// the slow path.
func NeedsSlowPath(err error) bool {
	return errors.Is(err, meter.ErrLimit) || errors.Is(err, meter.ErrShare)
}

// runSlow waits until the tenant has no other evaluation on the slow path and its bucket has the
// steps for an event, and then calls do. At most maxWaiting callers of a tenant wait.
func (l *Limiter) runSlow(ctx context.Context, tenant eventhook.TenantID, do func(share meter.Share) error) error {
	queue := l.queues.Open(tenant)
	defer l.queues.Close(tenant)
	if l.queues.Callers(tenant) > maxWaiting {
		return ErrBusy
	}
	waiting, cancel := context.WithTimeoutCause(ctx, maxWait, ErrBusy)
	defer cancel()
	select {
	case <-queue.Slot():
	case <-waiting.Done():
		return context.Cause(waiting)
	}
	defer queue.Release()
	share, err := await(waiting, l.Bucket(tenant))
	if err != nil {
		return err
	}
	return do(share)
}

// await waits until BeginSlow admits an evaluation.
func await(ctx context.Context, bucket *Bucket) (meter.Share, error) {
	for {
		share, wait := bucket.BeginSlow()
		if share != nil {
			return share, nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, context.Cause(ctx)
		}
	}
}
