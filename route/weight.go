package route

import (
	"fmt"

	"github.com/eventhook/eventhook/internal/effects"
)

// What one transaction, and one event, may make: memory is bounded, and nobody
// waits long for somebody else's event of many targets.
const (
	mostActions   = 5000     // of a batch; one event may have more
	mostMade      = 16 << 20 // bytes that a batch makes; one event may make more
	mostMadeByOne = 64 << 20 // bytes that an event makes
	lightActions  = 200      // of an event that is not for the slow lane
	lightMade     = 4 << 20  // bytes that such an event makes
)

// weigh counts what an action makes. What is too much for its event fails.
func weigh(s *effects.Settlement, a *effects.PlannedAction) {
	n := made(a.Effect)
	if s.EffectBytes+n <= mostMadeByOne {
		s.EffectBytes += n
		return
	}
	a.Effect, a.Permanent = effects.Effect{}, true
	a.Failure = fmt.Sprintf("target %d: not done: the targets of one event are given at most %d MiB in all", a.TargetIndex+1, mostMadeByOne>>20)
}

// made is how many bytes an effect writes into the database, but for a few.
func made(e effects.Effect) int {
	switch {
	case e.Execution != nil:
		return len(e.Execution.Input)
	case e.Promise != nil:
		return len(e.Promise.Value)
	case e.Publication != nil:
		return len(e.Publication.Data)
	case e.Request != nil:
		return len(e.Request.Body)
	}
	return 0
}

// isHeavy reports whether an event makes so much that it must not be settled
// among those that others wait for.
func isHeavy(s *effects.Settlement) bool {
	return len(s.Actions) > lightActions || s.EffectBytes > lightMade
}

// load is what a batch makes so far.
type load struct{ actions, bytes int }

func (l *load) add(s *effects.Settlement) {
	l.actions += len(s.Actions)
	l.bytes += s.EffectBytes
}

func (l load) isFull() bool { return l.actions > mostActions || l.bytes > mostMade }
