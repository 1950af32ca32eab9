// Package consumers defines the sources that consume messages of a broker instead of receiving webhooks:
// the settings of each kind of broker, and what a client of a broker must do.
//
// A client delivers messages in the order of their place, and keeps each until it is settled: after
// its event is on disk, or after its refusal is recorded. A message that was not settled, because the
// instance ended or the broker was lost, is delivered again. Its position is the idempotency key of its
// event unless the source finds another one, so that it becomes a duplicate and no second event.
//
// To add a kind of broker, add a file with its Settings and a line in kinds, and a client in package
// outbound/brokers. Package ingest/consume runs the clients. Package consumers performs no I/O.
package consumers
