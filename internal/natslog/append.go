package natslog

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
)

// overhead bounds the bytes of a message besides headers and body.
const overhead = 4 << 10

// Fits implements ingest.Log. The servers announce the size of the largest message.
func (l *Log) Fits(e *eventhook.Event) bool {
	limit := l.conn.MaxPayload()
	if limit == 0 {
		limit = defaultMaxPayload // before the first connection
	}
	return int64(len(e.Headers)+len(e.Body)+overhead+len(e.IdempotencyKey)+len(e.EventType)) <= limit
}

// defaultMaxPayload is the limit of NATS servers without configuration.
const defaultMaxPayload = 1 << 20

// Append implements ingest.Log. It waits for the acknowledgement, which the leader of the stream sends
// after a quorum of its replicas has the message. Appends share the connection and do not wait for
// each other.
func (l *Log) Append(ctx context.Context, e *eventhook.Event) error {
	raw, err := encode(e)
	if err != nil {
		return err
	}
	if err := l.Ready(); err != nil {
		return err
	}
	ack, err := l.js.PublishMsgAsync(&nats.Msg{Subject: l.subject(e), Data: raw}, jetstream.WithMsgID(e.ID.String()),
		jetstream.WithExpectStream(l.Config.Name), jetstream.WithRetryAttempts(0))
	if err != nil {
		return appendError(err)
	}
	select {
	case <-ack.Ok():
		return nil
	case err := <-ack.Err():
		return appendError(err)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Error codes of JetStream, from server/errors.json of nats-server.
const (
	accountLimit jetstream.ErrorCode = 10002 // resource limits exceeded for account
	notAvailable jetstream.ErrorCode = 10008 // JetStream system temporarily unavailable
	noResources  jetstream.ErrorCode = 10023 // insufficient resources
	noStorage    jetstream.ErrorCode = 10047 // insufficient storage resources available
	notStored    jetstream.ErrorCode = 10077 // with the reason, such as: maximum bytes exceeded
)

// noSpace are the errors of an account or a server that has reached its bound.
var noSpace = []jetstream.ErrorCode{accountLimit, noResources, noStorage}

// appendError returns ingest.ErrLogFull for the errors of a stream, an account or a server that has
// reached its bound.
func appendError(err error) error {
	api, isAnswer := errors.AsType[*jetstream.APIError](err)
	if !isAnswer {
		return err
	}
	isOfStream := api.ErrorCode == notStored && strings.Contains(api.Description, "maximum")
	if isOfStream || slices.Contains(noSpace, api.ErrorCode) {
		return ingest.ErrLogFull
	}
	return err
}
