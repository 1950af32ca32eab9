// Package match decides which subscriptions of a tenant receive a published event, and
// checks the event against the tenant's catalogue of event types.
//
// A subscription receives the events of its types that pass its filter. A Matcher has the
// compiled subscriptions of a tenant at one generation, and a SubscriptionCache has the
// Matchers of many tenants. The caller passes the generation to the database with the
// event, and the database refuses an event that was matched at an old generation. A filter that takes too
// many steps for an event excludes only its own subscription. The catalogue never rejects
// an event: mismatches are counted and logged.
package match
