package eventhook

import (
	"slices"
	"strings"
)

// lifecycleEventTypes lists the types of lifecycle events: the system events about
// executions and promises. They are published only to subscriptions that name them.
var lifecycleEventTypes = []EventType{
	newSystemEventType("promise.created", "A promise was created.", VisibleToTenant),
	newSystemEventType("promise.expired", "A promise was not settled in time.", VisibleToTenant),
	newSystemEventType("promise.rejected", "A promise was rejected with an error.", VisibleToTenant),
	newSystemEventType("promise.resolved", "A promise was resolved with a value.", VisibleToTenant),
	newSystemEventType("task.cancelled", "A task was cancelled.", VisibleToTenant),
	newSystemEventType("task.completed", "A worker completed a task.", VisibleToTenant),
	newSystemEventType("task.dead", "A task failed and is not retried.", VisibleToTenant),
	newSystemEventType("task.failed", "An attempt of a task failed; a retry is scheduled.", VisibleToTenant),
	newSystemEventType("task.started", "A worker claimed a task and began an attempt.", VisibleToTenant),
	newSystemEventType("workflow.cancelled", "A workflow was cancelled.", VisibleToTenant),
	newSystemEventType("workflow.completed", "A worker completed a workflow.", VisibleToTenant),
	newSystemEventType("workflow.dead", "A workflow failed and is not retried.", VisibleToTenant),
	newSystemEventType("workflow.failed", "An attempt of a workflow failed; a retry is scheduled.", VisibleToTenant),
	newSystemEventType("workflow.resumed", "A worker claimed a suspended workflow and continues its attempt.", VisibleToTenant),
	newSystemEventType("workflow.started", "A worker claimed a workflow and began an attempt.", VisibleToTenant),
	newSystemEventType("workflow.suspended", "A workflow was suspended until promises are settled.", VisibleToTenant),
}

// LifecycleEventTypes returns the catalogue entries of all lifecycle events, sorted by
// name. Every tenant has them, with ids and versions of zero. The names are not reserved:
// a tenant may publish its own events of these types, and describe them in its catalogue.
func LifecycleEventTypes() []EventType { return slices.Clone(lifecycleEventTypes) }

// FindLifecycleEventType returns the catalogue entry of a lifecycle event type, and
// whether it exists.
func FindLifecycleEventType(name string) (EventType, bool) {
	i, ok := slices.BinarySearchFunc(lifecycleEventTypes, name, func(t EventType, name string) int { return strings.Compare(t.Name, name) })
	if !ok {
		return EventType{}, false
	}
	return lifecycleEventTypes[i], true
}

// IsLifecycle reports whether an event is the gateway's own about an execution or a
// promise. The pattern * does not match such an event. A tenant's own event of the same
// type is not one.
func (e *Event) IsLifecycle() bool {
	if e.Origin != OriginSystem {
		return false
	}
	_, ok := FindLifecycleEventType(e.EventType)
	return ok
}
