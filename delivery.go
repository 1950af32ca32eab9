package eventhook

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"slices"
	"time"
)

// DeliveryStatus is the state of a delivery; see docs/states.md.
type DeliveryStatus string

// The states of a delivery.
const (
	DeliveryPending  DeliveryStatus = "pending"
	DeliveryAcquired DeliveryStatus = "acquired" // leased by an instance or an agent
	DeliverySuccess  DeliveryStatus = "success"
	DeliveryFailed   DeliveryStatus = "failed" // a retry is scheduled
	DeliveryDead     DeliveryStatus = "dead"
)

// DeliveryStatuses lists all states of a delivery.
var DeliveryStatuses = []DeliveryStatus{DeliveryPending, DeliveryAcquired, DeliverySuccess, DeliveryFailed, DeliveryDead}

// Delivery is the obligation to send one event to one destination: a subscription or
// a target of a route. An event has at most one delivery for each destination.
type Delivery struct {
	ID             DeliveryID
	TenantID       TenantID
	DestinationID  DestinationID
	SubscriptionID SubscriptionID // zero if the destination is a target of a route
	RouteID        RouteID        // zero if the destination is a subscription
	TargetIndex    int            // index of the target in its route, from 0
	EventID        EventID
	EventType      string
	Status         DeliveryStatus
	Attempts       int // total number of attempts
	RetryCount     int // failed attempts since the delivery was created or restarted
	NextAttemptAt  *time.Time
	StatusCode     int    // of the last attempt; 0 without a response
	LastError      string // of the last attempt, readable by users
	CompletedAt    *time.Time
	IsReleased     bool       // a recovery or a replay released it; set for the holder of the lease
	RestartedAt    *time.Time // when a user last restarted it
	AcquiredBy     HolderID   // set in lists while the delivery is acquired; zero if an instance of an earlier version holds it
	AcquiredUntil  *time.Time // the end of the lease; set in lists while the delivery is acquired
	Lease          Lease      // set for the holder of the lease
	DueSince       time.Time  // since when the holder of the lease could have sent it; zero: unknown, as during an outage
	OrderKey       OrderKey   // zero: the delivery is not ordered
	// Event is the event to send, with its payload. It is set only for the holder of
	// the lease. If its Body is nil, retention has removed the event's data.
	Event *Event
	// Body is the body that the route's transform produced, set only for the holder
	// of the lease. If it is nil, each attempt composes the body from the event.
	Body []byte
}

// Holder is an instance of the gateway or an agent that has leased a delivery. Its id is that of the
// Instance or the Agent.
type Holder struct{}

// Instance is one run of the gateway.
type Instance struct{}

// Trace returns the W3C trace id of the delivery's event, or "" if the event was not read with
// the delivery.
func (d *Delivery) Trace() string {
	if d.Event == nil {
		return ""
	}
	return d.Event.Trace()
}

// IsOfRoute reports whether the destination is a target of a route.
func (d *Delivery) IsOfRoute() bool { return !d.RouteID.IsZero() }

// Destination returns the destination of the delivery.
func (d *Delivery) Destination() Destination {
	return Destination{TenantID: d.TenantID, SubscriptionID: d.SubscriptionID, RouteID: d.RouteID, TargetIndex: d.TargetIndex}
}

// OrderKey identifies a value of the event at the path SubscriptionSettings.OrderedBy. A
// subscription gets deliveries with the same key one after another. The zero key stands for a
// missing value: deliveries without a value are not ordered.
type OrderKey [16]byte

// OrderKeyOf returns the key of a value: the first 16 bytes of its SHA-256.
func OrderKeyOf(value string) (k OrderKey) {
	sum := sha256.Sum256([]byte(value))
	copy(k[:], sum[:])
	return k
}

// IsZero reports whether a delivery with the key is not ordered.
func (k OrderKey) IsZero() bool { return k == OrderKey{} }

// DeliveryIDOf derives the id of an event's delivery to a destination. The id is
// deterministic, so that an event that is stored twice, because the result of the first
// commit was unknown, still gets one delivery. It starts with the time of the event and the next 12 bits of
// the event's id, so that all deliveries of an event are adjacent and in the
// partition of the event's day; DeliveryIDRange returns the bounds.
func DeliveryIDOf(of EventID, to DestinationID) (id DeliveryID) {
	sum := sha256.Sum256(slices.Concat(of[:], to[:]))
	copy(id[:8], of[:8])
	binary.BigEndian.PutUint64(id[8:], binary.BigEndian.Uint64(sum[:8])&^(3<<62)|2<<62)
	return id
}

// DeliveryIDRange returns the smallest and the largest id that DeliveryIDOf can
// return for an event. Deliveries of a few other events may lie between them.
func DeliveryIDRange(of EventID) (least, greatest DeliveryID) {
	copy(least[:8], of[:8])
	copy(greatest[:8], of[:8])
	binary.BigEndian.PutUint64(greatest[8:], 1<<64-1)
	return least, greatest
}

// Attempt is one try to deliver an event.
type Attempt struct {
	StartedAt  time.Time
	Duration   time.Duration
	StatusCode int        // 0 without a response
	ErrorClass ErrorClass // "" for a success
	Error      string     // readable by users; contains no secret and no resolved address
	Excerpt    string     // the beginning of the response body as text, at most MaxExcerpt bytes
	// RetryAfter is the delay that the receiver asked for with a Retry-After header,
	// 0 without one.
	RetryAfter time.Duration
}

// Values of StatusCode of attempts at an engine of workflows, which answers without HTTP.
const (
	// StatusExisted is that of a success that changed nothing, since the engine had a workflow with the
	// id. The action of such a delivery is skipped.
	StatusExisted = 208
	// StatusNoWorkflow is that of a signal to a workflow that does not exist or has ended.
	StatusNoWorkflow = 404
)

// MaxExcerpt is the maximum length of the stored part of a response body, in bytes.
const MaxExcerpt = 1 << 10

// ErrorClass classifies a failed attempt.
type ErrorClass string

// The classes of failures.
const (
	ErrorDNS     ErrorClass = "dns"
	ErrorConnect ErrorClass = "connect"
	ErrorTLS     ErrorClass = "tls"
	ErrorTimeout ErrorClass = "timeout"
	ErrorHTTP4xx ErrorClass = "http_4xx"
	ErrorHTTP5xx ErrorClass = "http_5xx"
	ErrorHTTP    ErrorClass = "http"    // any other status that is not 2xx
	ErrorBlocked ErrorClass = "blocked" // the address policy does not allow the address
	ErrorClosed  ErrorClass = "closed"  // the connection was closed before the response was complete
	// ErrorRefused means that a broker does not take the message, for example because its topic does
	// not exist.
	ErrorRefused ErrorClass = "refused"
	// ErrorAuth means that a broker does not accept the credentials, or that they do not suffice.
	ErrorAuth ErrorClass = "auth"
	// ErrorTransform means that the transform of the subscription failed, so that nothing
	// was sent. It would fail again, so the delivery is dead.
	ErrorTransform ErrorClass = "transform"
	// ErrorBusy means that the transform of the subscription was not run, because the
	// tenant's share of time is used up, or that the gateway has as many connections to
	// brokers as it may have. Such an attempt does not count.
	ErrorBusy ErrorClass = "busy"
)

// Succeeded reports whether the receiver answered with a 2xx status.
func (a Attempt) Succeeded() bool { return a.ErrorClass == "" }

// DeliveryFilter narrows a list of deliveries. An empty field matches every
// delivery.
type DeliveryFilter struct {
	SubscriptionID SubscriptionID
	RouteID        RouteID
	EventID        EventID
	Status         DeliveryStatus
	EventType      string    // a type, or a pattern: see TypePrefix
	Scope          string    // of a customer: the scope of the event is this one or lies below it; see InScope
	CreatedAfter   time.Time // compared with the creation time of the event
	CreatedBefore  time.Time
	Before         DeliveryID
	Limit          int
}

// DeliveryScan is a page of a list of deliveries that were examined one by one.
type DeliveryScan struct {
	Deliveries []Delivery
	Next       DeliveryID // the list continues before this id; zero at the end
}

// DeliverySelection selects deliveries to restart. If IDs is not empty, it selects
// these deliveries; otherwise the newest Limit deliveries that match all other
// fields.
type DeliverySelection struct {
	IDs            []DeliveryID
	SubscriptionID SubscriptionID
	RouteID        RouteID
	EventID        EventID
	Group          string           // the Key of a DeadGroup, which excludes other destinations and states; "" for none
	Statuses       []DeliveryStatus // includes DeliverySuccess to send delivered events again
	Since          time.Time        // refers to the event; inclusive
	Until          time.Time        // exclusive
	Limit          int
	// ExpectedCount is the number of deliveries that must match, without the Limit; nil
	// means any number. It does not apply to IDs.
	ExpectedCount *int
}

// MaxExpectedCount is the maximum ExpectedCount of a selection.
const MaxExpectedCount = 100_000

// SubscriptionStats counts recent deliveries of a subscription.
type SubscriptionStats struct {
	DeliveredLastHour, DeliveredLast24h int64
	FailedLastHour, FailedLast24h       int64 // counts attempts
	DeadLastHour, DeadLast24h           int64
	// MeanDuration is the mean duration of the attempts of the last 24 hours.
	MeanDuration time.Duration
	// Waiting is the number of open deliveries, at most MaxWaitingCount. OldestAt is
	// their earliest due time, which may be in the past.
	Waiting   int
	OldestAt  *time.Time
	DeadInRow int
}

// MaxWaitingCount is the highest value of SubscriptionStats.Waiting.
const MaxWaitingCount = 10_000

// ErrStalePlan means that the tenant's configuration changed after an event was
// planned. Nothing was written; the caller must plan the event again.
var ErrStalePlan = &Error{Kind: KindStale, Message: "the tenant's configuration has changed"}

// Envelope holds the optional members of the document that subscribers receive,
// besides the data and the members that every event has. Members that are nil or ""
// are left out.
type Envelope struct {
	Category string          `json:"category,omitempty"`
	Source   string          `json:"source,omitempty"` // slug of the source for an event that a route published, or the source of a CloudEvent
	Scope    json.RawMessage `json:"scope,omitempty"`
	Actor    json.RawMessage `json:"actor,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
	// TraceFlags holds the flags of the traceparent header that came with the event,
	// as two hexadecimal digits; "" without one.
	TraceFlags string `json:"trace_flags,omitempty"`
	// ParentSpan is the id of the span that led to a system event, 16 hexadecimal digits; "" if
	// no span did. All other events have a span of their own; see Event.Span.
	ParentSpan string `json:"parent_span,omitempty"`
	// TenantID is the tenant that an event of the operator tenant is about: a lifecycle event
	// to which only the operator subscribes. It is nil for all other events.
	TenantID *TenantID `json:"tenant_id,omitempty"`
	// Hops is the number of gateways that the cause of the event went through; see
	// HopsHeader.
	Hops int `json:"hops,omitempty"`
}

// About returns the tenant that an event is about, whose id its receivers get: the tenant of
// the event, except for events that only the operator sees; see Envelope.TenantID.
func (e *Event) About() TenantID {
	if e.Envelope != nil && e.Envelope.TenantID != nil {
		return *e.Envelope.TenantID
	}
	return e.TenantID
}
