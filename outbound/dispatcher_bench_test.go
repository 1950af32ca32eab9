package outbound_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
)

// instant implements all dependencies of a dispatcher without any delay.
type instant struct {
	sub     map[eventhook.SubscriptionID]*eventhook.Subscription
	settled sync.WaitGroup
}

func (*instant) DueDestinations(context.Context, eventhook.DestinationID, int) ([]outbound.DueDestination, error) {
	return nil, nil
}

func (*instant) ClaimDeliveries(context.Context, []outbound.Claim) ([]*eventhook.Delivery, error) {
	return nil, nil
}

func (n *instant) SettleDeliveries(_ context.Context, batch []*outbound.DeliverySettlement) ([]*outbound.DeliverySettlement, error) {
	n.settled.Add(-len(batch))
	return nil, nil
}

func (*instant) ReleaseDeliveries(context.Context, []*eventhook.Delivery) error { return nil }

func (*instant) ReserveSends(context.Context, []outbound.SendReservation) ([]time.Time, error) {
	return nil, nil
}

func (*instant) AbandonDeliveries(context.Context, eventhook.Destination, string, int) (int, error) {
	return 0, nil
}

func (*instant) DeliveriesWake() <-chan struct{} { return nil }

func (n *instant) Destination(_ context.Context, of eventhook.Destination) (outbound.Destination, error) {
	return outbound.SubscriptionDestination(n.sub[of.SubscriptionID], n), nil
}

func (*instant) Send(context.Context, *eventhook.Delivery, int) eventhook.Attempt {
	return eventhook.Attempt{StatusCode: 200, Duration: time.Millisecond}
}

func (*instant) Started(*eventhook.Delivery, time.Duration)    {}
func (*instant) Attempted(eventhook.ErrorClass, time.Duration) {}

func (*instant) SettledDeliveries([]*outbound.DeliverySettlement, int, time.Duration) {}

// BenchmarkDispatch measures the cost of a delivery without its HTTP request and its
// database writes: from Reserve to the settlement, with one delivery to each of many destinations.
func BenchmarkDispatch(b *testing.B) {
	for _, destinations := range []struct {
		name string
		n    int
	}{{"1lane", 1}, {"1000lanes", 1000}, {"50000lanes", 50_000}} {
		b.Run(destinations.name, func(b *testing.B) {
			n := &instant{sub: map[eventhook.SubscriptionID]*eventhook.Subscription{}}
			var subs []*eventhook.Subscription
			for k := range destinations.n {
				s := &eventhook.Subscription{ID: eventhook.NewID[eventhook.Subscription](time.Now()), Status: eventhook.SubscriptionActive}
				if k%10 == 0 {
					s.TenantID = eventhook.NewID[eventhook.Tenant](time.Now())
				}
				n.sub[s.ID] = s
				subs = append(subs, s)
			}
			d := outbound.NewDispatcher(outbound.DefaultConfig(), outbound.DispatcherDeps{Queue: n, Directory: n, Observer: n,
				Log: slog.New(slog.DiscardHandler), Now: time.Now, Chance: func() float64 { return 0 }, Lease: testLease})
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan error)
			go func() { ended <- d.Run(ctx) }()
			e := &eventhook.Event{ID: eventhook.NewID[eventhook.Event](time.Now())}
			b.ReportAllocs()
			b.ResetTimer()
			for k := range b.N {
				s := subs[k%len(subs)]
				granted, until := d.Reserve(outbound.Scheduled(s), 1)
				for granted == 0 {
					time.Sleep(10 * time.Microsecond)
					granted, until = d.Reserve(outbound.Scheduled(s), 1)
				}
				n.settled.Add(1)
				to := eventhook.DestinationID(s.ID)
				d.Enqueue([]*eventhook.Delivery{{ID: eventhook.DeliveryIDOf(e.ID, to), TenantID: s.TenantID, DestinationID: to, SubscriptionID: s.ID, EventID: e.ID,
					Event: e, Lease: eventhook.Lease{Token: 1, Until: until}}})
			}
			n.settled.Wait()
			b.StopTimer()
			cancel()
			<-ended
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deliveries/s")
		})
	}
}
