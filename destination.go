package eventhook

import (
	"crypto/sha256"
	"encoding/binary"
)

// Destination is where deliveries go: a subscription, or a target of a route.
type Destination struct {
	TenantID       TenantID
	SubscriptionID SubscriptionID // zero of a route's target
	RouteID        RouteID        // zero of a subscription
	TargetIndex    int            // of a route's target, from 0
}

// ID returns the id of the destination. A subscription's is its own id. A route
// target's is derived from the route and the index, always the same, and marked as
// a UUID of version 8 (RFC 9562, section 5.8).
func (d Destination) ID() DestinationID {
	if !d.SubscriptionID.IsZero() {
		return DestinationID(d.SubscriptionID)
	}
	var of [len(d.RouteID) + 8]byte
	copy(of[:], d.RouteID[:])
	binary.BigEndian.PutUint64(of[len(d.RouteID):], uint64(d.TargetIndex))
	sum := sha256.Sum256(of[:])
	id := DestinationID(sum[:len(DestinationID{})])
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return id
}
