package eventhook

import "time"

// TrafficWindow selects the spans that begin from Since (inclusive) to Until (exclusive).
type TrafficWindow struct {
	Since, Until time.Time
	Span         TrafficSpan
}

// TrafficWindowAt returns the window of the last n spans, of which the last contains now.
func TrafficWindowAt(now time.Time, span TrafficSpan, n int) TrafficWindow {
	last := now.UTC().Truncate(time.Duration(span))
	return TrafficWindow{last.Add(-time.Duration(n-1) * time.Duration(span)), last.Add(time.Duration(span)), span}
}

// MaxOverviewItems is the maximum number of sources, subscriptions or tenants of an overview, and of
// the items that need attention.
const MaxOverviewItems = 50

// Overview says how a tenant, or the whole gateway, is doing.
type Overview struct {
	Series    map[time.Time]Traffic // by the start of the span; spans without traffic are missing
	Queues    OverviewQueues
	Attention []Attention // the worst first, at most MaxOverviewItems

	// Of a tenant: failing ones first, at most MaxOverviewItems of each.
	Sources           []SourceOverview
	SourceCount       int
	Subscriptions     []SubscriptionOverview
	SubscriptionCount int

	// Of the gateway: failing ones first, at most MaxOverviewItems.
	Tenants     []TenantOverview
	TenantCount int
}

// OverviewQueues are the queues of a tenant or of all tenants.
type OverviewQueues struct{ Events, Executions, Deliveries WaitingWork }

// WaitingWork is the open work of a queue.
type WaitingWork struct {
	Waiting   int           // at most MaxQueueDepth
	OldestAge time.Duration // of the oldest work that should be done now
}

// SourceOverview is a source with its traffic.
type SourceOverview struct {
	ID             SourceID
	Slug, Name     string
	Provider       string
	IsEnabled      bool
	LastReceivedAt *time.Time // of the events of the last 25 hours, to the minute
	Traffic
}

// SubscriptionOverview is a subscription with its traffic.
type SubscriptionOverview struct {
	ID             SubscriptionID
	Name           string
	Status         SubscriptionStatus
	DisabledBy     DisabledBy
	DisabledReason string
	Circuit        CircuitState
	FailingSince   *time.Time
	Missed         int    // as Outage.Missed, at most 1000 open and 1000 dead deliveries
	LastError      string // of the newest delivery that failed or is dead, while the subscription fails
	Traffic
}

// TenantOverview is a tenant with its traffic.
type TenantOverview struct {
	ID         TenantID
	Slug, Name string
	Status     TenantStatus
	Traffic
}

// AttentionType says what needs a person.
type AttentionType string

// The types, the worst first.
const (
	AttentionSubscriptionDisabled AttentionType = "subscription_disabled"
	AttentionCircuitOpen          AttentionType = "circuit_open"
	AttentionDeliveriesDead       AttentionType = "deliveries_dead"
	AttentionExecutionsDead       AttentionType = "executions_dead"
	AttentionAgentOffline         AttentionType = "agent_offline"
	AttentionQuota                AttentionType = "quota_nearly_used"
	AttentionRequestsRefused      AttentionType = "requests_refused"
	AttentionKeyExpiring          AttentionType = "key_expiring"
	AttentionHandshake            AttentionType = "handshake_waiting"
)

// AttentionTypes lists all types, the worst first.
var AttentionTypes = []AttentionType{AttentionSubscriptionDisabled, AttentionCircuitOpen, AttentionDeliveriesDead,
	AttentionExecutionsDead, AttentionAgentOffline, AttentionQuota, AttentionRequestsRefused, AttentionKeyExpiring, AttentionHandshake}

// Attention is something that needs a person.
type Attention struct {
	Type         AttentionType
	IsCritical   bool
	TenantID     TenantID
	ResourceType string // such as subscription
	ResourceID   string // as in paths of the API: the slug of a source, an id otherwise
	Name         string // of the resource
	Summary      string // one sentence
	Count        int64
	Since        *time.Time
	Reason       string
}

// WorkQueue is the open work of a queue of executions.
type WorkQueue struct {
	Queue       string
	Waiting     int // executions that no worker has claimed, at most MaxQueueDepth
	Due         int // of them: those that a worker could claim now
	Running     int // claimed executions, at most MaxQueueDepth
	OldestDueAt *time.Time
}
