package route

import (
	"fmt"

	"github.com/eventhook/eventhook/internal/effects"
)

// Limits of the effects of one transaction and of one event. They bound memory, and the time for
// which an event with many targets delays other events.
const (
	maxBatchActions = 5000     // actions of a batch; one event may exceed it
	maxBatchBytes   = 16 << 20 // bytes that the effects of a batch write; one event may exceed it
	maxEventBytes   = 64 << 20 // bytes that the effects of an event write
	maxLightActions = 200      // actions of an event on the quick path
	maxLightBytes   = 4 << 20  // bytes that the effects of an event on the quick path write
)

// addEffectBytes adds the size of an action's effect to the settlement. If the event would exceed
// maxEventBytes, the action fails instead.
func addEffectBytes(s *effects.Settlement, a *effects.PlannedAction) {
	n := effectBytes(a.Effect)
	if s.EffectBytes+n <= maxEventBytes {
		s.EffectBytes += n
		return
	}
	a.Effect, a.Permanent = effects.Effect{}, true
	a.Failure = fmt.Sprintf("target %d: skipped: the targets of one event may write at most %d MiB in all", a.TargetIndex+1, maxEventBytes>>20)
}

// effectBytes is about how many bytes an effect writes into the database.
func effectBytes(e effects.Effect) int {
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

// isHeavy reports whether the effects of an event are too large for the quick path, where other
// events wait for the same transaction.
func isHeavy(s *effects.Settlement) bool {
	return len(s.Actions) > maxLightActions || s.EffectBytes > maxLightBytes
}

// planSize is the size of the settlements of a batch.
type planSize struct{ actions, bytes int }

func (l *planSize) add(s *effects.Settlement) {
	l.actions += len(s.Actions)
	l.bytes += s.EffectBytes
}

func (l planSize) isFull() bool { return l.actions > maxBatchActions || l.bytes > maxBatchBytes }
