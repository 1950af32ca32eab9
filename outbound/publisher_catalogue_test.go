package outbound_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	matching "github.com/eventhook/eventhook/outbound/match"
)

func (o *fakeStore) EventType(ctx context.Context, tenant eventhook.TenantID, name string) (eventhook.EventType, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reads++
	i := slices.IndexFunc(o.types[tenant], func(t eventhook.EventType) bool { return t.Name == name })
	switch {
	case ctx.Err() != nil || o.err != nil:
		return eventhook.EventType{}, fmt.Errorf("find event type: %w", o.err)
	case i < 0:
		return eventhook.EventType{}, eventhook.NotFound("event type")
	}
	return o.types[tenant][i], nil
}

func (o *fakeStore) Mismatch(kind string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.misfits = append(o.misfits, kind)
}

// catalogued returns a fakeStore and a catalogue with event types of payments.
func catalogued() (*fakeStore, *matching.Catalogue) {
	o := newFakeStore()
	o.types[acme] = []eventhook.EventType{
		{Name: "payment.made", Category: "payment", Schema: []byte(`{"required":["amount"],"properties":{"amount":{"type":"number"}}}`)},
		{Name: "payment.lost", Category: "payment"},
		{Name: "payment.odd", Category: "payment", Schema: []byte(`{"type":7}`)},
		{Name: "payment.endless", Category: "payment", Schema: []byte(`{"oneOf":[{"items":{"$ref":"#"}},{"items":{"$ref":"#"}}]}`)},
	}
	return o, matching.NewCatalogue(1000, o, o, o.log, time.Now)
}

// A mismatch does not prevent the event from being stored with its category.
func TestMismatchesArePublished(t *testing.T) {
	o, c := catalogued()
	o.add(subscriber("a", "*", ""))
	defer o.check(t)
	s := publishing("payment.made payment.new")
	f := newFanout(o)
	f.Catalogue = c
	settle(t, f, s)
	if len(o.enqueued) != 2 || o.enqueued[0].Event.Envelope.Category != "payment" || o.enqueued[1].Event.Envelope.Category != "" {
		t.Errorf("got %d enqueued, %+v; want 2, the first with the category payment", len(o.enqueued), o.enqueued)
	}
	if diff := cmp.Diff([]string{matching.MismatchShape, matching.MismatchUnknown}, o.misfits); diff != "" {
		t.Errorf("mismatches (-want +got):\n%s", diff)
	}
}
