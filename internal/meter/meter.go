// Package meter counts the work of evaluating a tenant's expressions (filters,
// regular expressions, CEL, schemas, paths) and stops an evaluation at a limit.
//
// The unit is the step: one instruction of a regular expression applied to one
// character, about StepTime. Code that evaluates an expression calls Use before
// the work, with a number of steps in proportion to the bytes or instructions
// that it is about to look at. A Meter takes steps from the tenant's Share in
// slices of about one millisecond, and checks its context with each slice. So
// an evaluation ends at its limit, and within one slice of a used-up share and
// of the end of its context.
//
// Errors are sticky: after the first one every Use fails with the same error.
// Code deep in an evaluation may therefore give up with any result; the caller
// that owns the meter asks Err once, at the end.
package meter

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// StepTime is about how long a step takes; see BenchmarkSteps.
	StepTime = 10 * time.Nanosecond
	// EventLimit is the limit for all expressions that are evaluated for one event, about 0.2 s.
	EventLimit = 20_000_000
	// Slice is how many steps a meter takes from a share at once, about 1 ms.
	Slice = 100_000
	// bytesPerStep is how many bytes of JSON are scanned in the time of one step.
	bytesPerStep = 8
)

// Errors of Use and Err. The error of a context that ended is returned wrapped.
var (
	ErrLimit = errors.New("the expressions take too many steps for one event")
	ErrShare = errors.New("the tenant's share of evaluation time is used up")
)

// Share is a tenant's share of evaluation time, safe for concurrent use. Take
// takes steps before they are used, Slice or more before a piece of work that
// cannot be interrupted; false: the share is used up. A Share that also has
// Return(steps int) gets the unused part of a slice back. One that
// also has Charge(steps int) is charged for work that was done before it was
// counted, whether the share has the steps or not.
type Share interface{ Take(steps int) bool }

// Meter counts the steps of one evaluation. Not safe for concurrent use. A nil
// Meter counts nothing and never stops: for expressions that the gateway
// itself wrote, and for tests. A Meter can be reused with Reset.
type Meter struct {
	left    int // of the slice that was taken last
	rest    int // may still be taken
	used    int // in former slices
	slice   int // the size of the slice that was taken last
	share   Share
	isQuick bool            // the limit is a slice at most
	ctx     context.Context //nolint:containedctx // a meter belongs to one evaluation, as a context does
	err     error
}

// New returns a meter for one evaluation of at most limit steps. A nil share
// is unlimited.
func New(ctx context.Context, limit int, share Share) *Meter {
	m := &Meter{}
	m.Reset(ctx, limit, share)
	return m
}

// Reset makes m a meter for another evaluation, as New does. Close it before.
func (m *Meter) Reset(ctx context.Context, limit int, share Share) {
	*m = Meter{rest: max(limit, 0), isQuick: limit <= Slice, share: share, ctx: ctx}
}

// Use takes steps, not below 0, before the work that needs them. After an error
// the caller must not do the work. The error is ErrLimit, ErrShare or the
// context's, wrapped.
func (m *Meter) Use(steps int) error {
	if m == nil {
		return nil
	}
	if m.left -= steps; m.left >= 0 {
		return nil
	}
	return m.refill(steps)
}

// UseBytes takes the steps of reading so many bytes of JSON or text once.
func (m *Meter) UseBytes(n int) error { return m.Use(n/bytesPerStep + 1) }

// UseTime counts work that was done elsewhere and measured in time, such as in
// a child process. It takes the steps from the share, but not from the limit:
// such work has a timeout of its own. A meter whose limit is a slice at most stops
// at its limit if the work takes longer than a slice.
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

// ReturnTime gives back the part of a time of UseTime that was not needed.
func (m *Meter) ReturnTime(d time.Duration) {
	if m == nil || d <= 0 {
		return
	}
	m.used -= StepsIn(d)
	if share, ok := m.share.(interface{ Return(steps int) }); ok {
		share.Return(StepsIn(d))
	}
}

// Take makes a Meter the Share of another one, which has a smaller limit for a
// part of the evaluation.
func (m *Meter) Take(steps int) bool { return m.Use(steps) == nil }

// Return gives back steps that were taken and not needed.
func (m *Meter) Return(steps int) {
	if m != nil && m.err == nil {
		m.left += steps
	}
}

// Spend counts work that was done before its steps were known. The share is
// charged for them even if m stops.
func (m *Meter) Spend(steps int) error {
	err := m.Use(steps)
	if err != nil {
		m.Charge(steps)
	}
	return err
}

// SpendTime is UseTime for work that was done before its time was known. The
// share is charged for it even if m stops.
func (m *Meter) SpendTime(d time.Duration) error {
	err := m.UseTime(d)
	if err != nil {
		m.Charge(StepsIn(d))
	}
	return err
}

// Charge counts steps that were used, whether m has stopped or not. It takes
// them from the share, but not from the limit.
func (m *Meter) Charge(steps int) {
	if m == nil {
		return
	}
	m.used += steps
	if share, ok := m.share.(interface{ Charge(steps int) }); ok {
		share.Charge(steps)
	}
}

// StepsIn is how many steps a duration is.
func StepsIn(d time.Duration) int { return int(max(d, 0) / StepTime) }

// Within calls do, which may use at most limit of the steps that m has left. If
// do needs more, Within returns ErrLimit and m goes on: that is one part's error
// and not that of the evaluation. Any other error is m's.
func (m *Meter) Within(limit int, do func()) error {
	aside := 0
	if m != nil && m.err == nil {
		aside = max(m.left+m.rest-limit, 0)
	}
	if aside == 0 || aside > m.rest { // all of it is within the limit, or a slice is larger than it
		do()
		return m.Err()
	}
	m.rest -= aside
	do()
	m.rest += aside
	err := m.err
	if errors.Is(err, ErrLimit) {
		m.err = nil
	}
	return err
}

// Context is the context of the evaluation.
func (m *Meter) Context() context.Context {
	if m == nil {
		return context.Background()
	}
	return m.ctx
}

// Err returns the error that stopped the evaluation, nil if it was not stopped.
func (m *Meter) Err() error {
	if m == nil {
		return nil
	}
	return m.err
}

// Steps is how many steps have been used.
func (m *Meter) Steps() int {
	if m == nil {
		return 0
	}
	return m.used + m.slice - m.left
}

// Close gives the unused part of a slice back to the share. It may be called
// more than once.
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

// refill takes the next slice, or a larger one if one piece of work needs more.
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
	if whole, ok := m.share.(*Meter); ok && whole != nil {
		next = min(next, max(missing, whole.left+whole.rest))
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

// stop ends the evaluation: from now on there is no slice, and so every Use
// comes to refill.
func (m *Meter) stop(err error) error {
	m.Close()
	m.err = err
	return err
}
