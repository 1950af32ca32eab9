package outbound_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/outbound"
)

// failingAt is a store whose nth call of SettleEvents fails.
type failingAt struct {
	outbound.EffectStore
	n int
}

func (s *failingAt) SettleEvents(ctx context.Context, batch []*effects.Settlement) ([]*effects.Settlement, error) {
	if s.n--; s.n == 0 {
		return nil, errStore
	}
	return s.EffectStore.SettleEvents(ctx, batch)
}

// The deliveries of the first transaction are being sent when the batch is repeated.
func TestARepeatedSettleDoesNotEnqueueDeliveriesTwice(t *testing.T) {
	var list []eventhook.Subscription
	for i := range 900 {
		list = append(list, subscriber(fmt.Sprint(i), "many", ""))
	}
	o := newFakeStore(list...)
	defer o.check(t)
	f := newFanout(o)
	batch := []*effects.Settlement{publishing("many"), publishing("many"), publishing("many")}
	match(t, f, batch...)
	f.Store = &failingAt{o, 2}
	if _, err := f.SettleEvents(t.Context(), batch); !errors.Is(err, errStore) {
		t.Fatalf("got %v, want that the database is down", err)
	}
	sent := append([]*eventhook.Delivery(nil), o.enqueued...)
	if unsettled, err := f.SettleEvents(t.Context(), batch); err != nil || len(unsettled) != 0 {
		t.Errorf("repeated: got %d unsettled, %v; want none", len(unsettled), err)
	}
	for _, d := range sent {
		if d.Lease.Token != 1 || d.Status != eventhook.DeliveryAcquired {
			t.Fatalf("a delivery that is being sent is %s with token %d, want its lease", d.Status, d.Lease.Token)
		}
	}
	if len(sent) != 1800 || len(o.enqueued) != 2700 {
		t.Errorf("enqueued %d, then %d; want 1800 and 2700", len(sent), len(o.enqueued))
	}
}
