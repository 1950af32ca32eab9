// Package outbound delivers events to destinations: subscriptions, and targets of
// routes. It stores published events with their deliveries, and sends the deliveries. It
// contains no SQL and no HTTP handlers. Each delivery is sent at least once, and no
// destination delays another.
//
// The Publisher stores the events that tenants publish. Fanout adds deliveries to the
// events that routes publish, and passes stored deliveries to the dispatcher. Package
// match finds the subscriptions that receive an event.
//
// The dispatcher has three parts. Package schedule decides which delivery is sent next.
// The loops of Dispatcher call the Queue, which is the database. A Transport sends to one
// destination; package send has the transports for HTTP. A Directory returns the current
// configuration of a destination, with its Transport. A new kind of destination needs a
// Directory and a Transport, and no change to the dispatcher.
//
// If the database fails, writes are retried until the leases of their deliveries run out.
// If an instance ends, another instance claims its deliveries once their leases have run
// out. A delivery whose outcome was not written is sent again, with the same id.
package outbound
