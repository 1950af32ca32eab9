package eventhook

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"time"
)

// EventStatus is the life of an event; see docs/states.md.
type EventStatus string

// The states of an event.
const (
	EventPending    EventStatus = "pending"
	EventProcessing EventStatus = "processing"
	EventDelivered  EventStatus = "delivered"
	EventUnrouted   EventStatus = "unrouted"
	EventFailed     EventStatus = "failed"
	EventDead       EventStatus = "dead"
	EventDuplicate  EventStatus = "duplicate"
)

// EventStatuses are all states of an event, and Reprocessable those from which
// it can be processed anew. The API's enums and the store's SQL spell them out;
// tests hold those against these.
var (
	EventStatuses = []EventStatus{EventPending, EventProcessing, EventDelivered, EventUnrouted, EventFailed, EventDead, EventDuplicate}
	Reprocessable = []EventStatus{EventFailed, EventDead, EventUnrouted}
)

// Origin says where an event came from.
type Origin string

// The origins of events.
const (
	OriginSource Origin = "source"
	OriginAPI    Origin = "api"
	OriginRoute  Origin = "route"
	OriginSystem Origin = "system"
)

// Event is one webhook, or one event published by a tenant. It was received
// at the time in its id.
type Event struct {
	ID             EventID
	TenantID       TenantID
	SourceID       SourceID
	SourceSlug     string
	Origin         Origin
	Status         EventStatus
	EventType      string
	IdempotencyKey string // "" without one
	SignedHash     string // of what its request has signed, while it is being accepted; "" if that does not count
	DuplicateOf    EventID
	ContentType    string
	BodySize       int
	RetryCount     int
	NextRetryAt    *time.Time
	LastError      string
	SourceIP       string
	TraceID        string
	RequestID      string
	CorrelationID  string
	ProcessedAt    *time.Time
	Lease          Lease     // the holder's, while it is being accepted or processed
	LostLeases     int       // leases in a row, before this one, that ended without anything written under them
	Envelope       *Envelope // of an event that is published; nil of a source's
	PayloadOf      EventID   // the event whose body is this one's, too; zero: the event has its own
	Payload
}

// PayloadID is the id under which the event's payload is stored.
func (e *Event) PayloadID() EventID {
	if e.PayloadOf.IsZero() {
		return e.ID
	}
	return e.PayloadOf
}

// Trace is the W3C trace id of the event and of everything that it leads to: TraceID
// or, without a valid one, the 32 digits of the event's id.
func (e *Event) Trace() string {
	const digits = 32
	if len(e.TraceID) == digits && strings.Trim(e.TraceID, "0123456789abcdef") == "" && strings.Trim(e.TraceID, "0") != "" {
		return e.TraceID
	}
	return hex.EncodeToString(e.ID[:])
}

// Payload is what came over the wire: headers as an HTTP/1.1 header block
// whose credentials are redacted, and the exact body. It never changes.
type Payload struct {
	Headers []byte
	Body    []byte
}

// Lease is the right to work on a row until a moment. Whoever settles shows
// its token; a token that is not current changes nothing.
type Lease struct {
	Token int64
	Until time.Time
}

// ActionStatus is the life of an action; see docs/states.md.
type ActionStatus string

// The states of an action.
const (
	ActionPending ActionStatus = "pending"
	ActionSuccess ActionStatus = "success"
	ActionFailed  ActionStatus = "failed"
	ActionSkipped ActionStatus = "skipped"
)

// Action is what one route's one target did with one event. There is at most
// one for each event, route and target, however often the event is retried.
type Action struct {
	ID               ActionID
	EventID          EventID
	RouteID          RouteID
	RouteName        string
	TargetIndex      int
	TargetType       string
	Status           ActionStatus
	Attempts         int
	ExecutionID      ExecutionID
	PromiseID        PromiseID
	PublishedEventID EventID
	IsRequest        bool // its delivery tells how it stands
	ErrorMessage     string
	StartedAt        time.Time
	CompletedAt      *time.Time
}

// ActionIDOf is the id of an event's action for a target of a route. It is always
// the same, and begins with the time of the event.
func ActionIDOf(of EventID, route RouteID, target int) (id ActionID) {
	var from [len(of) + len(route) + 8]byte
	copy(from[:], of[:])
	copy(from[len(of):], route[:])
	binary.BigEndian.PutUint64(from[len(of)+len(route):], uint64(target))
	sum := sha256.Sum256(from[:])
	copy(id[:8], of[:8])
	binary.BigEndian.PutUint64(id[8:], binary.BigEndian.Uint64(sum[:8])&^(3<<62)|2<<62)
	return id
}

// EventFilter narrows a list of events; empty fields do not.
type EventFilter struct {
	Source         string // slug
	SourceID       SourceID
	Status         EventStatus
	EventType      string
	IdempotencyKey string
	ReceivedAfter  time.Time
	ReceivedBefore time.Time
	Before         EventID
	Limit          int
}

// EventSelection says which events are meant: those with the ids or, without
// ids, the newest of those that the filter and the states let through.
type EventSelection struct {
	IDs      []EventID
	Statuses []EventStatus
	Filter   EventFilter // its Status and Before are not looked at
}

// EventUpdates is what has happened to events since the last news of them.
type EventUpdates struct {
	Events []Event // as they are now, in the order of their receipt
	Missed bool    // something happened that is not told: it was too much
}
