package eventhook

import "time"

// QueueState describes the work in a queue of the database.
type QueueState struct {
	Age    time.Duration // of the oldest work that should be done now; 0 if there is none
	Depth  int           // work that should be done now, at most MaxQueueDepth
	Parked map[ParkReason]int
}

// MaxQueueDepth is the number up to which work is counted for metrics.
const MaxQueueDepth = 100_000

// ParkReason is the reason for which work waits for something outside the gateway.
type ParkReason string

// The reasons.
const (
	ParkedBreaker   ParkReason = "breaker"   // the receiver fails
	ParkedLimit     ParkReason = "limit"     // the receiver is slower than its events: its slots, rate or recovery are used up
	ParkedPaused    ParkReason = "paused"    // a user paused the subscription or disabled the route
	ParkedHeld      ParkReason = "held"      // the subscription is disabled
	ParkedAgent     ParkReason = "agent"     // an agent of the tenant sends it
	ParkedSuspended ParkReason = "suspended" // the workflow awaits a promise
)

// BlockedDestinations are the destinations to which an instance cannot send more, because of
// the destinations themselves.
type BlockedDestinations struct {
	Open    []DestinationID // their circuit breaker is open
	Limited []DestinationID // their slots, rate or recovery are used up
}

// SubscriptionCounts counts the states of subscriptions in the database.
type SubscriptionCounts struct {
	Failing    int // subscriptions whose outage has not ended
	Recovering int // running recoveries
	Replaying  int // running replays of users
}

// DatabaseSizes describes the tables of the database.
type DatabaseSizes struct {
	Bytes       int64
	Partitions  map[string]int  // by table, without the default partition
	HasNextDays map[string]bool // by table: whether the partition of the next day (UTC) exists
}

// PoolStats describes a pool of connections.
type PoolStats struct {
	Idle, Used, Max int
	Waited          time.Duration // total time for which callers waited for a connection
}
