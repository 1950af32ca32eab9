// Package eventhook defines the nouns of the gateway: tenants, sources, routes,
// events, actions, executions, promises, subscriptions and deliveries, with their
// states, their validation rules and the kinds of errors. It imports the standard
// library only and contains no SQL and no HTTP. The packages that do the work
// (ingest, verify, route, targets, outbound) import this package; of these, only
// ingest imports another one, verify. cmd/eventhook connects them.
package eventhook
