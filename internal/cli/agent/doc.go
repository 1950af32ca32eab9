// Package agent is the command agent: it claims deliveries from a gateway and sends them in a
// network that the gateway cannot reach. See internal/agent.
package agent
