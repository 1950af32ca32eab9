package eventhook

import "time"

// The bounds of claims of agents.
const (
	MaxAgentClaim = 100             // deliveries of one claim, and results of one report
	MaxAgentLease = 5 * time.Minute // of one claim
	// MaxAgentLeases is how many leases of agents in a row may expire: then the delivery is dead.
	MaxAgentLeases = 5
)

// AgentClaim requests up to Max deliveries for an agent, each leased for Lease.
type AgentClaim struct {
	Max   int
	Lease time.Duration
}

// AgentRequest is a delivery that an agent has leased: a request that the agent sends as it is.
type AgentRequest struct {
	ID          DeliveryID
	Lease       Lease
	Method, URL string
	Headers     map[string]string
	Body        []byte
	Timeout     time.Duration // of the request; not longer than the lease
	Attempt     int           // from 1
}

// AgentResult is the outcome of a request that an agent has sent: a status, or an error without
// one. The clock of the agent does not count: its attempt ended when the gateway got the result.
type AgentResult struct {
	ID         DeliveryID
	LeaseToken int64
	StatusCode int // 0 without an answer
	ErrorClass ErrorClass
	Error      string
	Duration   time.Duration
	Excerpt    string
	RetryAfter time.Duration
}

// AgentErrorClasses are the classes of errors that an agent may report.
var AgentErrorClasses = []ErrorClass{ErrorDNS, ErrorConnect, ErrorTLS, ErrorTimeout, ErrorBlocked, ErrorClosed}

// Attempt returns the attempt of a result that arrives now.
func (r AgentResult) Attempt(now time.Time) Attempt {
	a := Attempt{StartedAt: now.Add(-r.Duration), Duration: r.Duration, StatusCode: r.StatusCode, Excerpt: r.Excerpt, RetryAfter: r.RetryAfter}
	if r.StatusCode == 0 {
		a.ErrorClass, a.Error = r.ErrorClass, r.Error
	}
	return a
}
