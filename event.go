package eventhook

import (
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// EventStatus is the state of an event; see docs/states.md.
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

// EventStatuses lists all states of an event. Reprocessable lists the states from
// which an event can be reprocessed, and FinalEvents the states in which nothing more
// happens to an event. Tests compare the enums of the API and the SQL of the store with
// these lists.
var (
	EventStatuses = []EventStatus{EventPending, EventProcessing, EventDelivered, EventUnrouted, EventFailed, EventDead, EventDuplicate}
	Reprocessable = []EventStatus{EventFailed, EventDead, EventUnrouted}
	FinalEvents   = []EventStatus{EventDead, EventUnrouted, EventDelivered, EventDuplicate}
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

// Event is a webhook that a source received, or an event that a caller, a route or
// the gateway published. The time in its id is the time of receipt.
type Event struct {
	ID             EventID
	TenantID       TenantID
	SourceID       SourceID
	SourceSlug     string
	Origin         Origin
	Status         EventStatus
	EventType      string
	IdempotencyKey string // "" without one
	SignedHash     string // hash of the signed bytes of the request, set until the event is stored; "" if replay protection is off
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
	Lease          Lease     // set while the event is accepted or processed
	LostLeases     int       // consecutive earlier leases that expired without a settle
	Envelope       *Envelope // set for a published event; nil for an event of a source
	PayloadOf      EventID   // the event whose stored body this event shares; zero if it has its own

	// ReprocessedFrom is the event whose payload this event processes again; zero for
	// other events. The keys of the targets of its routes end with its id.
	ReprocessedFrom EventID
	// IsReprocessed says that a user had this event itself processed again. It is set only for
	// the holder of the lease.
	IsReprocessed bool
	Payload
}

// PayloadID returns the id under which the payload of the event is stored.
func (e *Event) PayloadID() EventID {
	if e.PayloadOf.IsZero() {
		return e.ID
	}
	return e.PayloadOf
}

// Payload holds the request of an event: its headers as an HTTP/1.1 header block
// with redacted credentials, and its exact body. It is immutable.
type Payload struct {
	Headers []byte
	Body    []byte
}

// Lease is the right to work on a row until a moment. A settle must present the
// token; with a token that is not current it writes nothing.
type Lease struct {
	Token int64
	Until time.Time
}

// ActionStatus is the state of an action; see docs/states.md.
type ActionStatus string

// The states of an action.
const (
	ActionPending ActionStatus = "pending"
	ActionSuccess ActionStatus = "success"
	ActionFailed  ActionStatus = "failed"
	ActionSkipped ActionStatus = "skipped"
)

// Action is the effect of one target of one route on one event. There is at most one
// action for each event, route and target, however often the event is retried.
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
	IsRequest        bool // the delivery of the target holds the status
	ErrorMessage     string
	StartedAt        time.Time
	CompletedAt      *time.Time
}

// ActionIDOf derives the id of an event's action for a target of a route. The id is
// deterministic and starts with the time of the event.
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

// EventSelection selects events. If IDs is not empty, it selects these events;
// otherwise the newest events that match the statuses and the filter.
type EventSelection struct {
	IDs      []EventID
	Statuses []EventStatus
	Filter   EventFilter // Status and Before are ignored
	// ExpectedCount is the number of events that must be selected, without the Limit; nil means
	// any number. It counts up to MaxExpectedEvents+1 events of each status.
	ExpectedCount *int
}

// MaxExpectedEvents is the maximum ExpectedCount of a selection.
const MaxExpectedEvents = 10_000

// EventCopies is the result of processing the payloads of events again, as new events.
type EventCopies struct {
	IDs     []EventID      // the new events, in the order of their originals
	Skipped []SkippedEvent // events without a new event
}

// RepeatableEvent is an event that can be processed again.
type RepeatableEvent struct {
	ID    EventID
	Bytes int // of its payload, of which a new event gets a copy
}

// SkippedEvent is an event that was not processed again, and why.
type SkippedEvent struct {
	ID     EventID
	Reason string // readable by users
}

// EventUpdates holds the events that changed since the previous update.
type EventUpdates struct {
	Events []Event // their current state, in order of receipt
	Missed bool    // more events changed than one update can hold
}
