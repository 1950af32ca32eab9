package pg

import (
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound/agents/agentstest"
)

func TestTheQueueOfAgentsConforms(t *testing.T) {
	for name, check := range agentstest.QueueCases {
		t.Run(name, func(t *testing.T) {
			f := setUp(t)
			f.keep(Retention{})
			subs := map[eventhook.DestinationID]*eventhook.Subscription{}
			check(t, agentstest.Queue{
				Queue: f.db, Tenant: f.tenant, Now: f.clock.Now, Advance: func(by time.Duration) { f.clock.Advance(by) },
				Create: func() eventhook.DestinationID {
					s := f.insertSubscription()
					id := eventhook.DestinationID(s.ID)
					subs[id] = s
					return id
				},
				Store: func(to eventhook.DestinationID, n int) (ids []eventhook.DeliveryID) {
					for range n {
						f.publishTo(1, subs[to])
						f.clock.Advance(time.Millisecond)
					}
					list, err := f.db.Deliveries(t.Context(), f.tenant, eventhook.DeliveryFilter{SubscriptionID: subs[to].ID, Limit: n})
					f.must(err)
					for _, d := range list {
						ids = append([]eventhook.DeliveryID{d.ID}, ids...)
					}
					return ids
				},
				Resize: func(id eventhook.DeliveryID, size int) {
					f.exec(`UPDATE eventhook.event e SET body_size = $2 FROM eventhook.delivery d WHERE d.id = $1 AND e.id = d.event_id`, [16]byte(id), size)
				},
				Ordered: func(to eventhook.DestinationID, values ...string) []eventhook.DeliveryID {
					return f.publishOrdered(subs[to], values...)
				},
			})
		})
	}
}
