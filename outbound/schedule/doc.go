// Package schedule decides which delivery an instance sends next. It is the pure
// part of the dispatcher: it has no goroutine, no channel, no clock and no
// database. Each method takes the time as a parameter and returns at once.
//
// # Model
//
// A Scheduler has one queue for each destination that was used lately. A queue
// holds leased deliveries in memory: first attempts, retries and recovered deliveries
// separately. Each queue belongs to a tenant. Three resources are shared:
//
//   - Slots: a send occupies one slot. Retries and recovered deliveries together use at
//     most half of the slots. A tenant
//     uses at most as many slots as stay free, so a tenant that is alone uses at most
//     half. A queue uses at most a quarter of the slots that its tenant may still use.
//     A queue also has a limit of its own: 4 at first, one more after each success up to
//     the destination's Slots, and half after each failure.
//   - Memory: deliveries and bytes. A tenant uses at most as much memory as stays free,
//     and a queue at most an eighth of all memory. A queue holds no more deliveries than
//     it can probably send within half a lease. Its window is a further limit: 64
//     deliveries at first, one more after each attempt, and half when a lease was too
//     short. While a queue has a backlog in the database, new deliveries get at most half
//     of its memory.
//   - The rate of a destination: sends are reserved in the database, for all
//     instances together, one second ahead.
//
// Next works round robin. It alternates between first attempts, retries and recovered
// deliveries, then between tenants, then between the queues of a tenant. The first attempts of a queue are
// sent in the order of Offer, and so are its retries and its recovered deliveries.
//
// Recovered deliveries are those that an outage has held, or that a recovery or replay has
// released, until their first attempt. They are sent while no first attempt at a new event
// waits in their queue, with one slot at first, twice as many after each round of successes,
// and one slot again after a failure.
//
// # A delivery
//
// The caller reserves memory before it stores or claims deliveries. Release or Offer
// must follow each Reserve, and Claimed must follow each ReserveClaim. From Offer to
// Freed a delivery is in exactly one of these states:
//
//	          Offer           Next            Finish with Settled       Freed
//	reserved ------> waiting -----> sending ----------------> settling ------> gone
//	    |               |              |                                         ^
//	    |               | backoff,     | Finish without Settled                  |
//	    | Offer during  | not Ready,   v                                         |
//	    | a backoff     | Close     releasing -----------------------------------+
//	    +---------------+------------> ^           TakeReleased, Freed
//
// A released delivery goes back to the database, where any instance may claim it.
//
// # The circuit breaker of a destination
//
//	             5 failures in a row                  a probe succeeds
//	+--------+ -----------------------> +------+ ----------------------> +-----------+
//	| closed |                          | open | <---------------------- | half open |
//	+--------+                          +------+        a failure        +-----------+
//	    ^                                                                      |
//	    +----------------------------------------------------------------------+
//	              successes, until 4 concurrent sends are allowed
//
// While the circuit is open, one probe at a time is claimed and sent, after a backoff
// of 1 s that doubles with each failed probe up to 30 s. When the circuit opens, the
// waiting deliveries of its queue are released, and the results of sends that began
// earlier no longer count. The circuit closes when the Address changes and when the
// destination becomes Ready. A Retry-After of the receiver causes a backoff and does not
// change the circuit, nor does a released delivery that fails again while the circuit is not
// open.
//
// A Gate applies the same circuit breaker and the same rate to a destination whose deliveries
// agents send.
//
// # Guarantees
//
//   - Every offered delivery is returned by Next, by TakeReleased, or by Next and then,
//     after Finish without Settled, by TakeReleased. Neither returns a delivery twice.
//   - The sends in progress never exceed Config.Slots. Next starts no send to a
//     destination that has Destination.Slots sends in progress.
//   - As long as time passes, sends end and outcomes are settled, every waiting delivery
//     of a Ready destination whose circuit is not open is sent.
//   - The counts of deliveries and bytes are zero once every delivery has been freed.
//
// # Failures
//
// If the caller reserves memory and neither offers nor releases deliveries for it, that
// memory is lost to the queue: fewer deliveries fit. If the caller never calls Freed, all sends stop once
// Config.Unsettled outcomes wait. If the process ends, the state of the Scheduler is
// lost. The database has every delivery, and another instance claims them once their
// leases run out.
//
// # Ownership
//
// A Scheduler is not safe for concurrent use: its caller serialises all calls, with
// one mutex around all of its methods. No field of Scheduler, tenant, queue, breaker,
// rate, timer or fifo has a guard of its own. The only values that the caller and the
// Scheduler share are the *eventhook.Delivery pointers. The Scheduler never changes a
// delivery.
package schedule
