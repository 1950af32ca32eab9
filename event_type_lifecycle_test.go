package eventhook_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/eventhook/eventhook"
)

func TestLifecycleEventTypes(t *testing.T) {
	all := eventhook.LifecycleEventTypes()
	if !slices.IsSortedFunc(all, func(a, b eventhook.EventType) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("the types are not sorted by name")
	}
	for _, e := range all {
		checkFaults(t, e.Name, e.Validate())
		if got, ok := eventhook.FindLifecycleEventType(e.Name); !ok || got.Name != e.Name {
			t.Errorf("FindLifecycleEventType does not find %s", e.Name)
		}
		if wrong := eventhook.CheckSubscribed(e.Name); wrong != "" {
			t.Errorf("%s cannot be subscribed to: %s", e.Name, wrong)
		}
		if wrong := eventhook.CheckPublishedEventType(e.Name); wrong != "" {
			t.Errorf("a tenant cannot publish its own %s: %s", e.Name, wrong)
		}
		own, gateways := &eventhook.Event{EventType: e.Name, Origin: eventhook.OriginAPI}, &eventhook.Event{EventType: e.Name, Origin: eventhook.OriginSystem}
		if own.IsLifecycle() || !gateways.IsLifecycle() {
			t.Errorf("%s: want an event of the system to be a lifecycle event, and a tenant's own not", e.Name)
		}
	}
	if _, ok := eventhook.FindLifecycleEventType("task.foo"); ok {
		t.Error("FindLifecycleEventType finds a type that does not exist")
	}
}
