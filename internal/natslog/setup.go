package natslog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Dead messages may take max_bytes/deadShare, and at least minDead bytes.
const (
	deadShare = 10
	minDead   = 16 << 20
)

// setUp creates the stream, the consumer, the dead messages and the bucket, or changes them to the
// configuration.
func (l *Log) setUp(ctx context.Context) error {
	c := l.Config
	if err := l.setUpStream(ctx, jetstream.StreamConfig{
		Name: c.Name, Description: "Eventhook: accepted webhooks that are not in the database yet",
		Subjects: []string{c.Name + ".events.*"}, Retention: jetstream.WorkQueuePolicy, MaxBytes: c.MaxBytes,
	}); err != nil {
		return err
	}
	if err := l.setUpConsumer(ctx); err != nil {
		return err
	}
	if err := l.setUpStream(ctx, jetstream.StreamConfig{
		Name: l.deadStream(), Description: "Eventhook: webhooks that the database refuses",
		Subjects: []string{l.deadSubject()}, MaxBytes: max(c.MaxBytes/deadShare, minDead), AllowDirect: true,
	}); err != nil {
		return err
	}
	return l.setUpBucket(ctx)
}

func (l *Log) setUpStream(ctx context.Context, c jetstream.StreamConfig) error {
	changing, cancel := context.WithTimeout(ctx, changeFor)
	defer cancel()
	c.Replicas, c.Storage, c.Discard = l.Config.Replicas, jetstream.FileStorage, jetstream.DiscardNew
	_, err := l.js.CreateOrUpdateStream(changing, c)
	if isSpace(err) {
		return fmt.Errorf("create the stream %s, which may take %d bytes (ingest.log.max_bytes) on each of %d servers: %w",
			c.Name, c.MaxBytes, c.Replicas, err)
	}
	return partError("create the stream "+c.Name, err)
}

func (l *Log) setUpConsumer(ctx context.Context) error {
	changing, cancel := context.WithTimeout(ctx, changeFor)
	defer cancel()
	_, err := l.js.CreateOrUpdateConsumer(changing, l.Config.Name, jetstream.ConsumerConfig{
		Durable: consumer, AckPolicy: jetstream.AckExplicitPolicy, AckWait: l.AckWait, MaxDeliver: -1, MaxAckPending: maxTaken,
	})
	return partError("create the consumer of "+l.Config.Name, err)
}

func (l *Log) setUpBucket(ctx context.Context) error {
	changing, cancel := context.WithTimeout(ctx, changeFor)
	defer cancel()
	_, err := l.js.CreateOrUpdateKeyValue(changing, jetstream.KeyValueConfig{
		Bucket: l.bucket(), Description: "Eventhook: sources, for instances that cannot reach the database", Replicas: l.Config.Replicas,
	})
	return partError("create the bucket "+l.bucket(), err)
}

// isSpace reports whether the servers say that they have not enough space.
func isSpace(err error) bool {
	api, isAnswer := errors.AsType[*jetstream.APIError](err)
	return isAnswer && (slices.Contains(noSpace, api.ErrorCode) || strings.Contains(api.Description, "insufficient storage"))
}

// partError adds the part of the log and the act that failed to an error. A part exists and does not answer while it has
// no leader.
func partError(act string, err error) error {
	if err == nil {
		return nil
	}
	api, isAnswer := errors.AsType[*jetstream.APIError](err)
	isWaiting := isAnswer && api.ErrorCode == notAvailable
	if isWaiting || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrNoResponders) {
		return fmt.Errorf("%s: no leader answers at present: %w", act, err)
	}
	return fmt.Errorf("%s: %w", act, err)
}
