// Package replay queues deliveries of stored events to a subscription again, in the
// background: because a caller asked for it, or because an outage of the receiver has ended.
//
// A replay is a row that one instance at a time leases. The instance handles the replay in
// steps, and each step is one transaction. A step reads a page of events after the cursor,
// oldest first, matches them against the subscription as it is now, queues their deliveries,
// and moves the cursor in the same transaction. So an instance that is killed loses no step
// and repeats none, and another instance continues when the lease has expired.
//
//	running ── all events read, and all queued deliveries have ended ──▶ completed
//	   └────── cancelled by a caller, or the subscription is deleted ──▶ cancelled, deleted
//
// A step queues nothing and is repeated later
//
//   - while MaxOpen deliveries that the replay queued have not ended, so that a replay never
//     fills the queue of its subscription;
//   - while the subscription is paused or disabled;
//   - of a recovery, while the receiver fails again. A recovery ends if the subscription's
//     recovery is not enabled any more.
//
// An attempt that began in an outage may make its delivery dead after the recovery has ended. That
// settlement begins another recovery of the same outage, which queues no delivery that was released
// since the outage ended.
//
// A replay sends nothing twice: the id of a delivery derives from its event and its
// subscription, and a delivery that another replay has queued since this one was created is
// queued again only if it is dead.
package replay
