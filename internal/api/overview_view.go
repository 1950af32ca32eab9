package api

import (
	"time"

	"github.com/eventhook/eventhook"
)

// TrafficCounts are counts of a span of time.
type TrafficCounts struct {
	Received       int64    `json:"received" doc:"Stored events, including duplicates."`
	Refused        int64    `json:"refused" doc:"Requests that a source refused because of the request itself."`
	Duplicates     int64    `json:"duplicates" doc:"Received events that were stored before."`
	Succeeded      int64    `json:"succeeded" doc:"Events whose routes were processed without a failure."`
	Failed         int64    `json:"failed" doc:"Events that became dead."`
	Sent           int64    `json:"sent" doc:"Deliveries that succeeded."`
	FailedAttempts int64    `json:"failed_attempts" doc:"Failed attempts of deliveries."`
	Dead           int64    `json:"dead" doc:"Deliveries that became dead."`
	LatencyP50MS   *float64 `json:"latency_p50_ms" doc:"Median time from the receipt of an event to its first successful delivery, estimated to within a factor of 2; null without deliveries. Deliveries that were restarted, replayed or recovered do not count."`
	LatencyP99MS   *float64 `json:"latency_p99_ms" doc:"The same for the 99th percentile."`
}

// TrafficPoint is a point of the series of an overview.
type TrafficPoint struct {
	At time.Time `json:"at" doc:"Start of the step."`
	TrafficCounts
}

// TrafficTotals are the sums over a window.
type TrafficTotals struct {
	TrafficCounts
	SuccessRatio *float64 `json:"success_ratio" doc:"Part of the attempts that succeeded, from 0 to 1; null without attempts."`
}

// QueueOverview is the open work of a queue.
type QueueOverview struct {
	Waiting          int     `json:"waiting" doc:"Open work, at most 100000. For the events of a tenant: those among the oldest 10000 due events of all tenants."`
	OldestAgeSeconds float64 `json:"oldest_age_seconds" doc:"How long the oldest work is due that could be done now; 0 if there is none."`
}

// OverviewQueues are the queues of a tenant or of the gateway.
type OverviewQueues struct {
	Events     QueueOverview `json:"events" doc:"Events to process."`
	Executions QueueOverview `json:"executions" doc:"Executions for workers."`
	Deliveries QueueOverview `json:"deliveries" doc:"Deliveries to send, including retries and those of subscriptions that are paused, disabled or failing."`
}

// AttentionItem is something that needs a person.
type AttentionItem struct {
	Tenant       string     `json:"tenant,omitempty" doc:"Slug of the tenant. Only in the overview of all tenants."`
	Type         string     `json:"type" enum:"subscription_disabled,circuit_open,deliveries_dead,executions_dead,agent_offline,quota_nearly_used,requests_refused,key_expiring,handshake_waiting" doc:"What happened."`
	Severity     string     `json:"severity" enum:"critical,warning" doc:"critical: events are not delivered or are refused now. warning: all others."`
	ResourceType string     `json:"resource_type" enum:"subscription,source,execution,agent,tenant,api_key,delivery" doc:"Type of the resource."`
	ResourceID   string     `json:"resource_id" doc:"Identifies the resource in paths: the slug of a source or tenant, otherwise an id; empty if there are several."`
	Name         string     `json:"name" doc:"Name of the resource; may be empty."`
	Summary      string     `json:"summary" doc:"One sentence for people."`
	Count        int64      `json:"count" doc:"Number of deliveries, executions, requests or, for a quota, the used percentage; 0 if nothing is counted. 1000 missed deliveries of a subscription, or more, may be too few."`
	Since        *time.Time `json:"since" doc:"When it began, or when it will happen for a key that expires; null if unknown."`
	Reason       string     `json:"reason" doc:"Last error, or most frequent reason; may be empty."`
}

// SourceOverview is a source with its counts.
type SourceOverview struct {
	Slug           string     `json:"slug"`
	Name           string     `json:"name"`
	Provider       string     `json:"provider" doc:"Empty for a custom verifier."`
	IsEnabled      bool       `json:"is_enabled"`
	Received       int64      `json:"received" doc:"Stored events of the window, including duplicates."`
	Refused        int64      `json:"refused" doc:"Requests of the window that were refused."`
	Duplicates     int64      `json:"duplicates" doc:"Duplicates of the window."`
	Succeeded      int64      `json:"succeeded" doc:"Events processed without a failure."`
	Failed         int64      `json:"failed" doc:"Events that became dead."`
	LastReceivedAt *time.Time `json:"last_received_at" doc:"Start of the minute of the last event; null if the last 25 hours had none."`
}

// SubscriptionOverview is a subscription with its counts.
type SubscriptionOverview struct {
	ID             string     `json:"id" format:"uuid"`
	Name           string     `json:"name"`
	Status         string     `json:"status" enum:"active,paused,disabled"`
	DisabledReason string     `json:"disabled_reason" doc:"Empty unless the subscription is disabled."`
	Circuit        string     `json:"circuit" enum:"closed,open,half_open" doc:"State of the circuit breaker."`
	FailingSince   *time.Time `json:"failing_since" doc:"First failure since the last success; null if the subscription does not fail."`
	Sent           int64      `json:"sent" doc:"Successful deliveries of the window."`
	FailedAttempts int64      `json:"failed_attempts" doc:"Failed attempts of the window."`
	Dead           int64      `json:"dead" doc:"Deliveries that became dead in the window."`
	SuccessRatio   *float64   `json:"success_ratio" doc:"Part of the attempts that succeeded, from 0 to 1; null without attempts."`
	LatencyP50MS   *float64   `json:"latency_p50_ms" doc:"Estimate; null without deliveries."`
	LatencyP99MS   *float64   `json:"latency_p99_ms" doc:"Estimate; null without deliveries."`
	MissedCount    int        `json:"missed_count" doc:"Deliveries that an outage holds or has killed; 1000 or more may be too few."`
	LastError      string     `json:"last_error" doc:"Error of the newest delivery that failed or is dead; empty if the subscription does not fail."`
}

// Overview says how a tenant is doing.
type Overview struct {
	OverviewPart
	Sources            []SourceOverview       `json:"sources" doc:"Failing sources first, then the busiest; at most 50."`
	SourcesCount       int                    `json:"sources_count" doc:"Number of all sources."`
	Subscriptions      []SubscriptionOverview `json:"subscriptions" doc:"Failing subscriptions first, then the busiest; at most 50."`
	SubscriptionsCount int                    `json:"subscriptions_count" doc:"Number of all subscriptions."`
}

// OverviewPart is what the overviews of a tenant and of the gateway have in common.
type OverviewPart struct {
	AsOf          time.Time       `json:"as_of" doc:"When the values were read."`
	WindowSeconds int             `json:"window_seconds" doc:"Length of the window: 3600 or 86400."`
	StepSeconds   int             `json:"step_seconds" doc:"Length of a step of the series: 60 or 600."`
	Series        []TrafficPoint  `json:"series" doc:"Oldest first, without gaps. The last step is not over yet."`
	Totals        TrafficTotals   `json:"totals" doc:"Sums over the series."`
	Queues        OverviewQueues  `json:"queues"`
	Attention     []AttentionItem `json:"attention" doc:"What needs a person, the worst first; at most 50. Empty if all is well."`
}

// TenantOverview is a tenant with its counts.
type TenantOverview struct {
	Slug           string        `json:"slug"`
	Name           string        `json:"name"`
	Status         string        `json:"status" enum:"active,suspended,closed"`
	AttentionCount int           `json:"attention_count" doc:"Items of the tenant in attention."`
	Totals         TrafficTotals `json:"totals"`
}

// GatewayOverview says how the whole gateway is doing.
type GatewayOverview struct {
	OverviewPart
	Tenants      []TenantOverview `json:"tenants" doc:"Failing tenants first, then the busiest; at most 50."`
	TenantsCount int              `json:"tenants_count" doc:"Number of all tenants that are not closed."`
}

func viewTraffic(t eventhook.Traffic) TrafficCounts {
	return TrafficCounts{
		Received: t.Received, Refused: t.Refused, Duplicates: t.Duplicates, Succeeded: t.Succeeded, Failed: t.Failed,
		Sent: t.Sent, FailedAttempts: t.FailedAttempts, Dead: t.Dead,
		LatencyP50MS: latencyMS(t.Latency, median), LatencyP99MS: latencyMS(t.Latency, nearlyAll),
	}
}

const median, nearlyAll = 0.5, 0.99

func latencyMS(c eventhook.LatencyCounts, q float64) *float64 {
	d, ok := c.Quantile(q)
	if !ok {
		return nil
	}
	return new(float64(d.Microseconds()) / 1000)
}

func successRatio(t eventhook.Traffic) *float64 {
	if t.Sent+t.FailedAttempts == 0 {
		return nil
	}
	return new(float64(t.Sent) / float64(t.Sent+t.FailedAttempts))
}

func viewTotals(t eventhook.Traffic) TrafficTotals {
	return TrafficTotals{viewTraffic(t), successRatio(t)}
}

func viewQueue(w eventhook.WaitingWork) QueueOverview {
	return QueueOverview{w.Waiting, w.OldestAge.Seconds()}
}

func viewAttention(a eventhook.Attention, tenant string) AttentionItem {
	severity := "warning"
	if a.IsCritical {
		severity = "critical"
	}
	return AttentionItem{tenant, string(a.Type), severity, a.ResourceType, a.ResourceID, a.Name, a.Summary, a.Count, optionalUTC(a.Since), a.Reason}
}

func viewSourceOverview(x eventhook.SourceOverview) SourceOverview {
	return SourceOverview{x.Slug, x.Name, x.Provider, x.IsEnabled, x.Received, x.Refused, x.Duplicates, x.Succeeded, x.Failed,
		optionalUTC(x.LastReceivedAt)}
}

func viewSubscriptionOverview(x eventhook.SubscriptionOverview) SubscriptionOverview {
	return SubscriptionOverview{
		ID: x.ID.String(), Name: x.Name, Status: string(x.Status), DisabledReason: x.DisabledReason, Circuit: string(x.Circuit),
		FailingSince: optionalUTC(x.FailingSince), Sent: x.Sent, FailedAttempts: x.FailedAttempts, Dead: x.Dead,
		SuccessRatio: successRatio(x.Traffic), LatencyP50MS: latencyMS(x.Latency, median), LatencyP99MS: latencyMS(x.Latency, nearlyAll),
		MissedCount: x.Missed, LastError: x.LastError,
	}
}
