package eventhook

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// ReplayKind says what a replay is for.
type ReplayKind string

// The kinds of replays.
const (
	ReplayRequested ReplayKind = "replay"   // a caller asked for it
	ReplayRecovery  ReplayKind = "recovery" // the gateway created it when an outage ended
)

// ReplayStatus is the state of a replay.
type ReplayStatus string

// The states of a replay.
const (
	ReplayRunning   ReplayStatus = "running"
	ReplayCompleted ReplayStatus = "completed" // all queued deliveries have ended
	ReplayCancelled ReplayStatus = "cancelled" // queues no more deliveries; the queued ones are still sent
)

// Replay queues deliveries of stored events to a subscription again, in the background,
// oldest event first.
type Replay struct {
	ID             ReplayID
	TenantID       TenantID
	SubscriptionID SubscriptionID
	Kind           ReplayKind
	Status         ReplayStatus
	ReplayRequest
	// Estimated is the number of matching events when the replay was created, without
	// the subscription's filter, at most MaxReplayEstimate.
	Estimated int64
	Matched   int64 // events that matched so far
	Queued    int64 // deliveries that were queued so far
	// Sent and Failed count the queued deliveries that have ended. They may lag behind
	// while the replay is running.
	Sent, Failed int64
	CreatedAt    time.Time
	FinishedAt   *time.Time
}

// ReplayRequest selects the events of a replay.
type ReplayRequest struct {
	Since      time.Time        // of the event; inclusive
	Until      time.Time        // exclusive; zero means the time at which the replay is created
	Statuses   []DeliveryStatus // of deliveries that are sent again; DeliveryDead by default
	EventTypes []string         // patterns; empty means all types of the subscription
	Missing    bool             // also events that have no delivery to the subscription
	Limit      int              // maximum number of deliveries; 0 means no limit
}

// ReplayFilter narrows a list of replays of a subscription.
type ReplayFilter struct {
	SubscriptionID SubscriptionID
	Status         ReplayStatus // "" matches every status
	// CreatedAfter excludes replays that were created until then, and recoveries of outages that had
	// begun by then.
	CreatedAfter time.Time
	Before       ReplayID
	Limit        int
}

// Includes reports whether CreatedAfter does not exclude a replay.
func (f ReplayFilter) Includes(r Replay) bool {
	return r.CreatedAt.After(f.CreatedAfter) && (r.Kind != ReplayRecovery || r.Since.After(f.CreatedAfter))
}

// Limits of replays.
const (
	MaxReplayEstimate = 10_000
	MaxRunningReplays = 10 // of a subscription
)

// ReplayStatuses lists the states of deliveries that a replay may send again.
var ReplayStatuses = []DeliveryStatus{DeliveryDead, DeliveryFailed, DeliverySuccess}

// Validate returns all faults of the request, located in a JSON body.
func (r ReplayRequest) Validate(now time.Time) (f Faults) {
	switch {
	case r.Since.IsZero():
		f.Add("since", "is required")
	case r.Since.After(now):
		f.Add("since", "must not be in the future")
	case r.Since.Before(time.Unix(0, 0)):
		f.Add("since", "must not be before 1970")
	case !r.Until.IsZero() && !r.Until.After(r.Since):
		f.Add("until", "must be later than since")
	}
	for i, s := range r.Statuses {
		if !slices.Contains(ReplayStatuses, s) {
			f.Add(fmt.Sprintf("status[%d]", i), "must be dead, failed or success")
		}
	}
	if r.Limit < 0 {
		f.Add("limit", "must not be negative")
	}
	checkLength(&f, "event_types", r.EventTypes, maxEventTypes)
	for i, p := range r.EventTypes {
		if wrong := CheckSubscribed(p); wrong != "" {
			f.Add(fmt.Sprintf("event_types[%d]", i), "%s", wrong)
		}
	}
	return f
}

// Normalized returns the request with sorted lists without repetitions, and with the
// default status.
func (r ReplayRequest) Normalized() ReplayRequest {
	r.Statuses, r.EventTypes = sortedSet(r.Statuses), sortedSet(r.EventTypes)
	if len(r.Statuses) == 0 {
		r.Statuses = []DeliveryStatus{DeliveryDead}
	}
	return r
}

func sortedSet[T ~string](list []T) []T {
	list = slices.Clone(list)
	slices.Sort(list)
	return slices.Compact(list)
}

// Hash identifies a request: two requests with the same hash select the same events.
func (r ReplayRequest) Hash() [sha256.Size]byte {
	r = r.Normalized()
	r.Since, r.Until = r.Since.UTC(), r.Until.UTC()
	raw, _ := json.Marshal(r) // the struct has no member that can fail
	return sha256.Sum256(raw)
}
