// Package consumers defines the sources that consume messages of a broker instead of receiving webhooks:
// the settings of each kind of broker, and the interface that a client of a broker implements.
//
// A client delivers messages in the order of their place. A message is settled after its event is on disk, or
// after its refusal is recorded. A message that was not settled, because the instance ended or the broker was
// lost, is delivered again. The position of a message is the idempotency key of its event unless the source
// finds another one, so that a message that comes again becomes a duplicate and no second event.
//
// To add a kind of broker, add a file with its Settings and a line in kinds, and a client in package
// outbound/brokers. Package ingest/consume runs the clients. Package consumers performs no I/O.
package consumers
