// Package eventhook holds the nouns of the gateway: tenants, sources, routes,
// events, actions, executions and promises, with their states, their rules
// (Validate) and the kinds of errors. It knows no technique: no SQL, no HTTP,
// nothing but the standard library. The rooms below it know this package and
// not each other; only cmd/eventhook knows them all.
package eventhook
