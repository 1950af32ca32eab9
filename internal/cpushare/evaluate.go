package cpushare

import (
	"context"
	"errors"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/meter"
)

// Bounds of callers that wait.
const (
	mostWaiting = 64              // of one tenant
	patience    = 5 * time.Second // of each
)

// ErrBusy answers a caller whose tenant's share stayed used up.
var ErrBusy = &eventhook.Error{
	Kind: eventhook.KindRateLimited, RetryAfter: patience,
	Message: "The tenant's share of time for filters and expressions is used up: try again later.",
}

// Evaluate calls do with a meter of the tenant's share for a caller that waits:
// at first on the quick path and, if that was not enough, once more on the slow
// path. So do must be repeatable. The error is meter.ErrLimit if the evaluation
// takes more than one event may, ErrBusy if its turn did not come in time, or
// that of ctx.
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
	err = s.inTurn(ctx, tenant, func(lent meter.Share) error {
		m.Reset(ctx, meter.EventLimit, lent)
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

// Compile calls do, which compiles what a tenant has written, when it is the
// tenant's turn on the slow path, and takes the time of that from its share.
// The error is ErrBusy if the turn did not come in time, or that of ctx.
func (s *Limiter) Compile(ctx context.Context, tenant eventhook.TenantID, do func()) error {
	return s.inTurn(ctx, tenant, func(lent meter.Share) error {
		began := s.now()
		do()
		lent.Take(meter.StepsIn(s.now().Sub(began)))
		return nil
	})
}

// NeedsSlowPath reports whether an evaluation on the quick path ended with an
// error that the slow path may not have.
func NeedsSlowPath(err error) bool {
	return errors.Is(err, meter.ErrLimit) || errors.Is(err, meter.ErrShare)
}

// inTurn calls do when it is the caller's turn among those of its tenant, and
// the share has the steps.
func (s *Limiter) inTurn(ctx context.Context, tenant eventhook.TenantID, do func(lent meter.Share) error) error {
	line := s.lines.Open(tenant)
	defer s.lines.Close(tenant)
	if s.lines.Callers(tenant) > mostWaiting {
		return ErrBusy
	}
	waiting, cancel := context.WithTimeoutCause(ctx, patience, ErrBusy)
	defer cancel()
	select {
	case <-line.Slot():
	case <-waiting.Done():
		return context.Cause(waiting)
	}
	defer line.Release()
	lent, err := s.await(waiting, s.Bucket(tenant))
	if err != nil {
		return err
	}
	return do(lent)
}

// await waits until the share has the steps for all that one event may take.
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
