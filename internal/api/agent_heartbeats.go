package api

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/batch"
)

// AgentSightingStore records claims of agents as their heartbeats.
type AgentSightingStore interface {
	SeenAgents(ctx context.Context, seen []eventhook.AgentSighting) error
}

// AgentHeartbeats records claims of agents: of each agent one in eventhook.AgentSeenEvery, and those
// of several agents in one batch. It is safe for concurrent use.
type AgentHeartbeats struct {
	now     func() time.Time
	commits *batch.Committer[eventhook.AgentSighting]

	mu   sync.Mutex
	last map[eventhook.AgentID]recordedClaim
}

// recordedClaim is the last claim of an agent that this instance has recorded.
type recordedClaim struct {
	at      time.Time
	version string
}

// maxRecordedAgents bounds the agents that an instance remembers. Beyond it, claims are recorded more
// often.
const maxRecordedAgents = 100_000

// NewAgentHeartbeats returns AgentHeartbeats that write to a store. Run must be running.
func NewAgentHeartbeats(store AgentSightingStore, now func() time.Time) *AgentHeartbeats {
	const timeout, most = 5 * time.Second, 1000
	commit := func(seen []eventhook.AgentSighting) error {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		return store.SeenAgents(ctx, seen)
	}
	bounds := batch.Bounds{Writers: 1, BatchRows: most, BatchBytes: 1 << 20, OverlapRows: most, QueueRows: maxRecordedAgents, QueueBytes: 1 << 30}
	return &AgentHeartbeats{now: now, commits: batch.New(bounds, commit), last: map[eventhook.AgentID]recordedClaim{}}
}

// Run writes until ctx ends. Its error is always nil. Call Run once, and end ctx after the last
// request.
func (h *AgentHeartbeats) Run(ctx context.Context) error { return h.commits.Run(ctx) }

// seen records a claim of an agent, unless one with the same version was recorded recently. It
// returns when the agent is online in the database.
func (h *AgentHeartbeats) seen(s eventhook.AgentSighting) error {
	now := h.now()
	if h.isRecent(s, now) {
		return nil
	}
	if err := h.commits.Do(s, 1, len(s.ProgramVersion)); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.last) >= maxRecordedAgents {
		clear(h.last)
	}
	h.last[s.ID] = recordedClaim{now, s.ProgramVersion}
	return nil
}

func (h *AgentHeartbeats) isRecent(s eventhook.AgentSighting, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	last, isKnown := h.last[s.ID]
	return isKnown && last.version == s.ProgramVersion && now.Sub(last.at) < eventhook.AgentSeenEvery
}

// sightingOf returns a claim of an agent as its heartbeat. stated is the version in the body of the
// claim; without one, it is the version in the User-Agent of the program "eventhook agent".
func sightingOf(agent eventhook.AgentID, stated, userAgent string) eventhook.AgentSighting {
	const program, maxVersion = "eventhook-agent/", 64
	if rest, isProgram := strings.CutPrefix(userAgent, program); isProgram && stated == "" {
		stated, _, _ = strings.Cut(rest, " ")
	}
	version := eventhook.SanitizeLabel(stated)
	return eventhook.AgentSighting{ID: agent, ProgramVersion: strings.ToValidUTF8(version[:min(len(version), maxVersion)], "")}
}
