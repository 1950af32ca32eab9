// Package matchtest provides a fake catalogue of event types for tests.
package matchtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound/match"
)

var (
	_ match.EventTypes        = (*EventTypes)(nil)
	_ match.CatalogueObserver = (*EventTypes)(nil)
)

// EventTypes holds the event types of tenants in memory, and records reads and
// mismatches. Its methods are safe for concurrent use. A test must not access a field
// while a catalogue uses the EventTypes.
type EventTypes struct {
	mu         sync.Mutex
	Types      map[eventhook.TenantID][]eventhook.EventType
	Err        error    // the error of each read
	Reads      int      // number of calls of EventType
	Mismatches []string // the kinds that Mismatch received, in order
}

// Payments returns EventTypes in which tenant has four event types: payment.made requires
// a numeric amount, payment.lost has no schema, the schema of payment.odd cannot be used,
// and the schema of payment.endless takes too many steps on nested arrays.
func Payments(tenant eventhook.TenantID) *EventTypes {
	return &EventTypes{Types: map[eventhook.TenantID][]eventhook.EventType{tenant: {
		{Name: "payment.made", Category: "payment", Schema: []byte(`{"required":["amount"],"properties":{"amount":{"type":"number"}}}`)},
		{Name: "payment.lost", Category: "payment"},
		{Name: "payment.odd", Category: "payment", Schema: []byte(`{"type":7}`)},
		{Name: "payment.endless", Category: "payment", Schema: []byte(`{"oneOf":[{"items":{"$ref":"#"}},{"items":{"$ref":"#"}}]}`)},
	}}}
}

// EventType implements match.EventTypes.
func (e *EventTypes) EventType(ctx context.Context, tenant eventhook.TenantID, name string) (eventhook.EventType, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.Reads++
	if err := errors.Join(ctx.Err(), e.Err); err != nil {
		return eventhook.EventType{}, fmt.Errorf("find event type: %w", err)
	}
	i := slices.IndexFunc(e.Types[tenant], func(t eventhook.EventType) bool { return t.Name == name })
	if i < 0 {
		return eventhook.EventType{}, eventhook.NotFound("event type")
	}
	return e.Types[tenant][i], nil
}

// Mismatch implements match.CatalogueObserver.
func (e *EventTypes) Mismatch(kind string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.Mismatches = append(e.Mismatches, kind)
}
