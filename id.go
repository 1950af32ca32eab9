package eventhook

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"time"
)

// ID is a UUIDv7 (RFC 9562, section 5.7) that identifies a K. Its first 48 bits are
// the Unix time in milliseconds, so that ids sort by age and determine the time
// partition of their row. The type parameter prevents mixing ids of different nouns
// at compile time.
type ID[K any] [16]byte

// The ids of the nouns.
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
	AgentID     = ID[Agent]

	SubscriptionID = ID[Subscription]
	DeliveryID     = ID[Delivery]
	ReplayID       = ID[Replay]
	DestinationID  = ID[Destination]

	PortalLinkID = ID[PortalLink]

	InstanceID = ID[Instance]
	HolderID   = ID[Holder]
)

// NewID returns a new id with the time at. Ids of one millisecond have no order. Ids
// are unique but not secret. NewID is safe for concurrent use.
func NewID[K any](at time.Time) ID[K] {
	var id ID[K]
	binary.BigEndian.PutUint64(id[:8], uint64(at.UnixMilli())<<16|rand.Uint64()&0x0fff|0x7000) //nolint:gosec // unique, not secret
	binary.BigEndian.PutUint64(id[8:], rand.Uint64()&^(3<<62)|2<<62)                           //nolint:gosec // unique, not secret
	return id
}

// FirstID returns the smallest id of the millisecond of at, as a bound for
// partitions and lists. It is not a valid UUIDv7 and identifies nothing.
func FirstID[K any](at time.Time) ID[K] {
	var id ID[K]
	binary.BigEndian.PutUint64(id[:8], uint64(at.UnixMilli())<<16)
	return id
}

// ParseID parses the canonical form with hyphens, in upper or lower case, of a UUID
// of any version. Its error is of KindMalformed.
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
	const maxQuoted = 64
	if len(s) > maxQuoted {
		s = s[:maxQuoted] + "…"
	}
	return &Error{Kind: KindMalformed, Message: fmt.Sprintf("%q is not a UUID", s)}
}

// IsZero reports whether the id is unset.
func (id ID[K]) IsZero() bool { return id == ID[K]{} }

// Time returns the creation time of the id, in UTC and to the millisecond.
func (id ID[K]) Time() time.Time {
	return time.UnixMilli(int64(binary.BigEndian.Uint64(id[:8]) >> 16)).UTC()
}

// String returns the canonical form in lower case.
func (id ID[K]) String() string { return string(id.AppendText(make([]byte, 0, 36))) }

// AppendText appends the canonical form to b. It allocates nothing if b has the
// capacity.
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
