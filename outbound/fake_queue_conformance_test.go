package outbound_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound/outboundtest"
)

// The fake of the dispatcher's tests keeps the contract that internal/pg keeps.
func TestTheFakeQueueConforms(t *testing.T) {
	for name, check := range outboundtest.QueueCases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newDeliveryQueue()
				tenant := newTenant()
				check(t, outboundtest.Queue{
					Queue: q, Now: time.Now, Advance: time.Sleep,
					Create: func() eventhook.Destination {
						return eventhook.Destination{TenantID: tenant, SubscriptionID: eventhook.NewID[eventhook.Subscription](time.Now())}
					},
					Store: func(to eventhook.Destination, n int) {
						for range n {
							q.store(&eventhook.Subscription{ID: to.SubscriptionID, TenantID: to.TenantID}, time.Time{})
						}
					},
					StoreOrdered: func(to eventhook.Destination, values ...string) (ids []eventhook.DeliveryID) {
						for _, v := range values {
							ids = append(ids, q.storeOrdered(&eventhook.Subscription{ID: to.SubscriptionID, TenantID: to.TenantID}, v))
						}
						return ids
					},
					Delete: func(to eventhook.Destination) {
						q.set(func(q *deliveryQueue) { q.deleted[to.SubscriptionID] = true })
					},
					Status: func(id eventhook.DeliveryID) eventhook.Delivery { return q.row(id).Delivery },
					All: func(to eventhook.Destination) (list []eventhook.Delivery) {
						for _, r := range slices.Clone(q.destinations[to.SubscriptionID]) {
							list = append(list, r.Delivery)
						}
						return list
					},
				})
			})
		})
	}
}
