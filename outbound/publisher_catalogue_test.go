package outbound_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	matching "github.com/eventhook/eventhook/outbound/match"
	"github.com/eventhook/eventhook/outbound/match/matchtest"
)

// catalogued returns the fake event types of payments and a catalogue of them.
func catalogued() (*matchtest.EventTypes, *matching.Catalogue) {
	types := matchtest.Payments(acme)
	return types, matching.NewCatalogue(1000, types, types, slog.New(slog.DiscardHandler), time.Now)
}

// A mismatch does not prevent the event from being stored with its category.
func TestMismatchesArePublished(t *testing.T) {
	types, c := catalogued()
	o := newFakeStore(subscriber("a", "*", ""))
	defer o.check(t)
	s := publishing("payment.made payment.new")
	f := newFanout(o)
	f.Catalogue = c
	settle(t, f, s)
	if len(o.enqueued) != 2 || o.enqueued[0].Event.Envelope.Category != "payment" || o.enqueued[1].Event.Envelope.Category != "" {
		t.Errorf("got %d enqueued, %+v; want 2, the first with the category payment", len(o.enqueued), o.enqueued)
	}
	if diff := cmp.Diff([]string{matching.MismatchShape, matching.MismatchUnknown}, types.Mismatches); diff != "" {
		t.Errorf("mismatches (-want +got):\n%s", diff)
	}
}
