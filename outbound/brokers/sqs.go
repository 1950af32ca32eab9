package brokers

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/targets"
)

// Limits of Amazon SQS.
const (
	maxSQSMessage    = 1 << 20 // bytes of the body and of the names, types and values of the attributes
	maxSQSAttributes = 10
	maxSQSGroup      = 128
)

// sqsConnection sends messages to queues of Amazon SQS. CloudEvents has no binding for it: a message
// has the attributes Content-Type and ce-NAME.
type sqsConnection struct {
	client *sqs.Client
	http   sqsHTTP
}

// Publish implements Connection. The deduplication id of a FIFO queue is the id of the delivery, so
// that the queue accepts a repetition within 5 minutes and does not store it.
func (c *sqsConnection) Publish(ctx context.Context, b targets.Broker, m targets.CloudEvent) (string, error) {
	s := b.(*targets.SQS) //nolint:forcetypeassert // the connection was opened for it
	in, size := sqsMessage(s, m)
	switch {
	case len(m.Data) == 0:
		return "", Errorf(eventhook.ErrorRefused, "the message is empty: Amazon SQS takes no empty message")
	case size > maxSQSMessage:
		return "", Errorf(eventhook.ErrorRefused, "the message has %d bytes with attributes: Amazon SQS takes at most %d",
			size, maxSQSMessage)
	}
	out, err := c.client.SendMessage(ctx, in)
	if err != nil {
		return "", sqsFailure(err)
	}
	receipt := "message " + aws.ToString(out.MessageId)
	if out.SequenceNumber != nil {
		receipt += ", sequence number " + *out.SequenceNumber
	}
	return receipt, nil
}

// sqsMessage returns a message and its size. It has at most 10 attributes, the first in this order:
// Content-Type, ce-dataencoding and those of CloudEvents.
func sqsMessage(s *targets.SQS, m targets.CloudEvent) (in *sqs.SendMessageInput, size int) {
	body, encoding := sqsBody(m.Data)
	in = &sqs.SendMessageInput{QueueUrl: &s.QueueURL, MessageBody: &body,
		MessageAttributes: map[string]types.MessageAttributeValue{}}
	size = len(body)
	add := func(name, value string) {
		const text = "String"
		if value == "" || len(in.MessageAttributes) == maxSQSAttributes {
			return
		}
		value = sqsText(value)
		in.MessageAttributes[name] = types.MessageAttributeValue{DataType: aws.String(text), StringValue: &value}
		size += len(name) + len(text) + len(value)
	}
	add("Content-Type", m.ContentType)
	add("ce-dataencoding", encoding)
	for _, a := range m.Attributes {
		add("ce-"+a.Name, a.Value)
	}
	if s.IsFIFO() {
		in.MessageGroupId, in.MessageDeduplicationId = aws.String(sqsGroup(m.Key)), &m.DeliveryID
	}
	return in, size
}

// sqsBody returns data as the body of a message, which must be text, and how it is encoded.
func sqsBody(data []byte) (body, encoding string) {
	body = string(data)
	if !utf8.Valid(data) || strings.ContainsFunc(body, isNotSQS) {
		return base64.StdEncoding.EncodeToString(data), "base64"
	}
	return body, ""
}

// sqsText replaces the characters that no message may have.
func sqsText(s string) string {
	return strings.Map(func(c rune) rune {
		if isNotSQS(c) {
			return utf8.RuneError
		}
		return c
	}, s)
}

// isNotSQS reports whether a message must not have a character: the allowed ones are those of XML 1.0.
func isNotSQS(c rune) bool {
	return c < ' ' && c != '\t' && c != '\n' && c != '\r' || c == 0xfffe || c == 0xffff
}

// sqsGroup returns the message group of a key. A key that is too long or has other characters than
// printable ASCII becomes its SHA-256.
func sqsGroup(key string) string {
	if len(key) > maxSQSGroup || strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c > '~' }) {
		sum := sha256.Sum256([]byte(key))
		return hex.EncodeToString(sum[:])
	}
	return cmp.Or(key, "default")
}

// IsClosed implements Connection. Requests open connections as they need them.
func (c *sqsConnection) IsClosed() bool { return false }

// Close implements Connection.
func (c *sqsConnection) Close() { c.http.client.CloseIdleConnections() }
