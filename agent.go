package eventhook

import (
	"fmt"
	"slices"
	"time"
)

// Agent is a program in a network that the gateway cannot reach. It claims the deliveries to
// destinations whose target labels are all among its labels, and sends them. The labels are the
// gateway's knowledge of the agent; an agent never states its own.
type Agent struct {
	ID             AgentID
	TenantID       TenantID
	Name           string // unique in the tenant
	Labels         []string
	Version        int64 // increases with every change of the name or the labels
	ProgramVersion string
	// LastSeenAt is the time of the last claim, up to AgentSeenEvery + AgentSeenGap before it; nil if
	// the agent has made no claim yet.
	LastSeenAt *time.Time
	Held       int // deliveries that the agent has leased and not reported
	CreatedAt  time.Time
	UpdatedAt  time.Time
}

// Times of the heartbeat of agents, which is a claim.
const (
	// AgentOfflineAfter is the time without a claim after which an agent is offline.
	AgentOfflineAfter = 90 * time.Second
	// AgentSeenEvery is the minimum interval at which an instance records the claims of an agent.
	AgentSeenEvery = 15 * time.Second
	// AgentSeenGap is the minimum interval of records of different instances. Together with the
	// longest wait of a claim, 60 s, the intervals are shorter than AgentOfflineAfter: an agent that
	// claims again within 10 s is always online.
	AgentSeenGap = 5 * time.Second
)

// MaxAgents is the maximum number of agents of a tenant.
const MaxAgents = 5000

// AgentFilter narrows a list of agents.
type AgentFilter struct {
	Before AgentID
	Limit  int
}

// AgentSighting is a claim of an agent, as its heartbeat.
type AgentSighting struct {
	ID             AgentID
	ProgramVersion string // as the agent states it; "" if it states none
}

// AgentCounts counts the agents of all tenants.
type AgentCounts struct{ Online, Offline int }

// Validate returns every fault by its field and changes nothing.
func (a Agent) Validate() Faults {
	var f Faults
	checkName(&f, a.Name)
	if len(a.Labels) == 0 {
		f.Add("labels", "at least one is required, such as env:prod: an agent serves the destinations whose target_labels it has")
	}
	CheckLabels(&f, "labels", a.Labels)
	for i, l := range a.Labels {
		if slices.Contains(a.Labels[:i], l) {
			f.Add(fmt.Sprintf("labels[%d]", i), "%q is given twice", SanitizeLabel(l))
		}
	}
	return f
}

// IsOnline reports whether the agent has made a claim within AgentOfflineAfter.
func (a Agent) IsOnline(now time.Time) bool {
	return a.LastSeenAt != nil && now.Sub(*a.LastSeenAt) < AgentOfflineAfter
}

// Serves reports whether an agent with labels may send to a destination with target labels.
// Destinations without target labels are served by the gateway.
func Serves(labels, targetLabels []string) bool {
	return len(targetLabels) > 0 && !slices.ContainsFunc(targetLabels, func(l string) bool { return !slices.Contains(labels, l) })
}

// AddsLabel reports whether updated target labels have one that the stored labels lack, so that other
// agents send.
func AddsLabel(stored, updated []string) bool {
	return slices.ContainsFunc(updated, func(l string) bool { return !slices.Contains(stored, l) })
}

// CheckLabels adds the faults of labels of agents, of which a list has at most 20.
func CheckLabels(f *Faults, at string, labels []string) {
	checkLength(f, at, labels, maxLabels)
	for i, l := range labels {
		if wrong := CheckLabel(l); wrong != "" {
			f.Add(fmt.Sprintf("%s[%d]", at, i), "%s", wrong)
		}
	}
}
