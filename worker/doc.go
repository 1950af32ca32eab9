// Package worker processes the tasks and workflows of one queue of an Eventhook gateway.
//
// A Worker claims jobs, calls the Handler that is registered for the kind of each job, and
// reports the outcome to the gateway: completed, failed, or suspended until promises settle.
// The gateway schedules the retries of failed jobs.
//
// Delivery is at least once. A handler may run more than once for the same job: after a
// failure, and also if the worker crashes or loses the gateway after the handler returned and
// before the outcome was reported. The side effects of a handler must therefore be idempotent.
// Job.ID is the same in all attempts and suits as an idempotency key.
//
// While a handler runs, the worker extends the lease of the job with heartbeats. If the lease
// is lost, the worker cancels the context of the handler with the cause ErrLeaseLost and
// reports no outcome. A lease is lost if the gateway has leased the job to another worker, if
// a user has cancelled the job, or if no heartbeat succeeded before the lease ended.
//
// A handler continues the trace of its job. Its context has the span of the gateway that created
// the job as the remote parent or, if the program has set a TracerProvider of OpenTelemetry
// (otel.SetTracerProvider), a span of the worker below it.
//
// The package imports the standard library, package client and the API of OpenTelemetry. docs/workers.md describes
// the protocol for workers in other languages.
package worker
