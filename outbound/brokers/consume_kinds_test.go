package brokers_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/eventhook/eventhook"
)

func TestConsumersOfNATS(t *testing.T) {
	s := newNATS(t)
	js := s.Connect(nats.UserInfo("gateway", secret))
	const briefly = 3 * time.Second // the gateway itself would create the consumer with a minute
	must(js.CreateConsumer(t.Context(), "ORDERS", jetstream.ConsumerConfig{Durable: "gateway", AckPolicy: jetstream.AckExplicitPolicy, AckWait: briefly}))
	source := func(members map[string]any) string {
		return targetJSON(map[string]any{"type": "nats", "url": s.URL(), "stream": "ORDERS", "consumer": "gateway", "username": "gateway", "password": secret}, members)
	}
	k := consumedKind{server: s, source: source, unknown: map[string]any{"stream": "NOWHERE"}, wrong: map[string]any{"password": "another"}, hidesKey: true, tellsLag: true}
	testConsumers(t, k)
	t.Run("the gateway creates a consumer that does not exist", func(t *testing.T) {
		c, err := k.tryConsume(t, local(), map[string]any{"consumer": "fresh", "start_at": "newest"})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		k.publisher(t).publish(1, 1)
		fresh := &consumption{t, c}
		list := fresh.next(1)
		checkBodies(t, list, 1)
		fresh.settle(list)
	})
}

func TestConsumersOfKafka(t *testing.T) {
	s := newKafka(t)
	source := func(members map[string]any) string {
		return targetJSON(map[string]any{"type": "kafka", "brokers": s.address(), "topic": "orders", "group": "gateway", "tls": false, "username": "gateway", "password": secret}, members)
	}
	testConsumers(t, consumedKind{server: s, source: source, unknown: map[string]any{"topic": "nowhere"}, wrong: map[string]any{"password": "another"}, tellsLag: true, readsAll: true})
}

func TestConsumersOfAMQP(t *testing.T) {
	s := newAMQP(t)
	source := func(members map[string]any) string {
		return targetJSON(map[string]any{"type": "amqp", "url": s.url(s.Address()), "queue": "orders", "username": s.user, "password": secret}, members)
	}
	testConsumers(t, consumedKind{server: s, source: source, unknown: map[string]any{"queue": "nowhere"}, wrong: map[string]any{"password": "another"}, hidesKey: true})
}

func TestConsumersOfRedis(t *testing.T) {
	s := newRedis(t)
	s.do(t, 0, "XADD", "orders", "1-1", "data", "first")
	source := func(members map[string]any) string {
		return targetJSON(map[string]any{"type": "redis_stream", "url": "redis://" + s.Address(), "stream": "orders", "group": "gateway", "password": secret}, members)
	}
	k := consumedKind{server: s, source: source, unknown: map[string]any{"stream": "nowhere"}, wrong: map[string]any{"password": "another"}, hidesKey: true}
	k.drain(t, "first")
	testConsumers(t, k)
}

// The entries of a backlog have together more bytes than a consumer holds, and their size changes.
func TestABacklogOfRedisIsConsumedByOneConnection(t *testing.T) {
	s := newRedis(t)
	source := func(map[string]any) string {
		return targetJSON(map[string]any{"type": "redis_stream", "url": "redis://" + s.Address(), "stream": "orders", "group": "gateway", "password": secret}, nil)
	}
	const entries, small, large = 200, 5 << 10, 50 << 10
	for i := range entries * 2 {
		data := strings.Repeat("x", small)
		if i >= entries || i%20 == 0 {
			data = strings.Repeat("x", large)
		}
		s.do(t, 0, "XADD", "orders", "*", "data", data)
	}
	c := consumedKind{server: s, source: source}.consume(t)
	defer c.Close()
	const most = 256 // as a source without limits of its own
	for got := 0; got < entries*2; {
		list, err := c.Receive(t.Context(), most)
		if err != nil {
			t.Fatalf("after %d of %d entries: %v", got, entries*2, err)
		}
		c.settle(list)
		got += len(list)
	}
}

// No field is too large, but the entry is.
func TestEntriesOfRedisWithManyFields(t *testing.T) {
	const held, field = 700 << 10, 300 << 10
	for want, size := range map[string]struct{ fields, bytes int }{
		"a message is larger than 358400 bytes: raise max_body_bytes, or remove the message": {5, field},
		"an entry of the stream has more than 100 fields; remove the entry":                  {150, 1},
	} {
		s := newRedis(t)
		entry := []any{"orders", "*"}
		for i := range size.fields {
			entry = append(entry, strconv.Itoa(i), strings.Repeat("x", size.bytes))
		}
		s.do(t, 0, "XADD", entry...)
		p := place(t, targetJSON(map[string]any{"type": "redis_stream", "url": "redis://" + s.Address(), "stream": "orders", "group": "gateway", "password": secret}, nil))
		p.Limits.Bytes = held
		c := must(newBrokers(local()).OpenConsumer(t.Context(), p))
		_, err := c.Receive(t.Context(), 1)
		c.Close()
		if wantError(t, err, eventhook.ErrorRefused); err.Error() != want {
			t.Errorf("got %q, want %q", err, want)
		}
	}
}

func TestConsumersOfSQS(t *testing.T) {
	s := newSQS(t, "orders.fifo")
	source := func(members map[string]any) string {
		return targetJSON(map[string]any{"type": "sqs", "queue_url": s.url(), "region": sqsRegion, "access_key_id": sqsKeyID, "secret_access_key": secret}, members)
	}
	testConsumers(t, consumedKind{server: s, source: source, unknown: map[string]any{"queue_url": s.url() + "-other"}, wrong: map[string]any{"secret_access_key": "another"},
		drops: "tenantid", isLazy: true, redrive: s.redrive, hasNoLimit: true})
}

// Ten messages have together more bytes than a consumer holds.
func TestABacklogOfSQSIsConsumedByOneConnection(t *testing.T) {
	const held, size, messages = 700 << 10, 200 << 10, 30
	s := newSQS(t, "orders")
	publish := func(n, size int) {
		s.store(sqsMessage{MessageBody: fmt.Sprintf("%d %s", n, strings.Repeat("x", size))})
	}
	p := place(t, targetJSON(map[string]any{"type": "sqs", "queue_url": s.url(), "region": sqsRegion, "access_key_id": sqsKeyID, "secret_access_key": secret}, nil))
	p.Limits.Bytes = held
	for n := range messages {
		publish(n, size)
	}
	c := consumption{t, must(newBrokers(local()).OpenConsumer(t.Context(), p))}
	defer c.Close()
	for got := 0; got < messages; {
		list, err := c.Receive(t.Context(), messages)
		if err != nil {
			t.Fatalf("after %d of %d messages: %v", got, messages, err)
		}
		c.settle(list)
		got += len(list)
	}
	publish(messages, 3*held)
	_, err := c.Receive(t.Context(), 1)
	if wantError(t, err, eventhook.ErrorRefused); !strings.HasPrefix(err.Error(), "a message is larger than 358400 bytes") {
		t.Errorf("got %q", err)
	}
}

// A message that the gateway refuses goes to the dead-letter exchange of its queue.
func TestRefusedMessagesOfAMQPAreDeadLettered(t *testing.T) {
	s := newAMQP(t)
	s.queue("dead", nil)
	s.queue("limited", amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
	if err := s.channel.PublishWithContext(t.Context(), "", "limited", false, false, amqp.Publishing{Body: []byte("poison")}); err != nil {
		t.Fatal(err)
	}
	k := consumedKind{server: s, source: func(map[string]any) string {
		return targetJSON(map[string]any{"type": "amqp", "url": s.url(s.Address()), "queue": "limited", "username": s.user, "password": secret}, nil)
	}}
	c := k.consume(t)
	defer c.Close()
	m := c.next(1)
	if m[0].Position != "" {
		t.Errorf("got the position %q of a message without an id", m[0].Position)
	}
	m[0].IsRefused = true
	c.settle(m)
	dead := must(s.channel.Consume("dead", "", true, false, false, false, nil))
	select {
	case d := <-dead:
		if string(d.Body) != "poison" {
			t.Errorf("got %q", d.Body)
		}
	case <-time.After(receiveLimit):
		t.Error("the message is not in the queue dead")
	}
}
