// Package worker does the work that routes make: it claims the tasks and
// workflows of one queue of an Eventhook gateway, hands each to the function
// that handles its kind, and tells the gateway what came of it.
//
// A handler may run more than once for the same work: again after a failure,
// and also when a worker dies, or cannot reach the gateway, after the handler
// has done its part and before the gateway knows. What it does outside must
// bear that. Job.ID stays the same over all attempts and is the key to do
// something once with.
//
// While a handler runs, the worker extends the lease of its work. Once the
// lease is lost, because the gateway gave the work to another worker, somebody
// cancelled it, or it could not be extended in time, the handler's context is
// cancelled with the cause ErrLeaseLost: it should end.
//
// The package needs the standard library and package client alone, and knows
// nothing of the gateway's own packages. docs/workers.md tells of workers in
// any language.
package worker
