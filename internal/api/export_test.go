package api

import (
	"time"

	"github.com/eventhook/eventhook"
)

// RecordKeyUse records a use of a key, as a request does.
func RecordKeyUse(u *KeyUses, key eventhook.KeyID, at time.Time) { u.record(key, at) }

// SeeAgent records a claim of an agent, as the claim does.
func SeeAgent(h *AgentHeartbeats, id eventhook.AgentID) error {
	return h.seen(eventhook.AgentSighting{ID: id})
}
