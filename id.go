package eventhook

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"time"
)

// ID is a UUIDv7 (RFC 9562, section 5.7) of a K: the first 48 bits are the
// Unix time in milliseconds, so ids sort by age and name the time partition of
// their row. K keeps ids of different things apart at compile time.
type ID[K any] [16]byte

// The ids of our nouns.
//
//nolint:revive // one comment for all
type (
	TenantID    = ID[Tenant]
	KeyID       = ID[APIKey]
	SourceID    = ID[Source]
	RouteID     = ID[Route]
	EventID     = ID[Event]
	ActionID    = ID[Action]
	ExecutionID = ID[Execution]
	PromiseID   = ID[Promise]
	RejectionID = ID[Rejection]
	AuditID     = ID[AuditEntry]
	EventTypeID = ID[EventType]

	SubscriptionID = ID[Subscription]
	DeliveryID     = ID[Delivery]
	DestinationID  = ID[Destination]
)

// NewID makes an id whose time is at. Ids made within one millisecond have no
// order among themselves. They are unique, not secret. Safe for concurrent use.
func NewID[K any](at time.Time) ID[K] {
	var id ID[K]
	binary.BigEndian.PutUint64(id[:8], uint64(at.UnixMilli())<<16|rand.Uint64()&0x0fff|0x7000) //nolint:gosec // unique, not secret
	binary.BigEndian.PutUint64(id[8:], rand.Uint64()&^(3<<62)|2<<62)                           //nolint:gosec // unique, not secret
	return id
}

// NewTraceID makes the id of a trace: 16 bytes, not all of them 0, in hexadecimal
// (W3C Trace Context, section 3.2.2.3). It is unique, not secret.
func NewTraceID() string {
	var id [16]byte
	binary.BigEndian.PutUint64(id[:8], rand.Uint64()|1) //nolint:gosec // unique, not secret
	binary.BigEndian.PutUint64(id[8:], rand.Uint64())   //nolint:gosec // unique, not secret
	return hex.EncodeToString(id[:])
}

// FirstID is the smallest id of the millisecond of at: a bound for partitions
// and for lists by time. It is no valid UUIDv7 and identifies nothing.
func FirstID[K any](at time.Time) ID[K] {
	var id ID[K]
	binary.BigEndian.PutUint64(id[:8], uint64(at.UnixMilli())<<16)
	return id
}

// ParseID reads the canonical form with hyphens, in either case, of any UUID
// version. The error is of KindMalformed.
func ParseID[K any](s string) (ID[K], error) {
	var id ID[K]
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return id, malformedID(s)
	}
	compact := s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:]
	if _, err := hex.Decode(id[:], []byte(compact)); err != nil {
		return ID[K]{}, malformedID(s)
	}
	return id, nil
}

func malformedID(s string) error {
	const most = 64
	if len(s) > most {
		s = s[:most] + "…"
	}
	return &Error{Kind: KindMalformed, Message: fmt.Sprintf("%q is not a UUID", s)}
}

// IsZero reports whether the id was never set.
func (id ID[K]) IsZero() bool { return id == ID[K]{} }

// Time is the moment the id was made, to the millisecond.
func (id ID[K]) Time() time.Time {
	return time.UnixMilli(int64(binary.BigEndian.Uint64(id[:8]) >> 16)).UTC()
}

// String is the canonical lower-case form.
func (id ID[K]) String() string { return string(id.AppendText(make([]byte, 0, 36))) }

// AppendText appends the canonical form without allocating.
func (id ID[K]) AppendText(b []byte) []byte {
	b = hex.AppendEncode(b, id[:4])
	b = hex.AppendEncode(append(b, '-'), id[4:6])
	b = hex.AppendEncode(append(b, '-'), id[6:8])
	b = hex.AppendEncode(append(b, '-'), id[8:10])
	return hex.AppendEncode(append(b, '-'), id[10:])
}

// MarshalText implements encoding.TextMarshaler.
func (id ID[K]) MarshalText() ([]byte, error) { return id.AppendText(nil), nil }

// UnmarshalText implements encoding.TextUnmarshaler, with ParseID's errors.
func (id *ID[K]) UnmarshalText(b []byte) (err error) {
	*id, err = ParseID[K](string(b))
	return err
}
