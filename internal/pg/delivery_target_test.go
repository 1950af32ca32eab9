package pg

import (
	"testing"

	"github.com/eventhook/eventhook"
)

// The deliveries of every target that sends are listed, counted, retried and named. Those of other
// targets have lost their destination.
func TestDestinationsAreTargetsThatSend(t *testing.T) {
	for target, host := range map[string]string{
		`{"type":"http","url":"https://Internal.example/hook"}`:                                                     "internal.example",
		`{"type":"nats","url":"tls://nats.example:4222","subject":"x"}`:                                             "nats.example:4222",
		`{"type":"nats","url":"tls://NATS-1.example,tls://nats-2.example:4222","subject":"x"}`:                      "nats-1.example, nats-2.example:4222",
		`{"type":"sqs","queue_url":"https://sqs.eu-west-1.amazonaws.com/1/orders"}`:                                 "sqs.eu-west-1.amazonaws.com",
		`{"type":"pubsub","project":"p","topic":"orders"}`:                                                          "pubsub.googleapis.com:443",
		`{"type":"pubsub","project":"p","topic":"orders","endpoint":"pubsub.example:443"}`:                          "pubsub.example:443",
		`{"type":"kafka","brokers":"b-1.example:9092,b-2.example:9092","topic":"x"}`:                                "b-1.example:9092,b-2.example:9092",
		`{"type":"workflow","workflow_kind":"pay","engine":"temporal","address":"temporal.example:7233"}`:           "temporal.example:7233",
		`{"type":"promise","idempotency_key_path":"body.id","engine":"temporal","address":"temporal.example:7233"}`: "temporal.example:7233",
		`{"type":"workflow","workflow_kind":"pay","engine":"eventhook"}`:                                            "",
		`{"type":"promise","idempotency_key_path":"body.id"}`:                                                       "",
		`{"type":"task","task_kind":"http"}`:                                                                        "",
		`{"type":"publish","event_type":"a"}`:                                                                       "",
	} {
		t.Run(target, func(t *testing.T) {
			f := setUp(t)
			_, list := f.eventWithRequests(1)
			f.exec(`UPDATE eventhook.route SET targets = jsonb_build_array($1::jsonb), target_secrets = NULL`, target)
			want := 0
			if host != "" {
				want = 1
			}
			open, err := f.db.Deliveries(t.Context(), f.tenant, eventhook.DeliveryFilter{Status: eventhook.DeliveryPending, Limit: 10})
			f.must(err)
			same(t, "listed", len(open), want)
			x, err := f.db.Overview(t.Context(), f.tenant, lastHour())
			f.must(err)
			same(t, "waiting", x.Queues.Deliveries.Waiting, want)
			names, err := f.db.DestinationNames(t.Context(), f.tenant, []eventhook.DeadGroup{{RouteID: f.route.ID}})
			f.must(err)
			same(t, "host", names[0].Host, host)
			n, err := f.db.AbandonDeliveries(t.Context(), list[0].Destination(), "gone", 10)
			f.must(err)
			same(t, "abandoned", n, 1-want)
			f.exec(`UPDATE eventhook.delivery SET status = 'dead', due_at = NULL`)
			same(t, "retried", len(f.restart(eventhook.DeliverySelection{IDs: deliveryIDs(list...)})), want)
		})
	}
}
