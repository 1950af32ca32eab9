// Package agents lets agents send deliveries: programs in networks that the gateway cannot reach. An
// agent claims the due deliveries of the destinations whose target labels it has, sends the requests
// and reports their results.
//
// A delivery for an agent has the states, retries, order and history of every delivery. It is never
// in the memory of an instance: its lease in the database decides. So a claim may reach one
// instance and its result another, and a restarted gateway accepts the results of earlier claims.
//
//	pending, failed ── Claim ──> acquired ── Report ──> success, failed, dead
//	                                │
//	                                └── the lease expires ──> claimed by another agent; dead after five in a row
//
// Each destination has a schedule.Gate on each instance: the circuit breaker and the rate of the
// dispatcher. The deliveries that all agents hold of a destination are at most its max_in_flight.
//
// Waiting claims cost no query each. One loop of the instance asks the database for all of them
// which of their destinations have due deliveries: when deliveries may have become due, and at the
// poll interval.
//
// If the database fails, claims and reports return errors, and the agents try again. An outcome
// that is not written before its lease ends is lost, and the delivery is sent again.
package agents
