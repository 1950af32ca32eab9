// Package brokers sends deliveries to message brokers, and consumes their messages for sources: NATS, Kafka, AMQP
// 0-9-1, streams of Redis, Amazon SQS and, for deliveries only, Google Cloud Pub/Sub.
//
// A broker is a transport of the dispatcher. Its client implements Connection; its files begin with its name.
//
// A message is a CloudEvent in binary mode: its attributes are the headers of the message, under the
// names of the broker's own binding where CloudEvents defines one. An attempt succeeds when the
// broker has acknowledged the message, and then tells where the message is. An attempt without an
// acknowledgement has failed, although the broker may have stored the message: it is sent again, with
// the same id. Consumers drop repetitions by that id.
//
// Targets with the same server and credentials, of one tenant, share a connection. Connections are
// opened at the first message, closed when they were idle for a while, and bounded in number: of the
// instance, and of each tenant. Every address is checked when it is dialled, also one that a broker
// advertises.
//
// The client that consumes from a broker is a receiver, in the file consume_ and its name. It implements
// consumers.Consumer with a connection of its own: a consumer waits in requests, and needs a bound on bytes that it did
// not ask for.
package brokers
