// Package targets hands an action to one kind of place. A target whose place
// is our own database only says what is to be made (an eventhook.Effect); the
// store makes it in the transaction that settles the event, so it happens
// exactly once. A target kind is one file and one line in kinds.
package targets

import (
	"fmt"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/payload"
)

// Effector turns an event into what one configured target wants done. It is
// pure and safe for concurrent use. An error is permanent: the same event
// would fail again. Its text is shown to users.
type Effector interface {
	Effect(e *eventhook.Event, v *payload.View, now time.Time) (eventhook.Effect, error)
}

// kinds has a line for each target type.
var kinds = map[string]func(eventhook.Target) (Effector, error){
	eventhook.TargetWorkflow: newExecution,
	eventhook.TargetTask:     newExecution,
	eventhook.TargetPromise:  newPromise,
}

// New compiles a configured target. It fails on what Target.Validate refuses.
func New(t eventhook.Target) (Effector, error) {
	build, ok := kinds[t.Type]
	if !ok {
		return nil, fmt.Errorf("unknown target type %q", t.Type)
	}
	if err := t.Validate().Err("the target is invalid"); err != nil {
		return nil, err
	}
	return build(t)
}

// keyPath finds a target's idempotency key in an event.
type keyPath struct {
	path   payload.Path
	prefix string
}

func newKeyPath(t eventhook.Target) (k keyPath, err error) {
	k.prefix = t.IdempotencyKeyPrefix
	if t.IdempotencyKeyPath != "" {
		k.path, err = payload.ParsePath(t.IdempotencyKeyPath)
	}
	return k, err
}

// key is "" when no path is set or nothing is there.
func (k keyPath) key(v *payload.View) string {
	if k.path.IsZero() {
		return ""
	}
	text, ok := v.Text(k.path)
	if !ok {
		return ""
	}
	return eventhook.Key(k.prefix + text)
}

func optionalPath(s string) (payload.Path, error) {
	if s == "" {
		return payload.Path{}, nil
	}
	return payload.ParsePath(s)
}
