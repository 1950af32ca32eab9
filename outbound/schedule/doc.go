// Package schedule decides which delivery an instance sends next. It is the pure
// part of the dispatcher: it has no goroutine, no channel, no clock and no
// database. Each method takes the time as a parameter and returns at once.
//
// # Model
//
// A Scheduler has one queue for each destination that was used lately. A queue
// holds leased deliveries in memory: first attempts and retries apart. Queues
// belong to tenants. Three resources are shared:
//
//   - Slots: a send occupies one. Half of them at most are used by retries. A
//     tenant gets at most as many as stay free besides its own, so that one alone
//     gets half; a queue gets at most a quarter of its tenant's rest. A queue
//     has a limit of its own, too: it starts at 4, grows by one with each success
//     up to the destination's Slots, and is halved by each failure.
//   - Memory: deliveries and bytes. A tenant gets at most as much as stays free
//     besides its own, a queue at most an eighth. A queue holds no more than it can
//     probably send within half a lease. One whose database backlog is known keeps
//     half of its memory for that backlog: new deliveries get the other half.
//   - The rate of a destination: sends are reserved in the database, for all
//     instances together, a second ahead.
//
// Next goes round robin: first attempts and retries alternate, then tenants, then
// the queues of a tenant. Within a queue and class the order is first in, first
// out.
//
// # A delivery
//
// The caller reserves memory before it stores or claims deliveries, and Release or
// Offer must follow each Reserve, and Claimed each ReserveClaim. From Offer to
// Freed a delivery is in exactly one of these states:
//
//	          Offer           Next            Finish with Settled       Freed
//	reserved ------> waiting -----> sending ----------------> settling ------> gone
//	    |               |              |                                         ^
//	    |               | backoff,     | Finish without Settled                  |
//	    | Offer, while  | not Ready,   v                                         |
//	    | it may not    | Close     releasing -----------------------------------+
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
//	                  successes, until 4 sends at once are allowed
//
// While it is open, one probe at a time is claimed and sent, after a backoff of 1 s
// that doubles with each failed probe up to 30 s. When it opens, the waiting
// deliveries of its queue are released, and results of sends that began before no
// longer count. Another Address, and a destination that becomes Ready, start with a
// closed circuit. A Retry-After of the receiver is a backoff without a change of the
// circuit.
//
// # Guarantees
//
//   - A delivery that was offered is returned by Next once or by TakeReleased once,
//     never both before it is finished.
//   - The sends in progress never exceed Config.Slots. The sends to one destination never
//     exceed its Destination.Slots when they start.
//   - While time passes, sends end and outcomes are settled, every delivery of a
//     Ready destination whose circuit lets it through is sent.
//   - The counts of deliveries and bytes return to zero when all was freed.
//
// # Failures
//
// A caller that reserves and neither offers nor releases leaks memory of the queue:
// fewer deliveries fit. A caller that never calls Freed stops all sends when
// Config.Unsettled outcomes wait. If the process ends, everything here is lost, and
// the leases in the database run out: nothing that matters is kept here alone.
//
// # Ownership
//
// A Scheduler is not safe for concurrent use: its caller serialises all calls, with
// one mutex around all of its methods. No field of Scheduler, tenant, queue, breaker,
// rate, timer or fifo has a guard of its own. The only values that the caller
// shares are the *eventhook.Delivery pointers: the Scheduler reads and never changes them.
package schedule
