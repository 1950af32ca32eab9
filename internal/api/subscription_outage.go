package api

import (
	"time"

	"github.com/eventhook/eventhook"
)

// Circuit is the circuit breaker of a subscription.
type Circuit struct {
	State       string     `json:"state" enum:"closed,open,half_open" doc:"closed: deliveries are sent. open: the receiver fails; only probes are sent. half_open: a probe is being sent."`
	OpenedAt    *time.Time `json:"opened_at" doc:"When the circuit opened; null if it is closed."`
	NextProbeAt *time.Time `json:"next_probe_at" doc:"When the oldest missed delivery is sent as a probe; null without probes."`
}

// RecoveryState has the settings of the recovery of a subscription, and the running recovery.
type RecoveryState struct {
	Recovery
	Running *RecoveryProgress `json:"running,omitempty" doc:"The running recovery; absent without one, and in lists."`
}

// RecoveryProgress is the progress of a running recovery.
type RecoveryProgress struct {
	ReplayID string    `json:"replay_id" format:"uuid" doc:"The recovery in the list of replays."`
	Since    time.Time `json:"since" doc:"Beginning of the outage."`
	Until    time.Time `json:"until" doc:"End of the outage."`
	Queued   int64     `json:"queued" doc:"Deliveries that were queued so far."`
	Sent     int64     `json:"sent" doc:"Queued deliveries that succeeded."`
	Failed   int64     `json:"failed" doc:"Queued deliveries that are dead again."`
}

// withOutage returns v with the circuit breaker, the missed deliveries and the recovery.
func (v Subscription) withOutage(o eventhook.Outage) Subscription {
	v.Circuit = &Circuit{State: string(o.Circuit())}
	if o.FailingSince != nil {
		v.Circuit.OpenedAt, v.Circuit.NextProbeAt = optionalUTC(o.CircuitOpenedAt), optionalUTC(o.NextProbeAt)
	}
	v.MissedCount = &o.Missed
	if r := o.Recovery; r != nil {
		v.Recovery.Running = &RecoveryProgress{ReplayID: r.ID.String(), Since: utc(r.Since), Until: utc(r.Until), Queued: r.Queued,
			Sent: r.Sent, Failed: r.Failed}
	}
	return v
}
