package outbound

import (
	"sync"

	"github.com/eventhook/eventhook/internal/wake"
	"github.com/eventhook/eventhook/outbound/schedule"
)

// scheduler serialises the calls of a schedule.Scheduler, and wakes each loop for which a
// call created work. Safe for concurrent use.
type scheduler struct {
	mu   sync.Mutex
	core *schedule.Scheduler // guarded by mu

	// Each loop waits for its signal. The channels never change.
	send, claim, rate, release, memory wake.Signal
}

func newScheduler(core *schedule.Scheduler) *scheduler {
	return &scheduler{core: core, send: wake.New(1), claim: wake.New(1), rate: wake.New(1), release: wake.New(1), memory: wake.New(1)}
}

// with calls f with exclusive access to core. f must not block.
func (s *scheduler) with(f func(core *schedule.Scheduler)) {
	s.mu.Lock()
	f(s.core)
	work := s.core.Work()
	s.mu.Unlock()
	for _, loop := range [...]struct {
		kind   schedule.Work
		signal wake.Signal
	}{
		{schedule.WorkSend, s.send}, {schedule.WorkClaim, s.claim}, {schedule.WorkRate, s.rate},
		{schedule.WorkRelease, s.release}, {schedule.WorkMemory, s.memory},
	} {
		if work.Has(loop.kind) {
			loop.signal.Notify()
		}
	}
}
