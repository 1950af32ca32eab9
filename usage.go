package eventhook

import "time"

// SourceStats counts the recent events of a source. The periods start at a multiple
// of SourceCountSpan, so that they can be up to one span longer; the newest seconds
// may be missing.
type SourceStats struct {
	EventsLastHour int64 // stored events, including duplicates
	EventsLast24h  int64
	FailedLast24h  int64 // events whose first attempt failed, whatever their state now
}

// TenantUsage is the part of its quota that a tenant has used; the newest second may
// be missing.
type TenantUsage struct {
	EventsToday  int64 // stored since midnight UTC, including duplicates
	StorageBytes int64 // stored bodies and headers
}

// TenantCount counts the events that a tenant stored on one day.
type TenantCount struct {
	TenantID TenantID
	Day      time.Time // midnight UTC
	Events   int64     // including duplicates
	Bytes    int64     // of bodies and headers
}

// SourceCount counts the events that a source received within one span.
type SourceCount struct {
	SourceID SourceID
	At       time.Time // start of the span, a multiple of SourceCountSpan
	Events   int64     // stored events, including duplicates
	Failed   int64     // events whose first attempt failed within the span
}

// SourceCountSpan is the length of the span of a SourceCount or SubscriptionCount.
const SourceCountSpan = 5 * time.Minute

// SubscriptionCount counts the deliveries to a subscription within one span.
type SubscriptionCount struct {
	SubscriptionID SubscriptionID
	At             time.Time     // start of the span, a multiple of SourceCountSpan
	Delivered      int64         // deliveries that succeeded
	Failed         int64         // failed attempts
	Dead           int64         // deliveries that became dead
	Duration       time.Duration // total duration of all attempts, to the millisecond
}
