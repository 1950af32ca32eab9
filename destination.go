package eventhook

import (
	"crypto/sha256"
	"encoding/binary"
)

// Destination identifies where deliveries go: a subscription, or an http target of a
// route.
type Destination struct {
	TenantID       TenantID
	SubscriptionID SubscriptionID // zero for a target of a route
	RouteID        RouteID        // zero for a subscription
	TargetIndex    int            // index of the target in its route, from 0
}

// ID returns the id of the destination: the subscription's own id, or an id derived
// from the route and the target index. A derived id is deterministic and a UUID of
// version 8 (RFC 9562, section 5.8).
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
