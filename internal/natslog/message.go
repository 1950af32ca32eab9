package natslog

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/eventhook/eventhook"
)

// version is the first byte of each message. An instance that does not know a version leaves the
// message to other instances for laterWait.
const version = 1

// envelope has the fields of an event that a message carries besides headers and body.
type envelope struct {
	ID          eventhook.EventID  `json:"id"`
	TenantID    eventhook.TenantID `json:"tenant"`
	SourceID    eventhook.SourceID `json:"source"`
	SourceSlug  string             `json:"slug"`
	EventType   string             `json:"type"`
	Key         string             `json:"key,omitempty"`
	SignedHash  string             `json:"signed,omitempty"`
	ContentType string             `json:"media,omitempty"`
	SourceIP    string             `json:"ip,omitempty"`
	TraceID     string             `json:"trace,omitempty"`
	RequestID   string             `json:"request,omitempty"`
	Headers     int                `json:"headers"` // bytes of the header block
}

// encode returns the message of an event: the version, the length of the envelope, the envelope, the
// header block, and the body.
func encode(e *eventhook.Event) ([]byte, error) {
	head, err := json.Marshal(envelope{ID: e.ID, TenantID: e.TenantID, SourceID: e.SourceID, SourceSlug: e.SourceSlug, EventType: e.EventType,
		Key: e.IdempotencyKey, SignedHash: e.SignedHash, ContentType: e.ContentType, SourceIP: e.SourceIP, TraceID: e.TraceID,
		RequestID: e.RequestID, Headers: len(e.Headers)})
	if err != nil {
		return nil, err
	}
	b := make([]byte, 0, 1+binary.MaxVarintLen32+len(head)+len(e.Headers)+len(e.Body))
	b = binary.AppendUvarint(append(b, version), uint64(len(head)))
	return append(append(append(b, head...), e.Headers...), e.Body...), nil
}

// errVersion is the error for a message of a later version of the program.
var errVersion = errors.New("the message has a format that this version does not know; no gateway has written it, or a later version")

// errMessage is the error for a message that no version has written.
var errMessage = errors.New("the message cannot be read")

// decode returns the event of a message. The event keeps a part of b.
func decode(b []byte) (*eventhook.Event, error) {
	if len(b) == 0 {
		return nil, errMessage
	}
	if b[0] != version {
		return nil, errVersion
	}
	size, n := binary.Uvarint(b[1:])
	rest := b[min(len(b), 1+max(n, 0)):]
	if n <= 0 || size > uint64(len(rest)) {
		return nil, errMessage
	}
	var head envelope
	if err := json.Unmarshal(rest[:size], &head); err != nil {
		return nil, fmt.Errorf("%w: %w", errMessage, err)
	}
	rest = rest[size:]
	if head.Headers < 0 || head.Headers > len(rest) || head.ID.IsZero() {
		return nil, errMessage
	}
	e := &eventhook.Event{ID: head.ID, TenantID: head.TenantID, SourceID: head.SourceID, SourceSlug: head.SourceSlug, Origin: eventhook.OriginSource,
		EventType: head.EventType, IdempotencyKey: head.Key, SignedHash: head.SignedHash, ContentType: head.ContentType, SourceIP: head.SourceIP,
		TraceID: head.TraceID, RequestID: head.RequestID, BodySize: len(rest) - head.Headers}
	e.Headers, e.Body = rest[:head.Headers:head.Headers], rest[head.Headers:]
	return e, nil
}
