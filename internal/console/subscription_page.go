package console

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/web"
)

// subscriptionPage is the data of a subscription's page.
type subscriptionPage struct {
	client.Subscription
	Stats   client.SubscriptionStats
	HasNums bool // false if the numbers cannot be read
	// Recent is the traffic of the last 24 hours; nil if the overview does not have the subscription.
	Recent *client.SubscriptionOverview
	// Cells are the last deliveries, oldest first; Last the newest of them, newest first.
	Cells []client.Delivery
	Last  []client.Delivery
	// PublicKey verifies asymmetric signatures; "" without them.
	PublicKey string
	Replays   []client.Replay
	// Tested is the outcome of a test event, and Secret a new signing secret; both are shown once.
	Tested *client.SubscriptionTested
	Secret *client.SecretRotated
	// Created is the signing secret of a new subscription.
	Created  string
	Rotation form
}

// shownCells is the length of the health strip, and lastDeliveries the length of the table.
const (
	shownCells     = 100
	lastDeliveries = 10
	shownReplays   = 5
)

func (c *Console) subscription(r *request) (view, error) {
	return r.subscriptionView(subscriptionPage{})
}

// subscriptionView returns the page of the subscription in the path. with has what an act adds to it.
func (r *request) subscriptionView(with subscriptionPage) (view, error) {
	id := r.PathValue("id")
	if with.ID != "" {
		id = with.ID
	}
	s, err := r.api.GetSubscription(r.Context(), r.tenant, id)
	if err != nil {
		return view{}, err
	}
	with.Subscription, with.Recent = s, r.recentOf()[id]
	with.Rotation.Values = url.Values{"grace_seconds": {"86400"}}
	if with.Stats, err = r.api.GetSubscriptionStats(r.Context(), r.tenant, id); err == nil {
		with.HasNums = true
	}
	limit := int64(shownCells)
	deliveries, err := r.api.ListSubscriptionDeliveries(r.Context(), r.tenant, id, client.ListSubscriptionDeliveriesParams{Limit: &limit})
	if err != nil {
		return view{}, err
	}
	with.Last = deliveries.Items[:min(len(deliveries.Items), lastDeliveries)]
	with.Cells = slices.Clone(deliveries.Items)
	slices.Reverse(with.Cells)
	with.Replays = r.replaysOf(id, shownReplays)
	if slices.Contains(s.Signatures, "v1a") {
		if key, err := r.api.GetSubscriptionPublicKey(r.Context(), r.tenant, id); err == nil {
			with.PublicKey = key.PublicKey
		}
	}
	return view{Title: s.Name, Data: with}, nil
}

// replaysOf returns the newest replays of a subscription; none if they cannot be read.
func (r *request) replaysOf(id string, limit int64) []client.Replay {
	found, err := r.api.ListReplays(r.Context(), r.tenant, id, client.ListReplaysParams{Limit: &limit})
	if err != nil {
		return nil
	}
	return found.Items
}

// CellKind returns the class of a delivery's cell in the health strip.
func (p subscriptionPage) CellKind(d client.Delivery) string {
	switch {
	case d.Status == client.DeliveryStatusSuccess && d.AttemptCount > 1:
		return "warning"
	case d.Status == client.DeliveryStatusSuccess:
		return "ok"
	case d.Status == client.DeliveryStatusPending || d.Status == client.DeliveryStatusAcquired:
		return "waiting"
	}
	return "failed"
}

// CellTitle describes a delivery in the health strip.
func (p subscriptionPage) CellTitle(d client.Delivery) string {
	title := fmt.Sprintf("%s %s · %s", d.CreatedAt.UTC().Format("15:04:05"), d.EventType, d.Status)
	if d.StatusCode != nil {
		title += " " + strconv.FormatInt(*d.StatusCode, 10)
	}
	if d.AttemptCount != 1 {
		title += " · " + web.Plural(d.AttemptCount, "attempt", "attempts")
	}
	return title
}

// Success returns the part of the attempts of the last 24 hours that succeeded; ok is false without
// attempts.
func (p subscriptionPage) Success() *float64 {
	all := p.Stats.DeliveredLast24H + p.Stats.FailedLast24H
	if !p.HasNums || all == 0 {
		return nil
	}
	ratio := float64(p.Stats.DeliveredLast24H) / float64(all)
	return &ratio
}

// IsOut reports whether the receiver fails: the circuit is open, or deliveries were missed.
func (p subscriptionPage) IsOut() bool {
	return p.Circuit != nil && p.Circuit.State != client.CircuitStateClosed || p.Missed() > 0
}

// Missed returns the number of deliveries that an outage holds or has killed.
func (p subscriptionPage) Missed() int64 {
	if p.MissedCount == nil {
		return 0
	}
	return *p.MissedCount
}

// IsRecoverable reports whether an enable sends what the receiver missed: failures have disabled the
// subscription, or its circuit is open.
func (p subscriptionPage) IsRecoverable() bool {
	if p.Status == client.SubscriptionStatusActive {
		return p.Circuit != nil && p.Circuit.State != client.CircuitStateClosed
	}
	return p.DisabledBy != nil && *p.DisabledBy == "failures"
}
