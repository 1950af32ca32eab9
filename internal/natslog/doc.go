// Package natslog is the log of webhooks in front of the database, on NATS JetStream. Each accepted
// webhook is a message of a stream, acknowledged by a quorum of its servers; every instance takes
// messages from the stream and stores them in the database in batches.
//
//	sender ─▶ Append ─▶ stream (work queue, bounded, replicated) ─▶ Run ─▶ Sink: one commit per batch
//	                                                                 │ acknowledged after the commit
//	                                                                 └ refused by the database 5 times, or unreadable ─▶ dead messages
//
// A message is delivered at least once. The database decides what is new: an event whose id is stored
// is a success and is acknowledged, and a webhook whose idempotency key is taken is stored as a
// duplicate. If an instance dies with messages, the servers deliver them to another instance after
// Options.AckWait. While the database cannot store events, instances take no messages, and the stream grows
// to its bound; at the bound Append returns ingest.ErrLogFull. No message expires.
//
// A bucket of the key-value store has the sources, with sealed secrets, as far as ingest needs them.
// It is a projection of the database: one instance, the one with this log's lock of the database, writes each
// change into it. Sources reads the database, and the bucket while the database cannot be reached.
// Instances can so start, verify and accept without the database.
package natslog
