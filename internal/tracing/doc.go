// Package tracing exports the spans of a gateway with OpenTelemetry. A trace is that of the
// sender's traceparent, or a new one, and has these spans:
//
//	POST /api/tenants/{tenant}/eventhook/in/{source}   server: the webhook, until it is answered
//	└─ store event                                     its commit, with a link to the batch
//	└─ plan event                                      its routes
//	   └─ create task, create workflow                 producer; a worker continues it
//	   └─ publish event                                producer
//	      └─ deliver to subscription                   client: one attempt; the receiver continues it
//	   └─ settle promise
//	└─ deliver to http target                          client: one attempt; the receiver continues it
//	└─ deliver to message target                       client: one attempt at a broker or Temporal
//
// A batch commits events of many traces, so the span commit events is in a trace of its own and
// has links to the spans store event. A request to the API that publishes events or starts work is
// a server span in place of the webhook.
//
// Instances name the spans of each other without asking: the span in which an event or an
// execution was created has an id that derives from the event's or the execution's, see
// eventhook.ID.SpanID. All instances come to the same decision about sampling, because it depends
// only on the trace id and the flags of the sender's traceparent.
//
// Spans are recorded after the fact, from times that the gateway has kept. They wait in a bounded
// queue and are exported in the background. If the queue is full, or the collector does not take
// them, they are dropped and counted. Nothing waits for an export, except a stop of the gateway.
//
// Spans contain ids, slugs, types, statuses and sizes. They contain no body, no header
// but User-Agent, no query, no path of a receiver's URL, and no secret.
//
// The methods of Tracer are safe for concurrent use.
package tracing
