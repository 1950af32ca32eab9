package agents

import (
	"context"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
)

// Queue leases deliveries to agents and settles them. Implementations are safe for concurrent use.
type Queue interface {
	// DueForAgents returns the destinations of a list with due deliveries, of which agents hold
	// fewer than Slots, and the number of due deliveries, at most Max.
	DueForAgents(ctx context.Context, list []Share) ([]Due, error)
	// ClaimForAgent leases due deliveries and returns them with their events, in the order in
	// which they became due. Each destination with due deliveries gets about the same part of
	// Max; if there are more of them than Max, the first ones of the list do. The bodies of the
	// events are at most MaxClaimBytes together, unless a single one is larger.
	ClaimForAgent(ctx context.Context, c Claim) ([]Claimed, error)
	// HeldDeliveries returns deliveries by their ids, without their payloads. Deliveries that do
	// not exist are left out.
	HeldDeliveries(ctx context.Context, list []Key) ([]Held, error)
	// ExpiredForAgents leases up to limit due deliveries of a destination that no agent gets any
	// more: deliveries of events before a time that were not restarted since, and deliveries with
	// eventhook.MaxAgentLeases expired leases.
	ExpiredForAgents(ctx context.Context, to eventhook.DestinationID, before time.Time, limit int) ([]Claimed, error)

	// ClaimProbeForAgent leases the probe of one of these subscriptions during its outage; nil if no
	// probe is due.
	ClaimProbeForAgent(ctx context.Context, of []eventhook.SubscriptionID, lease time.Duration) (*outbound.Probe, error)
	// ClaimMissedForAgent leases the delivery of the oldest event after p.After that the outage
	// has held or killed, for a probe, and returns it with its event; nil if there is none.
	ClaimMissedForAgent(ctx context.Context, agent eventhook.AgentID, p outbound.Probe, lease time.Duration) (*outbound.Missed, error)

	// These are methods of outbound.ProbeStore and outbound.Queue.
	RejectMissed(ctx context.Context, d *eventhook.Delivery) error
	EndProbe(ctx context.Context, p outbound.Probe, result outbound.ProbeResult) error
	SettleDeliveries(ctx context.Context, batch []*outbound.DeliverySettlement) (lost []*outbound.DeliverySettlement, err error)
	ReleaseDeliveries(ctx context.Context, list []*eventhook.Delivery) error
	ReserveSends(ctx context.Context, list []outbound.SendReservation) ([]time.Time, error)
	DeliveriesWake() <-chan struct{}
}

// MaxClaimBytes limits the bodies that one claim returns. A single body may exceed it.
const MaxClaimBytes = 4 << 20

// Share is what a claim may take of a destination.
type Share struct {
	TenantID      eventhook.TenantID
	DestinationID eventhook.DestinationID
	Slots         int  // deliveries that agents hold at most, with the deliveries of this claim
	Max           int  // deliveries of this claim
	TriedFirst    bool // a probe: deliveries that were tried before, the oldest first
}

// Claim requests up to Max due deliveries for an agent.
type Claim struct {
	Agent  eventhook.AgentID
	Max    int
	Lease  time.Duration
	Shares []Share // of one tenant, each destination once
}

// Claimed is a delivery that an agent has leased. StatusCode is that of the previous attempt.
type Claimed struct {
	*eventhook.Delivery
	Leases int // of agents in a row without a result, with this one
}

// Due is a destination with due deliveries.
type Due struct {
	DestinationID eventhook.DestinationID
	Count         int
}

// Key identifies a delivery.
type Key struct {
	TenantID eventhook.TenantID
	ID       eventhook.DeliveryID
}

// Held is a delivery as it is stored. Agent has the last lease, unless it is zero; Status is
// DeliveryAcquired as long as that lease was not ended or taken over. StatusCode is that of the
// previous attempt.
type Held struct {
	*eventhook.Delivery
	Agent   eventhook.AgentID
	IsProbe bool // the lease is that of a probe
	WasDead bool // a probe of a delivery that an outage has killed
}
