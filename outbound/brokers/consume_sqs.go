package brokers

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/eventhook/eventhook/consumers"
)

const (
	sqsWaitSeconds = 20               // of a request for messages that are not there yet
	sqsSilence     = 10 * time.Second // of the service in addition
	sqsBatch       = 10               // messages of a request
	// sqsEscaping is how much larger an answer can be than its messages: JSON escapes characters.
	sqsEscaping = 2
)

// sqsReceiver consumes a queue of Amazon SQS.
type sqsReceiver struct {
	client   *sqs.Client
	http     sqsHTTP
	settings *consumers.SQS
	pace     pace      // an answer has no limit of bytes
	held     []*string // receipt handles of messages that are not settled
}

// consumeSQS performs no I/O: the first call of receive connects.
func (b *Brokers) consumeSQS(s *consumers.SQS, limits consumers.Limits) receiver {
	r := &sqsReceiver{http: b.sqsHTTP(int64(limits.Bytes) * sqsEscaping), settings: s, pace: newPace(limits.Bytes/2, sqsBatch)}
	r.client = sqsClient(&s.SQSQueue, r.http)
	return r
}

func (r *sqsReceiver) receive(ctx context.Context, max int) ([]*consumers.Message, error) {
	count := min(max, r.pace.count)
	in := &sqs.ReceiveMessageInput{QueueUrl: &r.settings.QueueURL, MaxNumberOfMessages: int32(count),
		WaitTimeSeconds: sqsWaitSeconds, MessageAttributeNames: []string{"All"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameMessageGroupId},
		VisibilityTimeout:           int32(r.settings.VisibilityTimeoutSeconds)}
	for {
		limited, cancel := context.WithTimeout(ctx, sqsWaitSeconds*time.Second+sqsSilence)
		out, err := r.client.ReceiveMessage(limited, in)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			return nil, r.failure(err, count)
		}
		var list []*consumers.Message
		for _, raw := range out.Messages {
			r.held = append(r.held, raw.ReceiptHandle)
			list = append(list, r.message(&raw))
		}
		if len(list) > 0 {
			r.pace.adjust(count, list)
			return list, nil
		}
	}
}

// failure describes an error of a request for a number of messages.
func (r *sqsReceiver) failure(err error, requested int) error {
	_, isLarge := errors.AsType[*http.MaxBytesError](err)
	switch {
	case isLarge && requested == 1:
		return errTooLarge
	case isLarge:
		return errTooMuch
	}
	return sqsFailure(err)
}

// message returns a message. An attribute ce-dataencoding says that the body is base64, as it is in messages
// that the targets of this gateway have sent.
func (r *sqsReceiver) message(raw *types.Message) *consumers.Message {
	var headers []consumers.Header
	isBase64 := false
	for name, a := range raw.MessageAttributes {
		switch {
		case a.StringValue == nil:
		case strings.EqualFold(name, "ce-dataencoding"):
			isBase64 = *a.StringValue == "base64"
		default:
			headers = append(headers, consumers.Header{Name: name, Value: *a.StringValue})
		}
	}
	m := message(queueName(r.settings.QueueURL), []byte(aws.ToString(raw.Body)), headers)
	m.Position, m.Handle = aws.ToString(raw.MessageId), raw.ReceiptHandle
	m.Key = raw.Attributes[string(types.MessageSystemAttributeNameMessageGroupId)]
	if isBase64 {
		data, err := base64.StdEncoding.DecodeString(string(m.Data))
		if m.Data = data; err != nil {
			m.Unreadable = "the body is not base64, as its attribute ce-dataencoding says"
		}
	}
	return m
}

// queueName returns the last part of the URL of a queue.
func queueName(url string) string { return url[strings.LastIndexByte(url, '/')+1:] }

// settle deletes the messages that are not refused. Refused ones stay for the redrive policy of the queue.
func (r *sqsReceiver) settle(ctx context.Context, done []*consumers.Message) error {
	in := &sqs.DeleteMessageBatchInput{QueueUrl: &r.settings.QueueURL}
	for i, m := range done {
		if m.IsRefused {
			continue
		}
		handle := m.Handle.(*string) //nolint:forcetypeassert // of this receiver
		in.Entries = append(in.Entries, types.DeleteMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: handle})
	}
	r.held = withoutFirst(r.held, len(done))
	if len(in.Entries) == 0 {
		return nil
	}
	out, err := r.client.DeleteMessageBatch(ctx, in)
	switch {
	case err != nil:
		return sqsFailure(err)
	case len(out.Failed) > 0:
		return refusedf("Amazon SQS did not delete %d of %d messages: %s", len(out.Failed), len(in.Entries), aws.ToString(out.Failed[0].Code))
	}
	return nil
}

// lag implements receiver: it would need another permission.
func (*sqsReceiver) lag(context.Context) (int64, bool) { return 0, false }

// close makes the messages that are not settled visible again.
func (r *sqsReceiver) close() {
	defer r.http.client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	for _, handle := range r.held {
		in := &sqs.ChangeMessageVisibilityInput{QueueUrl: &r.settings.QueueURL, ReceiptHandle: handle, VisibilityTimeout: 0}
		if _, err := r.client.ChangeMessageVisibility(ctx, in); err != nil {
			return // they become visible after their timeout
		}
	}
}
