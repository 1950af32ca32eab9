package brokers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/consumers"
)

const (
	// natsAckWait is how long messages of a consumer that the gateway creates may stay unacknowledged.
	natsAckWait = time.Minute
	// natsAckPending is the number of messages that such a consumer delivers without an
	// acknowledgement. It is small, so that after a crash the unacknowledged messages come first.
	natsAckPending = 256
	natsWait       = 10 * time.Second // of one request for messages
	natsSilence    = 5 * time.Second  // of the server afterwards
)

// natsReceiver consumes a stream of JetStream through a durable consumer.
type natsReceiver struct {
	conn         *nats.Conn
	consumer     jetstream.Consumer
	credit       *credit
	limits       consumers.Limits
	window       int  // messages that the consumer delivers without an acknowledgement
	isReplicated bool // the consumer has more than one server
	pace         pace
	held         []jetstream.Msg // that are not settled
	waiting      int64           // messages in the stream after the last one
}

func (b *Brokers) consumeNATS(ctx context.Context, s *consumers.NATS, limits consumers.Limits) (receiver, error) {
	r := &natsReceiver{credit: newCredit(minCredit), limits: limits, pace: newPace(limits.Bytes/2, natsAckPending)}
	conn, js, err := b.connectNATS(ctx, &s.NATSServer, limits.Bytes/2, r.credit)
	if err != nil {
		return nil, err
	}
	r.conn = conn
	if r.consumer, err = natsConsumer(ctx, js, s); err != nil {
		conn.Close()
		return nil, natsConsumerFailure(err)
	}
	info := r.consumer.CachedInfo()
	r.isReplicated = info.Cluster != nil && len(info.Cluster.Replicas) > 0
	c := info.Config
	if c.AckPolicy != jetstream.AckExplicitPolicy {
		conn.Close()
		return nil, refusedf("the consumer has no explicit acknowledgements (ack policy %s): messages could be lost", c.AckPolicy)
	}
	r.window = natsAckPending
	if c.MaxAckPending > 0 {
		r.window = min(r.window, c.MaxAckPending)
	}
	return r, nil
}

// natsConsumer returns the durable consumer. It creates the consumer if the stream has none of the name.
func natsConsumer(ctx context.Context, js jetstream.JetStream, s *consumers.NATS) (jetstream.Consumer, error) {
	c, err := js.Consumer(ctx, s.Stream, s.Consumer)
	if !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return c, err
	}
	start := jetstream.DeliverAllPolicy
	if s.StartAt == consumers.Newest {
		start = jetstream.DeliverNewPolicy
	}
	return js.CreateConsumer(ctx, s.Stream, jetstream.ConsumerConfig{Durable: s.Consumer, FilterSubject: s.Subject, DeliverPolicy: start,
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: natsAckWait, MaxAckPending: natsAckPending})
}

// receive waits for one message, and takes the messages that are there behind it.
func (r *natsReceiver) receive(ctx context.Context, max int) ([]*consumers.Message, error) {
	for {
		list, err := r.fetch(ctx, max)
		if err != nil || len(list) > 0 {
			return list, err
		}
	}
}

func (r *natsReceiver) fetch(ctx context.Context, max int) ([]*consumers.Message, error) {
	if !r.conn.IsConnected() {
		return nil, r.failure(nats.ErrConnectionClosed)
	}
	r.credit.Store(int64(r.limits.Bytes) + minCredit)
	limited, end := context.WithTimeout(ctx, natsWait+natsSilence)
	defer end()
	waiting, cancel := context.WithTimeout(ctx, natsWait)
	defer cancel()
	first, err := r.collect(r.consumer.Fetch(1, jetstream.FetchContext(waiting)))
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, r.failure(err)
	case len(first) == 0:
		return nil, r.failure(r.conn.FlushWithContext(limited)) // the server may be silent
	}
	requested := min(max, r.pace.count)
	rest, err := r.fetchMore(requested-1, len(first[0].Data))
	if err != nil {
		return nil, r.failure(err)
	}
	list := append(first, rest...)
	r.pace.adjust(requested, list)
	return list, nil
}

// fetchMore takes at most n messages that are there behind one of size bytes. A request to a replicated consumer has no
// limit of bytes, but that of pace: its leader reports that such a request has ended before it sends the messages, and
// the client drops messages behind the end. They would be delivered again after the consumer's AckWait.
func (r *natsReceiver) fetchMore(n, size int) ([]*consumers.Message, error) {
	n = min(n, int(min(r.waiting, natsAckPending)), r.window-len(r.held))
	space := r.limits.Bytes/2 - size
	if n <= 0 || space <= 0 {
		return nil, nil
	}
	const briefly = time.Second
	options := []jetstream.FetchOpt{jetstream.FetchMaxWait(briefly)}
	if !r.isReplicated {
		options = append(options, jetstream.FetchMaxBytes(space))
	}
	return r.collect(r.consumer.Fetch(n, options...))
}

// collect returns the messages of a request, which are held until they are settled. A request that ends without a
// message is no error.
func (r *natsReceiver) collect(batch jetstream.MessageBatch, err error) (list []*consumers.Message, _ error) {
	if err != nil {
		return nil, err
	}
	for raw := range batch.Messages() {
		r.held = append(r.held, raw)
		list = append(list, r.message(raw))
	}
	err = batch.Error()
	for _, none := range []error{nats.ErrTimeout, jetstream.ErrNoMessages, context.DeadlineExceeded, context.Canceled} {
		if errors.Is(err, none) {
			return list, nil
		}
	}
	return list, err
}

func (r *natsReceiver) message(raw jetstream.Msg) *consumers.Message {
	var headers []consumers.Header
	for name, values := range raw.Headers() {
		for _, v := range values {
			headers = append(headers, consumers.Header{Name: name, Value: v})
		}
	}
	m := encodedMessage(raw.Subject(), raw.Data(), headers)
	m.Handle = raw
	if meta, err := raw.Metadata(); err == nil {
		// The time distinguishes the message from one of a stream that was created anew.
		m.Position = fmt.Sprintf("%s/%d@%d", meta.Stream, meta.Sequence.Stream, meta.Timestamp.UnixNano())
		r.waiting = int64(meta.NumPending)
	}
	return m
}

// settle acknowledges messages, and waits until the server has read that.
func (r *natsReceiver) settle(ctx context.Context, done []*consumers.Message) error {
	ctx, cancel := context.WithTimeout(ctx, natsSilence)
	defer cancel()
	for _, m := range done {
		raw := m.Handle.(jetstream.Msg) //nolint:forcetypeassert // of this receiver
		conclude := raw.Ack
		if m.IsRefused {
			conclude = func() error { return raw.TermWithReason("refused by the gateway") }
		}
		if err := conclude(); err != nil {
			return r.failure(err)
		}
	}
	r.held = withoutFirst(r.held, len(done))
	return r.failure(r.conn.FlushWithContext(ctx))
}

// lag counts the messages that are not delivered, and those that are not acknowledged.
func (r *natsReceiver) lag(ctx context.Context) (int64, bool) {
	info, err := r.consumer.Info(ctx)
	if err != nil {
		return 0, false
	}
	return int64(info.NumPending) + int64(info.NumAckPending), true
}

// close gives the messages that are not settled back to the server, so that it delivers them again at once.
func (r *natsReceiver) close() {
	defer r.conn.Close()
	if len(r.held) == 0 || !r.conn.IsConnected() {
		return
	}
	for _, m := range r.held {
		_ = m.Nak()
	}
	_ = r.conn.FlushTimeout(closeTimeout)
}

// failure describes an error. The reason why the connection was closed counts more than err.
func (r *natsReceiver) failure(err error) error {
	if err == nil {
		return nil
	}
	if reason := r.conn.LastError(); reason != nil && !r.conn.IsConnected() {
		err = reason
	}
	return natsConsumerFailure(err)
}

func natsConsumerFailure(err error) error {
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return refusedf("the stream does not exist")
	case errors.Is(err, jetstream.ErrConsumerNotFound), errors.Is(err, jetstream.ErrConsumerDeleted):
		return refusedf("the consumer was deleted")
	case errors.Is(err, jetstream.ErrNotPullConsumer):
		return refusedf("the consumer is a push consumer; it must be a pull consumer")
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount), errors.Is(err, nats.ErrNoResponders):
		return refusedf("the server has no JetStream for these credentials")
	case errors.Is(err, nats.ErrPermissionViolation):
		return Errorf(eventhook.ErrorAuth, "the credentials may not consume the stream")
	}
	return natsFailure(err)
}
