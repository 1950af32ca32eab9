package pg

import (
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/route/routetest"
)

func TestTheStoreOfEventsConforms(t *testing.T) {
	for name, check := range routetest.QueueCases {
		t.Run(name, func(t *testing.T) {
			f := setUp(t)
			f.keep(Retention{})
			f.exec(`UPDATE eventhook.route SET targets = '[{"type":"http","url":"https://a.example/"},{"type":"http","url":"https://b.example/"}]' WHERE id = $1`,
				[16]byte(f.route.ID))
			check(t, routetest.Queue{
				Store: f.db, Tenant: f.tenant, Source: f.crm, Route: f.route.ID, Now: f.clock.Now, Advance: func(by time.Duration) { f.clock.Advance(by) },
				Change: func() {
					f.exec(`UPDATE eventhook.route SET updated_at = updated_at + interval '1 s' WHERE id = $1`, [16]byte(f.route.ID))
				},
				Generation: func() int64 { return queryValue[int64](f, generationSQL, [16]byte(f.tenant)) },
				Status:     func(e *eventhook.Event) eventhook.EventStatus { return f.storedEvent(e).Status },
				EndRequest: func(d *eventhook.Delivery, isSent bool) {
					status := eventhook.DeliverySuccess
					if !isSent {
						status = eventhook.DeliveryDead
					}
					f.settleDeliveries(f.db, f.settlement(f.claimInOrder([]*eventhook.Delivery{d})[0], status))
				},
			})
		})
	}
}
