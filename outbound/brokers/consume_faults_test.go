package brokers_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/consumers"
)

func (s *kafkaServer) consumed() consumedKind {
	return consumedKind{server: s, source: func(members map[string]any) string {
		return targetJSON(map[string]any{"type": "kafka", "brokers": s.address(), "topic": "orders", "group": "gateway", "tls": false, "username": "gateway", "password": secret}, members)
	}}
}

// publishKeys publishes messages with keys of their own, which are spread over the partitions.
func (f *fixture) publishKeys(first, last int) {
	f.Helper()
	for n := first; n <= last; n++ {
		f.sent(f.delivery("application/json", fmt.Sprintf(`{"customer":{"id":"c-%d"},"n":%d}`, n, n)))
	}
}

// requests returns a channel that gets an element for each request of a kind.
func (s *kafkaServer) requests(key kmsg.Key) <-chan struct{} {
	seen := make(chan struct{}, 1000)
	s.ControlKey(int16(key), func(kmsg.Request) (kmsg.Response, error, bool) {
		s.KeepControl()
		seen <- struct{}{}
		return nil, nil, false
	})
	return seen
}

// seen counts messages by their position.
type seen map[string]int

func (s seen) add(list []*consumers.Message) {
	for _, m := range list {
		s[m.Position]++
	}
}

// A member joins the group while another one has a batch that is not settled: the rebalance waits for the batch, and
// no message is delivered twice.
func TestARebalanceOfKafkaWaitsForTheBatch(t *testing.T) {
	s := newKafka(t)
	k := s.consumed()
	k.publisher(t).publishKeys(1, 20)
	first := k.consume(t)
	defer first.Close()
	got := seen{}
	batch := first.next(20)
	got.add(batch)
	first.settle(batch[:3])

	joins, heartbeats := s.requests(kmsg.JoinGroup), s.requests(kmsg.Heartbeat)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	others := make(chan []*consumers.Message, 100)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		second := k.consume(t)
		defer second.Close()
		for {
			list, err := second.Receive(ctx, 100)
			if err != nil {
				return
			}
			others <- list
			if second.Settle(context.WithoutCancel(ctx), list) != nil {
				return
			}
		}
	}()
	next(t, joins)
	for range 2 { // of the first member, which is told of the rebalance
		next(t, heartbeats)
	}
	first.settle(batch[3:])
	k.publisher(t).publishKeys(21, 40)
	received := make(chan []*consumers.Message, 100)
	go func() {
		for {
			list, err := first.Receive(ctx, 100)
			if err != nil || first.Settle(context.WithoutCancel(ctx), list) != nil {
				close(received)
				return
			}
			received <- list
		}
	}()
	for both := map[bool]bool{}; len(got) < 40 || !both[true]; {
		select {
		case list := <-received:
			got.add(list)
		case list := <-others:
			got.add(list)
			both[true] = true
		case <-t.Context().Done():
			t.Fatal("the test took too long")
		}
	}
	cancel()
	<-ended
	for range received {
	}
	for position, n := range got {
		if n != 1 {
			t.Errorf("the message %s was delivered %d times", position, n)
		}
	}
}

// A member that was too slow has lost its partitions: the messages that it could not settle are delivered again with
// the same positions.
func TestMessagesOfALostPartitionAreDeliveredAgain(t *testing.T) {
	s := newKafka(t)
	k := s.consumed()
	k.publisher(t).publishKeys(1, 10)
	c := k.consume(t)
	got := seen{}
	batch := c.next(10)
	c.settle(batch[:4])
	for _, m := range batch[4:] {
		got[m.Position] = 0
	}
	s.ControlKey(int16(kmsg.OffsetCommit), func(r kmsg.Request) (kmsg.Response, error, bool) {
		q := r.(*kmsg.OffsetCommitRequest)
		a := q.ResponseKind().(*kmsg.OffsetCommitResponse)
		for _, t := range q.Topics {
			one := kmsg.OffsetCommitResponseTopic{Topic: t.Topic, TopicID: t.TopicID}
			for _, p := range t.Partitions {
				one.Partitions = append(one.Partitions, kmsg.OffsetCommitResponseTopicPartition{Partition: p.Partition, ErrorCode: kerr.IllegalGeneration.Code})
			}
			a.Topics = append(a.Topics, one)
		}
		return a, nil, true
	})
	wantError(t, c.Settle(t.Context(), batch[4:]), eventhook.ErrorClosed)
	c.Close()
	c = k.consume(t)
	defer c.Close()
	again := c.next(6)
	got.add(again)
	c.settle(again)
	for position, n := range got {
		if n != 1 {
			t.Errorf("the message %s was delivered again %d times, want once", position, n)
		}
	}
}

// The credentials of a consumer expire: the next connection is refused, with a reason. New ones continue.
func TestCredentialsOfAConsumerExpire(t *testing.T) {
	s := newKafka(t)
	k := s.consumed()
	f := k.publisher(t)
	f.publish(1, 2)
	c := k.consume(t)
	list := c.next(2)
	c.settle(list[:1])
	s.setPassword("gateway", "changed")
	s.stop()
	s.start()
	ctx, cancel := context.WithTimeout(t.Context(), receiveLimit)
	defer cancel()
	_, err := c.Receive(ctx, 1)
	wantError(t, err, eventhook.ErrorAuth)
	c.Close()
	c2, err := newBrokers(local()).OpenConsumer(t.Context(), place(t, k.source(map[string]any{"username": "renewed", "password": "another-" + secret})))
	if err != nil {
		t.Fatal(err)
	}
	defer c2.Close()
	renewed := &consumption{t, c2}
	again := renewed.next(1)
	checkBodies(t, again, 2)
	renewed.settle(again)
}
