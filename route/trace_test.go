package route

import (
	"testing"
	"time"

	"github.com/eventhook/eventhook/internal/effects"
)

// A plan that is not traced does not read the clock.
func TestUntracedPlansAllocateNothing(t *testing.T) {
	p := &Processor{Deps: Deps{Now: func() time.Time { panic("the clock is not read") }}}
	s := &effects.Settlement{}
	if n := testing.AllocsPerRun(100, func() { p.timePlan(s, p.planStart()) }); n > 0 || !s.PlanBegan.IsZero() {
		t.Errorf("got %.0f allocations and %s, want none", n, s.PlanBegan)
	}
}
