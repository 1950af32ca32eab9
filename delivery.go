package eventhook

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"slices"
	"time"
)

// DeliveryStatus is the life of a delivery; see docs/states.md.
type DeliveryStatus string

// The states of a delivery.
const (
	DeliveryPending  DeliveryStatus = "pending"
	DeliveryAcquired DeliveryStatus = "acquired" // leased by an instance or an agent
	DeliverySuccess  DeliveryStatus = "success"
	DeliveryFailed   DeliveryStatus = "failed" // a retry is scheduled
	DeliveryDead     DeliveryStatus = "dead"
)

// DeliveryStatuses are all states of a delivery.
var DeliveryStatuses = []DeliveryStatus{DeliveryPending, DeliveryAcquired, DeliverySuccess, DeliveryFailed, DeliveryDead}

// Delivery is the obligation to bring one event to one destination: a subscription
// or a target of a route. There is at most one for each event and destination.
type Delivery struct {
	ID             DeliveryID
	TenantID       TenantID
	DestinationID  DestinationID
	SubscriptionID SubscriptionID // zero of a route's target
	RouteID        RouteID        // zero of a subscription
	TargetIndex    int            // of a route's target, from 0
	EventID        EventID
	EventType      string
	Status         DeliveryStatus
	Attempts       int // made in all
	RetryCount     int // failed since it was begun, or begun anew by a person
	NextAttemptAt  *time.Time
	StatusCode     int    // of the last attempt; 0 without an answer
	LastError      string // of the last attempt, for people
	CompletedAt    *time.Time
	RestartedAt    *time.Time // when a person last had it begun anew
	Lease          Lease      // the holder's
	// Event is what is to be delivered, for the holder of the lease: as it was
	// published or received, with its payload. Without a Body its data is past its
	// retention.
	Event *Event
	// Body is what the transform of a route made of the event, for the holder of the
	// lease. If it is nil, each attempt composes the body of the event.
	Body []byte
}

// IsOfRoute reports whether the delivery goes to a target of a route.
func (d *Delivery) IsOfRoute() bool { return !d.RouteID.IsZero() }

// Destination is where the delivery goes.
func (d *Delivery) Destination() Destination {
	return Destination{TenantID: d.TenantID, SubscriptionID: d.SubscriptionID, RouteID: d.RouteID, TargetIndex: d.TargetIndex}
}

// DeliveryIDOf is the id of an event's delivery to a destination. It is always the
// same, so that an event which is stored again, because nobody knows whether it was,
// gets no second delivery. It has the time of the event and the 12 bits after it, so
// that all deliveries of an event lie side by side, in the partition of its day:
// DeliveryIDs are its bounds.
func DeliveryIDOf(of EventID, to DestinationID) (id DeliveryID) {
	sum := sha256.Sum256(slices.Concat(of[:], to[:]))
	copy(id[:8], of[:8])
	binary.BigEndian.PutUint64(id[8:], binary.BigEndian.Uint64(sum[:8])&^(3<<62)|2<<62)
	return id
}

// DeliveryIDRange are the least and the greatest id that DeliveryIDOf makes for an
// event. A few of other events may lie between them.
func DeliveryIDRange(of EventID) (least, greatest DeliveryID) {
	copy(least[:8], of[:8])
	copy(greatest[:8], of[:8])
	binary.BigEndian.PutUint64(greatest[8:], 1<<64-1)
	return least, greatest
}

// Attempt is one try to deliver.
type Attempt struct {
	StartedAt  time.Time
	Duration   time.Duration
	StatusCode int        // 0 without an answer
	ErrorClass ErrorClass // "" of a success
	Error      string     // for people: no secret, no address that was resolved
	Excerpt    string     // the beginning of the answer's body, as text, at most MaxExcerpt bytes
	// RetryAfter is how long the other side wants to be left alone; 0: it did not say.
	RetryAfter time.Duration
}

// MaxExcerpt bounds what is kept of an answer's body, in bytes.
const MaxExcerpt = 1 << 10

// ErrorClass says what sort of failure an attempt was.
type ErrorClass string

// The classes of failures.
const (
	ErrorDNS     ErrorClass = "dns"
	ErrorConnect ErrorClass = "connect"
	ErrorTLS     ErrorClass = "tls"
	ErrorTimeout ErrorClass = "timeout"
	ErrorHTTP4xx ErrorClass = "http_4xx"
	ErrorHTTP5xx ErrorClass = "http_5xx"
	ErrorHTTP    ErrorClass = "http"    // any other answer that is no success: 1xx, 3xx
	ErrorBlocked ErrorClass = "blocked" // the address is not allowed
	ErrorClosed  ErrorClass = "closed"  // the connection, before a whole answer
)

// Succeeded reports whether the attempt delivered: an answer of 2xx.
func (a Attempt) Succeeded() bool { return a.ErrorClass == "" }

// DeliveryFilter narrows a list of deliveries; empty fields do not.
type DeliveryFilter struct {
	SubscriptionID SubscriptionID
	RouteID        RouteID
	EventID        EventID
	Status         DeliveryStatus
	CreatedAfter   time.Time // of the event
	CreatedBefore  time.Time
	Before         DeliveryID
	Limit          int
}

// DeliverySelection says which deliveries are begun anew: with IDs those, else
// the newest Limit of those that the rest lets through.
type DeliverySelection struct {
	IDs            []DeliveryID
	SubscriptionID SubscriptionID
	RouteID        RouteID
	EventID        EventID
	Statuses       []DeliveryStatus // DeliverySuccess sends again what was delivered
	Since          time.Time        // of the event, inclusive
	Until          time.Time        // exclusive
	Limit          int
}

// SubscriptionStats are what a subscription has done lately.
type SubscriptionStats struct {
	DeliveredLastHour, DeliveredLast24h int64
	FailedLastHour, FailedLast24h       int64 // attempts
	DeadLastHour, DeadLast24h           int64
	// MeanDuration is of the attempts of the last 24 hours.
	MeanDuration time.Duration
	// Waiting counts what is owed, up to MostWaiting; OldestAt is since when the
	// first of it is due, or will be.
	Waiting   int
	OldestAt  *time.Time
	DeadInRow int
}

// MaxWaitingCount bounds the count of what waits for a subscriber.
const MaxWaitingCount = 10_000

// ErrStalePlan says that an event was planned by a configuration of its tenant that
// has changed since: nothing was written, plan the event again.
var ErrStalePlan = &Error{Kind: KindStale, Message: "the tenant's configuration has changed"}

// Envelope is what an event tells subscribers beside its data and what every
// event has. Nil and "" are left out.
type Envelope struct {
	Category string          `json:"category,omitempty"`
	Source   string          `json:"source,omitempty"` // the slug of the source whose event a route has published, or the source of a CloudEvent
	Scope    json.RawMessage `json:"scope,omitempty"`
	Actor    json.RawMessage `json:"actor,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
	// TraceFlags are those of the traceparent that came with the event, as two
	// hexadecimal digits; "" without one.
	TraceFlags string `json:"trace_flags,omitempty"`
}
