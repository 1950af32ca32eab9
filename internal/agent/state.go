package agent

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventhook/eventhook"
)

// state is the knowledge of an agent about its gateway. Safe for concurrent use.
type state struct {
	reported, unreported atomic.Int64 // results that the gateway stored, and deliveries without one

	mu         sync.Mutex
	claimedAt  time.Time // of the last answered claim
	lastErr    error     // of the claims since then
	failed     int       // claims since then
	loggedAt   time.Time // of the last line about them
	isStopping bool
}

// claimed records an answered claim. It returns the number of failed claims before it, and reports
// whether the previous claim failed or there is none.
func (s *state) claimed(now time.Time) (failed int, isChange bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	failed, isChange = s.failed, s.claimedAt.IsZero() || s.lastErr != nil
	s.claimedAt, s.lastErr, s.failed = now, nil, 0
	return failed, isChange
}

// failureInterval is the time between two lines of the log about one outage of the gateway.
const failureInterval = 5 * time.Minute

// claimFailed records a failed claim. It returns the number of failed claims in a row, and reports
// whether a line of the log is due: for the first one, and then at each failureInterval.
func (s *state) claimFailed(now time.Time, err error) (failed int, isLogged bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastErr = err
	s.failed++
	if isLogged = s.failed == 1 || now.Sub(s.loggedAt) >= failureInterval; isLogged {
		s.loggedAt = now
	}
	return s.failed, isLogged
}

func (s *state) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isStopping = true
}

// The states of an agent in its health.
const (
	healthOK           = "ok"
	healthStarting     = "starting"     // no claim was answered yet
	healthDisconnected = "disconnected" // claims fail, and the gateway regards the agent as offline
	healthStopping     = "stopping"
)

// health is the answer of the health URL.
type health struct {
	Status      string     `json:"status"`
	LastClaimAt *time.Time `json:"last_claim_at"`   // of the last claim that the gateway answered
	Error       string     `json:"error,omitempty"` // of the last claim, if it failed
}

func (s *state) health(now time.Time) health {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := health{Status: healthOK}
	if !s.claimedAt.IsZero() {
		h.LastClaimAt = new(s.claimedAt.UTC())
	}
	if s.lastErr != nil {
		h.Error = s.lastErr.Error()
	}
	switch {
	case s.isStopping:
		h.Status = healthStopping
	case s.lastErr != nil && now.Sub(s.claimedAt) >= eventhook.AgentOfflineAfter:
		h.Status = healthDisconnected
	case s.claimedAt.IsZero():
		h.Status = healthStarting
	}
	return h
}

// lastClaim returns the time of the last answered claim; zero if there is none.
func (s *state) lastClaim() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claimedAt
}
