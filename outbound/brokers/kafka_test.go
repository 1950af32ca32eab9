package brokers_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eventhook/eventhook"
)

func TestKafka(t *testing.T) {
	testKind(t, kind{server: newKafka(t), unknown: map[string]any{"topic": "nowhere"}, unknownClass: eventhook.ErrorRefused,
		wrong: map[string]any{"password": "another"}})
}

// The hashes are those of the tests of the Java client, UtilsTest.testMurmur2.
func TestKafkaChoosesThePartitionOfAKeyAsTheJavaClientDoes(t *testing.T) {
	s := newKafka(t)
	f := open(t, s.target(nil))
	for key, hash := range map[string]int32{"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536, "abc": 479470107} {
		f.sent(f.delivery("application/json", fmt.Sprintf(`{"customer":{"id":%q}}`, key)))
		if r, want := s.record(t), hash&0x7fffffff%topicPartitions; r.Partition != want || string(r.Key) != key {
			t.Errorf("the key %q is in partition %d, want %q in %d", r.Key, r.Partition, key, want)
		}
	}
}

func TestKafkaSpreadsMessagesWithoutAKey(t *testing.T) {
	s := newKafka(t)
	f := open(t, s.target(map[string]any{"key_path": nil}))
	partitions := map[int32]bool{}
	for range 20 {
		f.sent(f.delivery("application/json", order))
		r := s.record(t)
		if partitions[r.Partition] = true; r.Key != nil {
			t.Errorf("got the key %q, want none", r.Key)
		}
	}
	if len(partitions) < 2 {
		t.Error("all messages are in one partition")
	}
}

func TestKafkaTakesThePartitionOfTheEvent(t *testing.T) {
	s := newKafka(t)
	f := open(t, s.target(map[string]any{"partition_path": "body.shard"}))
	for _, shard := range []string{"0", "6", `"3"`} {
		f.sent(f.delivery("application/json", `{"customer":{"id":"c-1"},"shard":`+shard+`}`))
		if r := s.record(t); fmt.Sprint(r.Partition) != strings.Trim(shard, `"`) {
			t.Errorf("got partition %d, want %s", r.Partition, shard)
		}
	}
	for _, shard := range []string{"7", "-1", "1.5", "1e0", `"x"`, "2147483648", "99999999999999999999"} {
		if a := f.send(f.delivery("application/json", `{"shard":`+shard+`}`)); a.ErrorClass != eventhook.ErrorRefused || !strings.Contains(a.Error, "partition") {
			t.Errorf("%s: got %q: %s; want it refused", shard, a.ErrorClass, a.Error)
		}
	}
	f.sent(f.delivery("application/json", `{"customer":{"id":"foobar"}}`))
	if r := s.record(t); r.Partition != (-790332482&0x7fffffff)%topicPartitions {
		t.Errorf("without a value at the path: got partition %d, want that of the key", r.Partition)
	}
}

func TestKafkaCreatesNoTopic(t *testing.T) {
	s := newKafka(t, kfake.AllowAutoTopicCreation())
	f := open(t, s.target(map[string]any{"topic": "nowhere", "timeout_seconds": 60}))
	f.fails(eventhook.ErrorRefused)
	if s.TopicInfo("nowhere") != nil {
		t.Error("the topic was created")
	}
	if err := s.CreateTopic("nowhere", 1, nil); err != nil {
		t.Fatal(err)
	}
	f.sent(f.delivery("application/json", order))
}

func TestKafkaStoresARecordOnceInAllReplicas(t *testing.T) {
	s := newKafka(t)
	produced, answers := make(chan *kmsg.ProduceRequest, 10), 0
	s.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		q := request.(*kmsg.ProduceRequest)
		produced <- q
		if answers++; answers > 1 {
			return nil, nil, false
		}
		s.KeepControl()
		return nil, fmt.Errorf("the connection breaks before the answer"), true
	})
	f := open(t, s.target(nil))
	f.sent(f.delivery("application/json", order))
	first, second := batchOf(t, <-produced), batchOf(t, <-produced)
	if first.ProducerID < 0 || first.ProducerID != second.ProducerID || first.FirstSequence != second.FirstSequence {
		t.Errorf("got the producers %d and %d with the numbers %d and %d, want one producer that repeats its number",
			first.ProducerID, second.ProducerID, first.FirstSequence, second.FirstSequence)
	}
}

// batchOf returns the only batch of a request, which must ask for the acknowledgement of all replicas.
func batchOf(t *testing.T, q *kmsg.ProduceRequest) (b kmsg.RecordBatch) {
	t.Helper()
	if q.Acks != -1 {
		t.Errorf("the request asks for %d acknowledgements, want all (-1)", q.Acks)
	}
	if err := b.ReadFrom(q.Topics[0].Partitions[0].Records); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestKafkaRefusesMessagesThatAreTooLarge(t *testing.T) {
	s := newKafka(t)
	small := "2000"
	if err := s.CreateTopic("small", 1, map[string]string{"max.message.bytes": small}); err != nil {
		t.Fatal(err)
	}
	for topic, size := range map[string]int{"orders": 1_100_000, "small": 3000} {
		f := open(t, s.target(map[string]any{"topic": topic, "body": "raw"}))
		if a := f.send(f.delivery("text/plain", strings.Repeat("x", size))); a.ErrorClass != eventhook.ErrorRefused || !strings.Contains(a.Error, "larger") {
			t.Errorf("%s: got %q: %s; want it refused", topic, a.ErrorClass, a.Error)
		}
		f.sent(f.delivery("text/plain", "small"))
	}
}

// A broker refuses a batch because of one record. The other records of the batch are sent again.
func TestKafkaDoesNotFailTheOtherMessagesOfARefusedBatch(t *testing.T) {
	s := newKafka(t)
	var refused atomic.Bool
	s.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		q := request.(*kmsg.ProduceRequest)
		if b := batchOf(t, q); b.NumRecords < 2 || refused.Swap(true) {
			return nil, nil, false
		}
		return refusal(q, kerr.InvalidRecord.Code), nil, true
	})
	f := open(t, s.target(nil))
	for round := 0; !refused.Load() && t.Context().Err() == nil; round++ {
		var wait sync.WaitGroup
		for range 50 {
			wait.Go(func() {
				if a := f.send(f.delivery("application/json", order)); !a.Succeeded() {
					t.Errorf("round %d: got %q: %s; want success", round, a.ErrorClass, a.Error)
				}
			})
		}
		wait.Wait()
	}
}

// refusal answers a request with one partition.
func refusal(q *kmsg.ProduceRequest, code int16) kmsg.Response {
	a := q.ResponseKind().(*kmsg.ProduceResponse)
	p := kmsg.NewProduceResponseTopicPartition()
	p.Partition, p.ErrorCode = q.Topics[0].Partitions[0].Partition, code
	topic := kmsg.NewProduceResponseTopic()
	topic.Topic, topic.TopicID = q.Topics[0].Topic, q.Topics[0].TopicID
	topic.Partitions = append(topic.Partitions, p)
	a.Topics = append(a.Topics, topic)
	return a
}

// A null value would delete the key from a compacted topic.
func TestKafkaSendsAnEmptyMessageThatIsNotNull(t *testing.T) {
	s := newKafka(t)
	f := open(t, s.target(map[string]any{"body": "raw"}))
	d := f.delivery("text/plain", "")
	d.Event.Body = nil
	f.sent(d)
	if r := s.record(t); r.Value == nil || len(r.Value) > 0 {
		t.Errorf("got the value %#v, want an empty one", r.Value)
	}
}
