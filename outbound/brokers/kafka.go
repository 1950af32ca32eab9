package brokers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

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

// kafkaRecord returns the record of a message. Its value is never null, which would delete the key
// from a compacted topic.
func kafkaRecord(topic string, partition int32, m targets.CloudEvent) *kgo.Record {
	r := &kgo.Record{Topic: topic, Partition: partition, Value: m.Data}
	if r.Value == nil {
		r.Value = []byte{}
	}
	if m.Key != "" {
		r.Key = []byte(m.Key)
	}
	r.Headers = kafkaHeaders(m)
	return r
}

// kafkaHeaders returns the headers of a message. Their names share one text, and their values one
// slice, because a record has about ten of them.
func kafkaHeaders(m targets.CloudEvent) []kgo.RecordHeader {
	const prefix, contentType = "ce_", "content-type"
	headers := make([]kgo.RecordHeader, 0, len(m.Attributes)+1)
	nameBytes, valueBytes := 0, len(m.ContentType)
	for _, a := range m.Attributes {
		nameBytes, valueBytes = nameBytes+len(prefix)+len(a.Name), valueBytes+len(a.Value)
	}
	var names strings.Builder
	names.Grow(nameBytes)
	values := make([]byte, 0, valueBytes)
	add := func(name, value string) {
		from := len(values)
		values = append(values, value...)
		headers = append(headers, kgo.RecordHeader{Key: name, Value: values[from:len(values):len(values)]})
	}
	if m.ContentType != "" {
		add(contentType, m.ContentType)
	}
	for _, a := range m.Attributes {
		from := names.Len()
		names.WriteString(prefix)
		names.WriteString(a.Name)
		add(names.String()[from:], a.Value)
	}
	return headers
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
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.InvalidRecord) ||
		errors.Is(err, kerr.InvalidTimestamp)
}

func isContextError(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// IsClosed implements Connection.
func (c *kafkaConnection) IsClosed() bool { return c.retired.Load() }

// Close implements Connection. It does not wait for the brokers.
func (c *kafkaConnection) Close() { c.client.Close() }
