// Package agent is the program that sends deliveries where the gateway cannot reach. It claims
// deliveries from a gateway over HTTP, sends each to its destination, and reports the results. It
// accepts no connections, except for its own metrics and health.
//
//	claim ──> send ──> report
//	  ▲                  │
//	  └── a free slot ◀──┘
//
// An Agent sends only to the destinations of its allow list, even if the gateway requests another one. It
// claims as many deliveries as it has free slots, and waits at the gateway for more. A delivery
// whose result is not reported, because the agent ended or its lease was lost, is sent again by
// another agent when the lease ends. So a destination may get a delivery twice.
//
// The clocks of agent and gateway may differ: the agent counts a lease from the moment before it
// sent the claim.
//
// If the gateway cannot be reached or fails, the agent retries with growing pauses. If the gateway
// rejects the agent's key, Run ends with an error.
package agent
