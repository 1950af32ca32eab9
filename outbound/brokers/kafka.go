package brokers

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/targets"
)

// kafkaConnection produces to a cluster of Kafka through one client. Headers have the names of the
// Kafka binding of CloudEvents: ce_ and the attribute, and content-type.
//
// The client connects to the brokers that the cluster advertises, and retries within the time of a
// message. Its producer is idempotent, so these retries store a record once. A record whose time has
// ended may have been sent, and then the client cannot drop it without losing that property. So the
// connection takes no further messages, and the client is closed after the messages that it has.
type kafkaConnection struct {
	client *kgo.Client
	// alone is held while a record is produced again whose batch was refused.
	alone chan struct{}

	retired   atomic.Bool
	isReached atomic.Bool  // a broker that the cluster advertises was reached
	sockets   atomic.Int32 // open or being opened
	failed    chan struct{}

	mu       sync.Mutex
	failure  error           // set when failed is closed
	troubles map[int32]error // why a broker cannot be reached now, by its id
}

// Publish implements Connection.
func (c *kafkaConnection) Publish(ctx context.Context, b targets.Broker, m targets.CloudEvent) (string, error) {
	partition, err := kafkaPartition(m.Partition)
	if err != nil {
		return "", err
	}
	r, err := c.produce(ctx, kafkaRecord(b.Place(), partition, m))
	if isOfBatch(err) {
		r, err = c.produceAlone(ctx, kafkaRecord(b.Place(), partition, m))
	}
	if err != nil {
		return "", c.describe(ctx, r, err)
	}
	return fmt.Sprintf("topic %s, partition %d, offset %d", r.Topic, r.Partition, r.Offset), nil
}

// chosenPartition and noPartition are values of Record.Partition that are no numbers: the partitioner
// shall choose, and the topic has no partition with the number.
const (
	chosenPartition = -1
	noPartition     = -2
)

// kafkaPartition returns the number of a partition from a value in an event.
func kafkaPartition(text string) (int32, error) {
	if text == "" {
		return chosenPartition, nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, failuref(eventhook.ErrorRefused, "the value at partition_path is not the number of a partition")
	}
	return int32(n), nil
}

// kafkaRecord returns the record of a message. Its value is never null, which would delete the key
// from a compacted topic.
func kafkaRecord(topic string, partition int32, m targets.CloudEvent) *kgo.Record {
	r := &kgo.Record{Topic: topic, Partition: partition, Value: m.Data, Headers: make([]kgo.RecordHeader, 0, len(m.Attributes)+1)}
	if r.Value == nil {
		r.Value = []byte{}
	}
	if m.Key != "" {
		r.Key = []byte(m.Key)
	}
	if m.ContentType != "" {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: "content-type", Value: []byte(m.ContentType)})
	}
	for _, a := range m.Attributes {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: "ce_" + a.Name, Value: []byte(a.Value)})
	}
	return r
}

// produce sends a record and waits for the acknowledgement. If the time of another record ends, the
// client may drop all records of the partition that it has not sent; then produce sends the record
// again.
func (c *kafkaConnection) produce(ctx context.Context, r *kgo.Record) (*kgo.Record, error) {
	for {
		sent, done := *r, make(chan error, 1)
		c.client.Produce(ctx, &sent, func(_ *kgo.Record, err error) { done <- err })
		select {
		case err := <-done:
			if isContextError(err) && ctx.Err() == nil {
				continue
			}
			return &sent, err
		case <-c.failed:
			return r, c.failure
		case <-ctx.Done():
			return r, ctx.Err()
		}
	}
}

// produceAlone sends a record again after the broker refused its batch, in which another record may
// have been the reason. Such records are sent one at a time.
func (c *kafkaConnection) produceAlone(ctx context.Context, r *kgo.Record) (*kgo.Record, error) {
	select {
	case c.alone <- struct{}{}:
		defer func() { <-c.alone }()
		return c.produce(ctx, r)
	case <-ctx.Done():
		return r, ctx.Err()
	}
}

// isOfBatch reports whether a broker refused a batch because of one of its records.
func isOfBatch(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.InvalidRecord) || errors.Is(err, kerr.InvalidTimestamp)
}

func isContextError(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// IsClosed implements Connection.
func (c *kafkaConnection) IsClosed() bool { return c.retired.Load() }

// Close implements Connection. It does not wait for the brokers.
func (c *kafkaConnection) Close() { c.client.Close() }

// kafkaPartitioner chooses partitions as the Java client does, and takes the number that a record
// already has.
type kafkaPartitioner struct{ byKey kgo.Partitioner }

// ForTopic implements kgo.Partitioner.
func (p kafkaPartitioner) ForTopic(topic string) kgo.TopicPartitioner {
	return kafkaTopicPartitioner{p.byKey.ForTopic(topic)}
}

type kafkaTopicPartitioner struct{ kgo.TopicPartitioner }

// RequiresConsistency implements kgo.TopicPartitioner.
func (p kafkaTopicPartitioner) RequiresConsistency(r *kgo.Record) bool {
	return r.Partition >= 0 || p.TopicPartitioner.RequiresConsistency(r)
}

// Partition implements kgo.TopicPartitioner.
func (p kafkaTopicPartitioner) Partition(r *kgo.Record, n int) int {
	switch {
	case r.Partition < 0:
		return p.TopicPartitioner.Partition(r, n)
	case int(r.Partition) >= n:
		r.Partition = noPartition
		return noPartition
	}
	return int(r.Partition)
}

// OnNewBatch implements kgo.TopicPartitionerOnNewBatch: records without a key change their partition.
func (p kafkaTopicPartitioner) OnNewBatch() {
	p.TopicPartitioner.(kgo.TopicPartitionerOnNewBatch).OnNewBatch() //nolint:forcetypeassert // as the sticky partitioner does
}
