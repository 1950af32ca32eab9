package pg

import (
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound/outboundtest"
)

func TestTheProbeStoreConforms(t *testing.T) {
	for name, check := range outboundtest.ProbeCases {
		t.Run(name, func(t *testing.T) {
			f := setUp(t)
			subs := map[eventhook.SubscriptionID]eventhook.Subscription{}
			check(t, outboundtest.Probes{
				ProbeStore: f.db, Advance: func(by time.Duration) { f.clock.Advance(by) },
				Disable: func(dead, held int) (eventhook.SubscriptionID, []eventhook.DeliveryID) {
					s := f.subscription(named("billing-"+string(rune('a'+len(subs))), "payment.*"))
					subs[s.ID] = s
					var ids []eventhook.DeliveryID
					for _, d := range f.disableByFailures(&s, dead, held) {
						ids = append(ids, d.ID)
					}
					return s.ID, ids
				},
				Enable: func(id eventhook.SubscriptionID) {
					_, err := f.changeSubscription(operator, subs[id], 0, func(s *eventhook.Subscription) { s.Status = eventhook.SubscriptionActive })
					f.must(err)
				},
				IsActive: func(id eventhook.SubscriptionID) bool {
					return f.storedSubscription(id).Status == eventhook.SubscriptionActive
				},
			})
		})
	}
}
