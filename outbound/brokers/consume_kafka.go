package brokers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/consumers"
)

const (
	// kafkaIdle is how long a consumer waits for records until it asks whether the brokers answer.
	kafkaIdle = 5 * time.Second
	// kafkaSilence is how long the brokers may take to answer.
	kafkaSilence = 10 * time.Second
	// kafkaSession is how long after its end without a farewell a member keeps its partitions.
	kafkaSession = 15 * time.Second
	// kafkaPartitionBytes is the number of bytes of one partition in an answer.
	kafkaPartitionBytes = 1 << 20
)

// kafkaReceiver consumes a topic as a member of a consumer group. While records are not settled, the group
// waits with a rebalance, as long as its rebalance timeout lasts. If a record is settled too late, the
// commit fails, and another member gets the record, too. Of kafkaConnection it uses the dialer and the state of the
// brokers; it produces no records.
type kafkaReceiver struct {
	*kafkaConnection
	topic     string
	max       int // bytes of a batch of messages
	unsettled int // records that were received and are not settled
	// begins has the partitions of this member, and the offset at which a partition begins if the group has no offset of
	// it: 0 stands for the oldest record, and atEnd for the end at the first call of lag. Guarded by mu.
	begins map[int32]int64
	start  int64 // of begins
}

func (b *Brokers) consumeKafka(ctx context.Context, s *consumers.Kafka, limits consumers.Limits) (receiver, error) {
	r := &kafkaReceiver{kafkaConnection: newKafkaConnection(), topic: s.Topic, max: limits.Bytes, begins: map[int32]int64{}}
	start := kgo.NewOffset().AtStart()
	if s.StartAt == consumers.Newest {
		start, r.start = kgo.NewOffset().AtEnd(), kafkaAtEnd
	}
	most := int32(limits.Bytes)
	options := []kgo.Opt{
		kgo.SeedBrokers(s.Addresses()...), kgo.Dialer(r.dialer(b, &s.KafkaCluster)), kgo.ClientID(b.Name),
		kgo.WithHooks(r.kafkaConnection), kgo.DisableClientMetrics(), kgo.MetadataMinAge(kafkaRefresh),
		kgo.ConsumerGroup(s.Group), kgo.SessionTimeout(kafkaSession), kgo.ConsumeTopics(s.Topic), kgo.ConsumeResetOffset(start),
		kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.OnPartitionsAssigned(r.gain), kgo.OnPartitionsRevoked(r.lose), kgo.OnPartitionsLost(r.lose),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.BrokerMaxReadBytes(most), kgo.FetchMaxBytes(most / 2),
		kgo.FetchMaxPartitionBytes(min(kafkaPartitionBytes, most/2)),
		kgo.MaxConcurrentFetches(1), kgo.MaxDecompressBatchBytes(limits.Bytes), kgo.FetchMaxWait(time.Second),
	}
	if s.Username != "" {
		options = append(options, kgo.SASL(kafkaLogin(&s.KafkaCluster)))
	}
	var err error
	if r.client, err = kgo.NewClient(options...); err != nil {
		return nil, err
	}
	if err := r.check(ctx); err != nil {
		r.close()
		return nil, r.failureOf(err)
	}
	return r, nil
}

// check returns an error if the brokers cannot be reached, or the topic does not exist.
func (r *kafkaReceiver) check(ctx context.Context) error {
	if err := r.client.Ping(ctx); err != nil {
		return err
	}
	q := kmsg.NewMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = &r.topic
	q.Topics = append(q.Topics, topic)
	a, err := q.RequestWith(ctx, r.client)
	if err != nil {
		return err
	}
	for _, t := range a.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return err
		}
	}
	return nil
}

// receive polls until there are records. After each poll without records it pings the brokers, because the
// client waits for silent brokers without an end.
func (r *kafkaReceiver) receive(ctx context.Context, max int) ([]*consumers.Message, error) {
	for {
		polling, cancel := context.WithTimeout(ctx, kafkaIdle)
		fetches := r.poll(polling, max)
		cancel()
		list := r.messages(fetches)
		if len(list) > 0 {
			return list, nil
		}
		r.client.AllowRebalance()
		if err := r.pollError(ctx, fetches); err != nil {
			return nil, r.failureOf(err)
		}
		if err := r.ping(ctx); err != nil {
			return nil, r.failureOf(r.trouble(err))
		}
	}
}

// poll is PollRecords, and ends when the credentials are not accepted any more.
func (r *kafkaReceiver) poll(ctx context.Context, max int) kgo.Fetches {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-r.failed:
			cancel()
		case <-ctx.Done():
		}
	}()
	return r.client.PollRecords(ctx, max)
}

// pollError returns why no records came, nil if there were none.
func (r *kafkaReceiver) pollError(ctx context.Context, fetches kgo.Fetches) error {
	select {
	case <-r.failed:
		return r.failure
	default:
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for _, e := range fetches.Errors() {
		if !isContextError(e.Err) {
			return e.Err
		}
	}
	return nil
}

// ping returns an error if no broker answers within kafkaSilence.
func (r *kafkaReceiver) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, kafkaSilence)
	defer cancel()
	return r.client.Ping(ctx)
}

func (r *kafkaReceiver) messages(fetches kgo.Fetches) (list []*consumers.Message) {
	fetches.EachRecord(func(record *kgo.Record) { list = append(list, kafkaMessage(record)) })
	r.unsettled += len(list)
	return list
}

// gain notes partitions that this member consumes now.
func (r *kafkaReceiver) gain(_ context.Context, _ *kgo.Client, gained map[string][]int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, partition := range gained[r.topic] {
		r.begins[partition] = r.start
	}
}

// lose forgets partitions that another member consumes now.
func (r *kafkaReceiver) lose(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, partition := range lost[r.topic] {
		delete(r.begins, partition)
	}
}

func kafkaMessage(record *kgo.Record) *consumers.Message {
	headers := make([]consumers.Header, len(record.Headers))
	for i, h := range record.Headers {
		headers[i] = consumers.Header{Name: h.Key, Value: string(h.Value)}
	}
	m := message(record.Topic, record.Value, headers)
	m.Key, m.Handle = string(record.Key), record
	// The time distinguishes the record from one of a topic that was created anew.
	m.Position = fmt.Sprintf("%s/%d/%d@%d", record.Topic, record.Partition, record.Offset, record.Timestamp.UnixMilli())
	return m
}

// settle commits the offsets behind messages.
func (r *kafkaReceiver) settle(ctx context.Context, done []*consumers.Message) error {
	records := make([]*kgo.Record, len(done))
	for i, m := range done {
		records[i] = m.Handle.(*kgo.Record) //nolint:forcetypeassert // of this receiver
	}
	if err := r.client.CommitRecords(ctx, records...); err != nil {
		return r.failureOf(err)
	}
	if r.unsettled -= len(done); r.unsettled <= 0 {
		r.client.AllowRebalance()
	}
	return nil
}

// lag counts the offsets between the committed ones and the ends of the partitions of this member.
func (r *kafkaReceiver) lag(ctx context.Context) (messages int64, isKnown bool) {
	oldest, err := r.offsets(ctx, kafkaOldest)
	if err != nil {
		return 0, false
	}
	ends, err := r.offsets(ctx, kafkaAtEnd)
	if err != nil {
		return 0, false
	}
	committed := r.client.CommittedOffsets()[r.topic]
	r.mu.Lock()
	defer r.mu.Unlock()
	for partition, begin := range r.begins {
		if begin == kafkaAtEnd {
			begin = ends[partition]
			r.begins[partition] = begin
		}
		if offset, isCommitted := committed[partition]; isCommitted {
			begin = offset.Offset
		}
		messages += max(0, ends[partition]-max(begin, oldest[partition]))
	}
	return messages, len(ends) > 0
}

// Times that stand for the offsets of the oldest record, and of the end of a partition.
const (
	kafkaOldest = -2
	kafkaAtEnd  = -1
)

// offsets returns an offset of each partition of this member.
func (r *kafkaReceiver) offsets(ctx context.Context, at int64) (map[int32]int64, error) {
	const readCommitted = 1
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = r.topic
	r.mu.Lock()
	for number := range r.begins {
		partition := kmsg.NewListOffsetsRequestTopicPartition()
		partition.Partition, partition.Timestamp = number, at
		topic.Partitions = append(topic.Partitions, partition)
	}
	r.mu.Unlock()
	if len(topic.Partitions) == 0 {
		return nil, nil
	}
	q := kmsg.NewListOffsetsRequest()
	q.ReplicaID, q.IsolationLevel, q.Topics = -1, readCommitted, append(q.Topics, topic)
	a, err := q.RequestWith(ctx, r.client)
	if err != nil {
		return nil, err
	}
	offsets := map[int32]int64{}
	for _, t := range a.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return nil, err
			}
			offsets[p.Partition] = p.Offset
		}
	}
	return offsets, nil
}

// close leaves the group, so that another member gets the partitions at once.
func (r *kafkaReceiver) close() {
	r.client.AllowRebalance()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = r.client.LeaveGroupContext(ctx)
	r.client.CloseAllowingRebalance()
}

// failureOf describes the errors of a consumer.
func (r *kafkaReceiver) failureOf(err error) error {
	const largeAnswer = "BrokerMaxReadBytes" // in the text of an error of the client that has no type
	_, isTooLarge := errors.AsType[*kgo.ErrDecompressTooLarge](err)
	switch {
	case isTooLarge, strings.Contains(err.Error(), largeAnswer):
		return refusedf("a message, or a batch of messages, is larger than %d bytes: raise max_body_bytes, or remove the message", r.max)
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return Errorf(eventhook.ErrorAuth, "the credentials may not read the topic")
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		return Errorf(eventhook.ErrorAuth, "the credentials may not use the consumer group")
	case errors.Is(err, kerr.IllegalGeneration), errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.RebalanceInProgress):
		return Errorf(eventhook.ErrorClosed, "the consumer group has given the partitions to another member meanwhile")
	}
	return kafkaFailure(err)
}
