package brokers_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eventhook/eventhook/internal/natstest"
)

// The leader of a replicated consumer reports the end of a request that is limited in bytes before it has sent the
// messages of the request. They would come after AckWait.
func TestABacklogOfAReplicatedNATSConsumerKeepsItsOrder(t *testing.T) {
	servers := natstest.NewCluster(t, 3)
	js := natstest.Connect(t, servers.URL())
	for {
		_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders"}, Replicas: 3})
		if err == nil {
			break
		}
		if t.Context().Err() != nil { // otherwise a server has not joined yet
			t.Fatal(err)
		}
	}
	must(js.CreateConsumer(t.Context(), "ORDERS", jetstream.ConsumerConfig{Durable: "gateway", AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Hour}))
	const messages, size = 40, 200 << 10
	for i := range messages {
		must(js.Publish(t.Context(), "orders", bytes.Repeat([]byte{byte(i)}, size)))
	}
	for claim, name := range map[string]string{"a consumer that exists": "gateway", "a consumer that the gateway creates": "fresh"} {
		t.Run(claim, func(t *testing.T) {
			c := consumedKind{source: func(map[string]any) string {
				return targetJSON(map[string]any{"type": "nats", "url": servers.URL(), "stream": "ORDERS", "consumer": name}, nil)
			}}.consume(t)
			defer c.Close()
			for got := 0; got < messages; {
				list, err := c.Receive(t.Context(), messages)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range list {
					if int(m.Data[0]) != got {
						t.Fatalf("message %d came in place of message %d", m.Data[0], got)
					}
					got++
				}
				c.settle(list)
			}
		})
	}
}
