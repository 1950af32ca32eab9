// Package meter counts the work of evaluating a tenant's expressions (filters, regular expressions,
// CEL, schemas, paths) and stops an evaluation at a limit.
//
// The unit is the step: the work of applying one instruction of a regular expression to one
// character, about StepTime. Code that evaluates an expression calls Use before the work, with a
// number of steps in proportion to the bytes or instructions that it is about to process. A Meter
// takes steps from the tenant's Share in slices of about one millisecond and checks its context
// with each slice. So an evaluation stops exactly at its limit, and within one slice after its share
// is used up or its context ends.
//
// Errors are sticky: after the first error every Use returns the same error. Code deep in an
// evaluation may therefore return any result once Use fails. The caller that owns the meter checks
// Err once, at the end.
package meter

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// StepTime is the approximate duration of a step; see BenchmarkSteps of package pattern.
	StepTime = 10 * time.Nanosecond
	// EventLimit is the number of steps that all expressions for one event may use, about 0.2 s.
	EventLimit = 20_000_000
	// Slice is the number of steps that a meter takes from a share at once, about 1 ms.
	Slice = 100_000
	// bytesPerStep is the number of bytes of JSON that can be scanned in the time of one step.
	bytesPerStep = 8
)

// Errors of Use and Err. If the context ended, these methods return its error, wrapped.
var (
	ErrLimit = errors.New("the expressions take too many steps for one event")
	ErrShare = errors.New("the tenant's share of evaluation time is used up")
)

// Share is a tenant's share of evaluation time. It is safe for concurrent use. Take takes steps before
// they are used: a Slice, or more before work that cannot be interrupted. It returns false if the
// share is used up.
//
// A Share may have two more methods. Return(steps int) gets back the unused part of a slice.
// Charge(steps int) takes steps for work that was done before it was counted, even if the share does
// not have the steps.
type Share interface{ Take(steps int) bool }

// Meter counts the steps of one evaluation. It is not safe for concurrent use. A nil Meter counts
// nothing and never stops; it is for expressions of the gateway itself and for tests. Reset prepares
// a Meter for another evaluation.
type Meter struct {
	left    int // steps of the current slice that are not used
	rest    int // steps that may still be taken from the share, up to the limit
	used    int // steps used of earlier slices
	slice   int // size of the current slice
	share   Share
	isQuick bool            // the limit is at most a slice
	ctx     context.Context //nolint:containedctx // a meter belongs to one evaluation, as a context does
	err     error
}

// New returns a meter for one evaluation of at most limit steps. A nil share is unlimited.
func New(ctx context.Context, limit int, share Share) *Meter {
	m := &Meter{}
	m.Reset(ctx, limit, share)
	return m
}

// Reset prepares m for another evaluation, with the arguments of New. Call Close before Reset.
func (m *Meter) Reset(ctx context.Context, limit int, share Share) {
	*m = Meter{rest: max(limit, 0), isQuick: limit <= Slice, share: share, ctx: ctx}
}

// Use takes steps before the work that needs them. steps must not be negative. If Use returns an
// error, the caller must not do the work. The error is ErrLimit, ErrShare or the context's error,
// wrapped.
func (m *Meter) Use(steps int) error {
	if m == nil {
		return nil
	}
	if m.left -= steps; m.left >= 0 {
		return nil
	}
	return m.refill(steps)
}

// UseBytes takes the steps for reading n bytes of JSON or text once.
func (m *Meter) UseBytes(n int) error { return m.Use(n/bytesPerStep + 1) }

// UseTime takes the steps for work that is measured in time, such as work of a child process. It
// takes them from the share but not from the limit, since such work has a timeout of its own. If the
// meter's limit is at most a slice and the work takes longer than a slice, UseTime returns ErrLimit.
func (m *Meter) UseTime(d time.Duration) error {
	if m == nil || m.err != nil {
		return m.Err()
	}
	if err := m.ctx.Err(); err != nil {
		return m.stop(fmt.Errorf("the evaluation was stopped: %w", err))
	}
	steps := StepsIn(d)
	if m.isQuick && steps > Slice {
		return m.stop(ErrLimit)
	}
	if m.share != nil && !m.share.Take(steps) {
		return m.stop(ErrShare)
	}
	m.used += steps
	return nil
}

// ReturnTime returns the unused part of a duration that was taken with UseTime.
func (m *Meter) ReturnTime(d time.Duration) {
	if m == nil || d <= 0 {
		return
	}
	m.used -= StepsIn(d)
	if share, ok := m.share.(interface{ Return(steps int) }); ok {
		share.Return(StepsIn(d))
	}
}

// Take implements Share. So a Meter can be the share of another Meter, which has a smaller limit for a
// part of the evaluation.
func (m *Meter) Take(steps int) bool { return m.Use(steps) == nil }

// Return returns steps that were taken and not used.
func (m *Meter) Return(steps int) {
	if m != nil && m.err == nil {
		m.left += steps
	}
}

// Spend is Use for work that was done before its steps were known. The share is charged for the steps
// even if m stops.
func (m *Meter) Spend(steps int) error {
	err := m.Use(steps)
	if err != nil {
		m.Charge(steps)
	}
	return err
}

// SpendTime is UseTime for work that was done before its duration was known. The share is charged for
// the time even if m stops.
func (m *Meter) SpendTime(d time.Duration) error {
	err := m.UseTime(d)
	if err != nil {
		m.Charge(StepsIn(d))
	}
	return err
}

// Charge counts steps that were already used, even if m has stopped. It takes them from the share but
// not from the limit.
func (m *Meter) Charge(steps int) {
	if m == nil {
		return
	}
	m.used += steps
	if share, ok := m.share.(interface{ Charge(steps int) }); ok {
		share.Charge(steps)
	}
}

// StepsIn returns the number of steps in a duration.
func StepsIn(d time.Duration) int { return int(max(d, 0) / StepTime) }

// Within calls do, which may use at most limit of the steps that m has left. If do needs more, Within
// returns ErrLimit but m does not stop: one part of the evaluation has failed, and the other parts
// can go on. Within returns any other error of m, too, and m has then stopped.
func (m *Meter) Within(limit int, do func()) error {
	withheld := 0 // steps that m has left and do must not use
	if m != nil && m.err == nil {
		withheld = max(m.left+m.rest-limit, 0)
	}
	isWithinLimit := withheld == 0
	if isWithinLimit || withheld > m.rest { // in the latter case, more than limit was already taken from the share
		do()
		return m.Err()
	}
	m.rest -= withheld
	do()
	m.rest += withheld
	err := m.err
	if errors.Is(err, ErrLimit) {
		m.err = nil
	}
	return err
}

// Context returns the context of the evaluation.
func (m *Meter) Context() context.Context {
	if m == nil {
		return context.Background()
	}
	return m.ctx
}

// Err returns the error that stopped the evaluation, or nil if the evaluation was not stopped.
func (m *Meter) Err() error {
	if m == nil {
		return nil
	}
	return m.err
}

// Steps returns the number of steps that were used.
func (m *Meter) Steps() int {
	if m == nil {
		return 0
	}
	return m.used + m.slice - m.left
}

// Close returns the unused part of a slice to the share. It may be called more than once, and m can
// still be used afterwards.
func (m *Meter) Close() {
	if m == nil {
		return
	}
	unused := m.left
	m.used, m.rest = m.Steps(), m.rest+unused
	m.left, m.slice = 0, 0
	if share, ok := m.share.(interface{ Return(steps int) }); ok && unused > 0 {
		share.Return(unused)
	}
}

// refill takes the next slice from the share. The slice is larger than Slice if the work needs more
// steps, and smaller near the limit.
func (m *Meter) refill(steps int) error {
	m.left += steps
	if m.err != nil {
		return m.err
	}
	missing := steps - m.left
	if missing > m.rest {
		return m.stop(ErrLimit)
	}
	if err := m.ctx.Err(); err != nil {
		return m.stop(fmt.Errorf("the evaluation was stopped: %w", err))
	}
	next := min(max(missing, Slice), m.rest)
	if parent, ok := m.share.(*Meter); ok && parent != nil {
		left := parent.left + parent.rest // taking more would stop the parent
		next = min(next, max(missing, left))
	}
	if m.share != nil && !m.share.Take(next) {
		return m.stop(ErrShare)
	}
	m.used += m.slice - m.left
	m.slice = m.left + next
	m.left = m.slice - steps
	m.rest -= next
	return nil
}

// stop ends the evaluation. Close removes the slice, so that every later Use calls refill, which
// returns the error.
func (m *Meter) stop(err error) error {
	m.Close()
	m.err = err
	return err
}
