package pg

import (
	"fmt"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound/replay/replaytest"
)

func TestTheReplayStoreConforms(t *testing.T) {
	for name, check := range replaytest.Cases {
		t.Run(name, func(t *testing.T) {
			f := setUp(t)
			subscriptions := 0
			check(t, replaytest.Store{
				Store: f.db, Now: f.clock.Now, Advance: func(by time.Duration) { f.clock.Advance(by) },
				Subscribe: func(eventTypes ...string) eventhook.Subscription {
					subscriptions++
					if len(eventTypes) == 0 {
						eventTypes = []string{"payment.*"}
					}
					return f.subscription(named(fmt.Sprintf("billing-%d", subscriptions), eventTypes...))
				},
				SubscribeOther: func() eventhook.Subscription {
					other := f.secondTenant()
					return f.subscription(func(s *eventhook.Subscription) { s.TenantID = other })
				},
				PublishAs: func(origin eventhook.Origin, eventType string) eventhook.EventID {
					f.exec(`DELETE FROM eventhook.event WHERE origin = 'system' AND event_type LIKE 'webhook.%'`)
					id := f.publishTyped(eventType, `{"amount":1}`)
					f.exec(`UPDATE eventhook.event SET origin = $1 WHERE id = $2`, string(origin), [16]byte(id))
					return id
				},
				Publish: func(to eventhook.Subscription, n int, status eventhook.DeliveryStatus) (ids []eventhook.EventID) {
					for range n {
						if status == "" {
							ids = append(ids, f.publishTyped("payment.made", `{"amount":1}`))
							continue
						}
						f.clock.Advance(time.Millisecond)
						ids = append(ids, f.publishTo(1, &to)[0].EventID)
						f.deliver(to, status)
					}
					f.exec(`DELETE FROM eventhook.event WHERE origin = 'system'`)
					return ids
				},
				Start: func(of eventhook.Subscription, r eventhook.ReplayRequest) eventhook.ReplayID {
					f.clock.Advance(time.Millisecond)
					return f.startReplay(of, func(to *eventhook.ReplayRequest) {
						r.Since = to.Since
						*to = r
					}).ID
				},
				Recover: func(of eventhook.Subscription, since, until time.Time) eventhook.ReplayID {
					id := f.recovery(&of, since)
					f.exec(`UPDATE eventhook.replay SET until = $2 WHERE id = $1`, [16]byte(id), until)
					return id
				},
				Replay: func(of eventhook.Subscription, id eventhook.ReplayID) eventhook.Replay {
					r, err := f.db.Replay(t.Context(), f.tenant, of.ID, id)
					f.must(err)
					return r
				},
				Cancel: func(of eventhook.Subscription, id eventhook.ReplayID) {
					_, err := f.db.CancelReplay(t.Context(), operator, of, id)
					f.must(err)
				},
				Deliver: func(to eventhook.Subscription, status eventhook.DeliveryStatus) int { return f.deliver(to, status) },
			})
		})
	}
}
