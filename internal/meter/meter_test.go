package meter_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/eventhook/eventhook/internal/meter"
)

// share is a Share with a fixed number of steps.
type share struct{ left, takes int }

func (s *share) Take(steps int) bool {
	s.takes++
	if s.left < steps {
		return false
	}
	s.left -= steps
	return true
}

func (s *share) Return(steps int) { s.left += steps }

func TestMeterStopsAtItsLimit(t *testing.T) {
	m := meter.New(t.Context(), 250_000, nil)
	for range 250 {
		if err := m.Use(1000); err != nil {
			t.Fatalf("after %d steps of 250000: %v", m.Steps(), err)
		}
	}
	for range 2 {
		if err := m.Use(1); !errors.Is(err, meter.ErrLimit) || !errors.Is(m.Err(), meter.ErrLimit) {
			t.Errorf("beyond the limit: got %v and %v, want ErrLimit", err, m.Err())
		}
	}
	if m.Steps() != 250_000 {
		t.Errorf("steps: got %d, want 250000", m.Steps())
	}
}

func TestWorkBeyondTheLimitIsNotStarted(t *testing.T) {
	s := &share{left: 1_000_000}
	m := meter.New(t.Context(), 200_000, s)
	_ = m.Use(10)
	if err := m.Use(int(^uint(0) >> 1)); !errors.Is(err, meter.ErrLimit) {
		t.Errorf("got %v, want ErrLimit", err)
	}
	if err := m.Use(10); !errors.Is(err, meter.ErrLimit) {
		t.Errorf("after an error: got %v, want the same error", err)
	}
	if m.Steps() != 10 || s.left != 999_990 {
		t.Errorf("got %d steps and %d left in the share, want 10 and 999990", m.Steps(), s.left)
	}
}

func TestStepsAreTakenInSlicesAndReturned(t *testing.T) {
	s := &share{left: 10 * meter.Slice}
	m := meter.New(t.Context(), meter.EventLimit, s)
	for range 3 * meter.Slice / 2 {
		_ = m.Use(1)
	}
	if s.takes != 2 || s.left != 8*meter.Slice {
		t.Errorf("got %d slices and %d steps left, want 2 and %d", s.takes, s.left, 8*meter.Slice)
	}
	m.Close()
	m.Close()
	if want := 10*meter.Slice - 3*meter.Slice/2; s.left != want || m.Steps() != 3*meter.Slice/2 {
		t.Errorf("after Close: got %d left of %d steps, want %d", s.left, m.Steps(), want)
	}
	if err := m.Use(5 * meter.Slice); err != nil || s.takes != 3 {
		t.Errorf("one large piece of work: got %v with %d slices, want one more slice", err, s.takes)
	}
	if err := m.Use(20 * meter.Slice); !errors.Is(err, meter.ErrShare) {
		t.Errorf("a share that is used up: got %v, want ErrShare", err)
	}
}

func TestContextEndsAnEvaluationWithinASlice(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	m := meter.New(ctx, meter.EventLimit, nil)
	_ = m.Use(10)
	cancel()
	for m.Use(1) == nil {
	}
	if !errors.Is(m.Err(), context.Canceled) || m.Steps() > meter.Slice {
		t.Errorf("got %v after %d steps, want the context's error within a slice", m.Err(), m.Steps())
	}
}

func TestTimeOfChildProcessesIsTakenFromTheShare(t *testing.T) {
	s := &share{left: 300_000}
	m := meter.New(t.Context(), meter.EventLimit, s)
	if err := m.UseTime(2 * time.Millisecond); err != nil || s.left != 100_000 || m.Steps() != 200_000 {
		t.Errorf("got %v, %d steps and %d left, want 200000 steps and 100000 left", err, m.Steps(), s.left)
	}
	if err := m.UseTime(2 * time.Millisecond); !errors.Is(err, meter.ErrShare) {
		t.Errorf("got %v, want ErrShare", err)
	}
}

func TestNilMeterNeverStops(t *testing.T) {
	var m *meter.Meter
	m.Close()
	if err := errors.Join(m.Use(1<<60), m.UseBytes(1), m.UseTime(time.Hour), m.Spend(1), m.SpendTime(1), m.Err()); err != nil || m.Steps() != 0 {
		t.Errorf("got %v and %d steps, want no error and no steps", err, m.Steps())
	}
}

// charged is a share that can be overdrawn with Charge.
type charged struct{ share }

func (s *charged) Charge(steps int) { s.left -= steps }

func TestTheShareIsChargedForFinishedWork(t *testing.T) {
	const ms = int(time.Millisecond / meter.StepTime)
	for claim, c := range map[string]struct {
		left, limit int
		spend       func(*meter.Meter) error
		steps       int
		want        error
	}{
		"within the limit":      {1_000_000, 500_000, func(m *meter.Meter) error { return m.Spend(400_000) }, 400_000, nil},
		"beyond the limit":      {1_000_000, meter.Slice, func(m *meter.Meter) error { return m.Spend(900_000) }, 900_000, meter.ErrLimit},
		"beyond the share":      {150_000, 500_000, func(m *meter.Meter) error { return m.Spend(400_000) }, 400_000, meter.ErrShare},
		"time within the share": {1_000_000, 150_000, func(m *meter.Meter) error { return m.SpendTime(3 * time.Millisecond) }, 3 * ms, nil},
		"time beyond the share": {150_000, 150_000, func(m *meter.Meter) error { return m.SpendTime(3 * time.Millisecond) }, 3 * ms, meter.ErrShare},
		"time beyond a slice":   {1_000_000, meter.Slice, func(m *meter.Meter) error { return m.SpendTime(3 * time.Millisecond) }, 3 * ms, meter.ErrLimit},
	} {
		s := &charged{share{left: c.left}}
		m := meter.New(t.Context(), c.limit, s)
		_ = m.Use(10)
		err := c.spend(m)
		m.Close()
		if !errors.Is(err, c.want) || m.Steps() != c.steps+10 || c.left-s.left != c.steps+10 {
			t.Errorf("%s: got %v after %d steps, and %d of the share; want %v and %d", claim, err, m.Steps(), c.left-s.left, c.want, c.steps+10)
		}
	}
}

func TestMeterAllocatesNothing(t *testing.T) {
	var m meter.Meter
	ctx, s := t.Context(), &share{left: 1 << 60}
	n := testing.AllocsPerRun(100, func() {
		m.Reset(ctx, meter.EventLimit, s)
		_ = m.Use(1000)
		m.Close()
	})
	if n != 0 {
		t.Errorf("got %v allocations, want none", n)
	}
}

func TestAPartMayUseAllRemainingSteps(t *testing.T) {
	whole := meter.New(t.Context(), meter.Slice, nil)
	_ = whole.Use(10)
	part := meter.New(t.Context(), meter.EventLimit, whole)
	if err := part.Use(meter.Slice - 10); err != nil {
		t.Errorf("all remaining steps: got %v", err)
	}
	if err := part.Use(1); err == nil || !errors.Is(whole.Err(), meter.ErrLimit) {
		t.Errorf("one more step: got %v, and %v of the whole; want ErrLimit of the whole", err, whole.Err())
	}
}

func TestWithin(t *testing.T) {
	use := func(m *meter.Meter, steps int) func() {
		return func() {
			for range steps / 1000 {
				if m.Use(1000) != nil {
					return
				}
			}
		}
	}
	m := meter.New(t.Context(), 1_000_000, nil)
	if err := m.Within(300_000, use(m, 300_000)); err != nil {
		t.Errorf("at the limit of the part: got %v", err)
	}
	if err := m.Within(300_000, use(m, 301_000)); !errors.Is(err, meter.ErrLimit) || m.Err() != nil {
		t.Errorf("beyond the limit of the part: got %v, and %v of the whole; want ErrLimit of the part only", err, m.Err())
	}
	if got := m.Steps(); got != 600_000 {
		t.Errorf("got %d steps, want 600000", got)
	}
	if err := m.Within(500_000, use(m, 500_000)); !errors.Is(err, meter.ErrLimit) || !errors.Is(m.Err(), meter.ErrLimit) {
		t.Errorf("beyond the limit of the whole: got %v and %v, want ErrLimit", err, m.Err())
	}
	var none *meter.Meter
	if err := none.Within(1, func() { _ = none.Use(5) }); err != nil {
		t.Errorf("a nil meter: got %v", err)
	}
}

func TestLongWorkStopsAMeterOfOneSlice(t *testing.T) {
	m := meter.New(t.Context(), meter.Slice, nil)
	if err := m.UseTime(meter.Slice * meter.StepTime); err != nil {
		t.Errorf("one slice: got %v", err)
	}
	if err := m.UseTime(2 * meter.Slice * meter.StepTime); !errors.Is(err, meter.ErrLimit) {
		t.Errorf("two slices: got %v, want ErrLimit", err)
	}
}
