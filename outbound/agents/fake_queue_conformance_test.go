package agents_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound/agents/agentstest"
)

func newDestination() eventhook.DestinationID {
	return eventhook.DestinationID(eventhook.NewID[eventhook.Subscription](time.Now()))
}

// The fake of these tests keeps the contract that internal/pg keeps.
func TestTheFakeQueueConforms(t *testing.T) {
	for name, check := range agentstest.QueueCases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q, tenant := newQueue(), eventhook.TenantID{7}
				check(t, agentstest.Queue{
					Queue: q, Tenant: tenant, Create: newDestination, Now: time.Now, Advance: time.Sleep,
					Store: func(to eventhook.DestinationID, n int) (ids []eventhook.DeliveryID) {
						for range n {
							ids = append(ids, q.store(tenant, to, time.Now(), ""))
							time.Sleep(time.Millisecond)
						}
						return ids
					},
					Resize: func(id eventhook.DeliveryID, size int) {
						q.set(func(q *queue) { q.find(id).Event.BodySize = size })
					},
					Ordered: func(to eventhook.DestinationID, values ...string) (ids []eventhook.DeliveryID) {
						for _, v := range values {
							ids = append(ids, q.store(tenant, to, time.Now(), v))
						}
						return ids
					},
				})
			})
		})
	}
}
