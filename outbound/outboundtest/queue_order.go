package outboundtest

import (
	"slices"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

// claimValues claims up to 10 deliveries and returns them with the values of their keys, in
// ascending order.
func (q Queue) claimValues(t *testing.T, to eventhook.Destination, known ...string) (values []string, list []*eventhook.Delivery) {
	t.Helper()
	list = q.claim(t, to, 10, false)
	for _, d := range list {
		i := slices.IndexFunc(known, func(v string) bool { return v != "" && eventhook.OrderKeyOf(v) == d.OrderKey })
		switch {
		case i >= 0:
			values = append(values, known[i])
		case d.OrderKey.IsZero():
			values = append(values, "")
		default:
			t.Errorf("claimed a delivery with the unknown key %x", d.OrderKey)
		}
	}
	slices.Sort(values)
	return values, list
}

func (q Queue) wantValues(t *testing.T, to eventhook.Destination, want ...string) []*eventhook.Delivery {
	t.Helper()
	got, list := q.claimValues(t, to, "a", "b", "c")
	if !slices.Equal(got, want) {
		t.Errorf("claimed %q, want %q", got, want)
	}
	return list
}

func ordered(t *testing.T, q Queue) {
	to, other := q.Create(), q.Create()
	stored := append(q.StoreOrdered(to, "a", "a", "", "b", "a", ""), q.StoreOrdered(to, "b", "c")...)
	q.StoreOrdered(other, "a")
	first := q.wantValues(t, to, "", "", "a", "b", "c")
	q.wantValues(t, other, "a")
	q.wantValues(t, to)
	q.settle(t, eventhook.DeliverySuccess, first...)
	second := q.wantValues(t, to, "a", "b")
	for _, d := range second {
		if d.ID != stored[1] && d.ID != stored[6] {
			t.Errorf("claimed %s before earlier deliveries of its key", d.ID)
		}
	}
	q.Advance(lease + time.Second) // the leases are lost
	again := q.wantValues(t, to, "a", "b")
	if lost := q.settle(t, eventhook.DeliverySuccess, second...); lost != 2 {
		t.Errorf("%d leases were lost, want 2", lost)
	}
	q.wantValues(t, to)
	q.settle(t, eventhook.DeliverySuccess, again...)
	q.settle(t, eventhook.DeliverySuccess, q.wantValues(t, to, "a")...)
	q.wantValues(t, to)
	q.StoreOrdered(to, "a")
	q.wantValues(t, to, "a")
}

func orderedRetry(t *testing.T, q Queue) {
	to := q.Create()
	q.StoreOrdered(to, "a", "a")
	first := q.wantValues(t, to, "a")
	q.settle(t, eventhook.DeliveryFailed, first...)
	q.wantValues(t, to)
	q.Advance(time.Minute + time.Second)
	retry := q.wantValues(t, to, "a")
	if len(retry) == 1 && retry[0].ID != first[0].ID {
		t.Error("a later delivery was claimed before the retry")
	}
	if err := q.ReleaseDeliveries(t.Context(), retry); err != nil {
		t.Fatalf("ReleaseDeliveries: %v", err)
	}
	if again := q.wantValues(t, to, "a"); len(again) == 1 && again[0].ID != first[0].ID {
		t.Error("a later delivery was claimed before the released one")
	}
}

func orderedDead(t *testing.T, q Queue) {
	to := q.Create()
	q.StoreOrdered(to, "a", "a")
	first := q.wantValues(t, to, "a")
	q.settle(t, eventhook.DeliveryDead, first...)
	if next := q.wantValues(t, to, "a"); len(next) == 1 && next[0].ID == first[0].ID {
		t.Error("the dead delivery was claimed again")
	}
}

func orderedAbandoned(t *testing.T, q Queue) {
	to := q.Create()
	q.StoreOrdered(to, "a", "a", "a", "b", "")
	q.Delete(to)
	for _, want := range []int{2, 2, 1} {
		if n, err := q.AbandonDeliveries(t.Context(), to, "it was deleted", 2); err != nil || n != want {
			t.Errorf("AbandonDeliveries: got %d, %v; want %d", n, err, want)
		}
	}
	if got := q.due(t, eventhook.DestinationID{}, 10); len(got) != 0 {
		t.Errorf("got %d destinations with due deliveries, want none", len(got))
	}
}
