package eventhook

import (
	"strings"
	"time"
)

// LookupType is the kind of a resource that a lookup finds.
type LookupType string

// The kinds of resources that a lookup finds.
const (
	LookupEvent        LookupType = "event"
	LookupDelivery     LookupType = "delivery"
	LookupExecution    LookupType = "execution"
	LookupPromise      LookupType = "promise"
	LookupSubscription LookupType = "subscription"
	LookupSource       LookupType = "source"
	LookupRoute        LookupType = "route"
	LookupReplay       LookupType = "replay"
	LookupAgent        LookupType = "agent"
	LookupEventType    LookupType = "event_type"
)

// LookupItem is a resource that a lookup found.
type LookupItem struct {
	Type           LookupType
	ID             string // the name of an event type
	Label          string // short text for a reader
	At             time.Time
	TenantID       TenantID
	SourceSlug     string         // of a route or a source
	SubscriptionID SubscriptionID // of a replay
}

// Lookup is the result of a lookup.
type Lookup struct {
	Items []LookupItem // resources with the exact id first
	// ScannedUntil is the time down to which events were searched for trace, request and
	// correlation ids, newest first; zero if all were searched, or none had to be.
	ScannedUntil time.Time
}

const (
	// MaxLookup is the maximum number of items of a lookup.
	MaxLookup = 20
	// MaxLookupText is the maximum length of the text of a lookup in bytes.
	MaxLookupText = 512
)

// LookupText returns a pasted text without surrounding white space, quotes and commas.
func LookupText(pasted string) string {
	return strings.TrimFunc(SanitizeText(pasted), func(r rune) bool {
		return r <= ' ' || strings.ContainsRune("\"'`“”‘’«»,;\u00a0\u200b\ufeff", r)
	})
}
