// Package match decides which subscriptions of a tenant receive a published event, and
// holds the event against the tenant's catalogue of event types.
//
// Matching is by event type and filter, over subscriptions that are compiled once and
// kept in memory. A Matcher has a generation: the caller stores it with the event, and the
// database refuses an event that was matched by an old one. A filter that takes too many
// steps keeps the event from its own subscription alone. The catalogue refuses nothing.
package match
