package cpushare

import (
	"context"
	"errors"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/meter"
)

// Bounds of callers that wait for the slow path.
const (
	maxWaiting = 64              // callers of one tenant
	maxWait    = 5 * time.Second // time that a caller waits
)

// ErrBusy is the error for a caller whose tenant's share stayed used up.
var ErrBusy = &eventhook.Error{
	Kind: eventhook.KindRateLimited, RetryAfter: maxWait,
	Message: "The tenant's share of time for filters and expressions is used up: try again later.",
}

// Evaluate calls do with a meter of the tenant's bucket: first on the quick path and, if that was
// not enough, once more on the slow path, so do must be repeatable. Evaluate waits for the slow
// path. The error is meter.ErrLimit if the evaluation takes more steps than one event may, ErrBusy
// if it could not start within 5 s, or ctx's.
func (s *Limiter) Evaluate(ctx context.Context, tenant eventhook.TenantID, place Place, do func(m *meter.Meter)) error {
	share := s.Bucket(tenant)
	m := meter.New(ctx, meter.Slice, share)
	do(m)
	m.Close()
	err := m.Err()
	if !NeedsSlowPath(err) {
		return err
	}
	s.Count(place, Slow)
	err = s.runSlow(ctx, tenant, func(slow meter.Share) error {
		m.Reset(ctx, meter.EventLimit, slow)
		defer m.Close()
		do(m)
		return m.Err()
	})
	switch {
	case errors.Is(err, meter.ErrLimit):
		s.Count(place, OverLimit)
	case errors.Is(err, ErrBusy):
		s.Count(place, Refused)
	}
	return err
}

// Compile calls do, which compiles a tenant's expressions, on the slow path and charges its time to
// the tenant's bucket. The error is ErrBusy if it could not start within 5 s, or ctx's.
func (s *Limiter) Compile(ctx context.Context, tenant eventhook.TenantID, do func()) error {
	return s.runSlow(ctx, tenant, func(slow meter.Share) error {
		began := s.now()
		do()
		slow.Take(meter.StepsIn(s.now().Sub(began)))
		return nil
	})
}

// NeedsSlowPath reports whether err ended an evaluation on the quick path that the slow path may
// complete.
func NeedsSlowPath(err error) bool {
	return errors.Is(err, meter.ErrLimit) || errors.Is(err, meter.ErrShare)
}

// runSlow calls do when the tenant has no other evaluation on the slow path and its bucket has the
// steps. At most maxWaiting callers of a tenant wait.
func (s *Limiter) runSlow(ctx context.Context, tenant eventhook.TenantID, do func(share meter.Share) error) error {
	queue := s.queues.Open(tenant)
	defer s.queues.Close(tenant)
	if s.queues.Callers(tenant) > maxWaiting {
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
	share, err := s.await(waiting, s.Bucket(tenant))
	if err != nil {
		return err
	}
	return do(share)
}

// await waits until the bucket has the steps for a whole event.
func (s *Limiter) await(ctx context.Context, share *Bucket) (meter.Share, error) {
	for {
		lent, wait := share.BeginSlow()
		if lent != nil {
			return lent, nil
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
