package eventhook

import "time"

// SourceStats is how much a source has received lately. The spans begin on
// full five minutes, so that they are at most that much longer than they say,
// and the newest seconds may be missing.
type SourceStats struct {
	EventsLastHour int64 // stored ones, duplicates included
	EventsLast24h  int64
	FailedLast24h  int64 // whose first try failed, whatever became of them since
}

// TenantUsage is what a tenant has used of its quota; the newest second may be
// missing.
type TenantUsage struct {
	EventsToday  int64 // stored since midnight, UTC; duplicates included
	StorageBytes int64 // bodies and headers that are kept
}

// TenantCount is how much a tenant has stored on a day.
type TenantCount struct {
	TenantID TenantID
	Day      time.Time // its midnight, UTC
	Events   int64     // duplicates included
	Bytes    int64     // of bodies and headers
}

// SourceCount is how much a source has received within five minutes.
type SourceCount struct {
	SourceID SourceID
	At       time.Time // the span's beginning, a multiple of SourceCountSpan
	Events   int64     // stored ones, duplicates included
	Failed   int64     // whose first try failed within the span
}

// SourceCountSpan is the time that one SourceCount is about.
const SourceCountSpan = 5 * time.Minute

// SubscriptionCount is what was sent to a subscriber within five minutes.
type SubscriptionCount struct {
	SubscriptionID SubscriptionID
	At             time.Time     // the span's beginning, a multiple of SourceCountSpan
	Delivered      int64         // deliveries that succeeded
	Failed         int64         // attempts that did not
	Dead           int64         // deliveries that were given up
	Duration       time.Duration // of all attempts together, to the millisecond
}
