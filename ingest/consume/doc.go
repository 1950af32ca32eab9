// Package consume runs the consumers of the sources that consume messages of brokers.
//
// One instance consumes a source at a time: the holder of its lease. Each instance with room claims its share of the
// sources, renews its leases every two seconds, and releases leases beyond its share. If an instance ends without a
// release, its leases expire, and other instances claim the sources.
//
//	claimed    the consumer connects to the broker
//	running    receive messages, store their events or rejections, settle the messages, and so on
//	waiting    the rate limit, a quota or the database allows no message now
//	failed     the broker cannot be used; the next attempt follows after a pause of up to a minute
//	released   the source was disabled or deleted, another instance has room, or this instance stops
//
// A message is settled only after its event or its rejection is on disk. A lease is no lock: if an instance loses its
// lease without noticing, two instances consume a source for a short time. The idempotency keys of the events prevent
// that a message becomes two events. A consumer that waits for long gives its messages back to the broker, so that the
// broker does not take them for lost.
//
// If storing fails, the same events are stored again. If the settlement fails, the messages come again, and become
// duplicates. If the leases cannot be renewed, all consumers stop before the leases expire.
package consume
