// Package outbound delivers events to destinations: subscriptions, and http targets of
// routes. It stores published events with their deliveries, and sends the deliveries. It
// holds no SQL and knows no router. A delivery is sent at least once, and no destination
// delays another.
//
// The Publisher stores events that tenants publish. Fanout adds the deliveries to the
// events that routes publish, and passes stored deliveries to the dispatcher. Package
// match finds the subscriptions that receive an event.
//
// The dispatcher has three parts. Package schedule decides which delivery is sent next;
// the loops of Dispatcher talk to the Queue, which is the database; and a Transport sends
// to one destination: package send has the transports over HTTP. A Directory returns the
// current configuration of a destination, with its Transport. Another kind of destination
// needs a Directory and a Transport, and nothing else here.
package outbound
