package pg

import (
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound/outboundtest"
)

func TestTheQueueConforms(t *testing.T) {
	for name, check := range outboundtest.QueueCases {
		t.Run(name, func(t *testing.T) {
			f := setUp(t)
			f.keep(Retention{})
			subs := map[eventhook.SubscriptionID]*eventhook.Subscription{}
			check(t, outboundtest.Queue{
				Queue: f.db, Now: f.clock.Now, Advance: func(by time.Duration) { f.clock.Advance(by) },
				Create: func() eventhook.Destination {
					s := f.insertSubscription()
					subs[s.ID] = s
					return eventhook.Destination{TenantID: f.tenant, SubscriptionID: s.ID}
				},
				Store: func(to eventhook.Destination, n int) { f.publishTo(n, subs[to.SubscriptionID]) },
				StoreOrdered: func(to eventhook.Destination, values ...string) []eventhook.DeliveryID {
					return f.publishOrdered(subs[to.SubscriptionID], values...)
				},
				Delete: func(to eventhook.Destination) {
					f.must(f.db.DeleteSubscription(t.Context(), operator, f.tenant, to.SubscriptionID, 0))
				},
				Status: func(id eventhook.DeliveryID) eventhook.Delivery {
					d, _ := f.delivery(id)
					return d
				},
				All: func(to eventhook.Destination) []eventhook.Delivery {
					list, err := f.db.Deliveries(t.Context(), f.tenant, eventhook.DeliveryFilter{SubscriptionID: to.SubscriptionID, Limit: 100})
					f.must(err)
					return list
				},
			})
		})
	}
}
