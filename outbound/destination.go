package outbound

import (
	"context"
	"errors"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound/match"
	"github.com/eventhook/eventhook/outbound/schedule"
	"github.com/eventhook/eventhook/outbound/send"
)

// Destination is the current configuration of a destination, with its transport.
type Destination struct {
	schedule.Destination
	TargetType string                // of a route, such as kafka; "" for a subscription
	Retry      eventhook.RetryPolicy // with defaults applied
	// DeadInRow is the number of consecutive dead deliveries after which the
	// destination is disabled; 0: never.
	DeadInRow int
	// DisableGone says that an answer of 410 disables the destination.
	DisableGone bool
	ChangedAt   time.Time // of the configuration: deliveries may have waited for the change
	// Held says that failures have disabled the subscription, and its receiver is probed.
	Held bool
	// Labels are those of the agents that send instead of this gateway, nil without any. Then
	// Ready is false, and ForAgents says whether agents may send now.
	Labels    []string
	ForAgents bool
	// Scopes is the scope_filter of a subscription.
	Scopes    []string
	Transport Transport
}

// Transport sends to one destination. Safe for concurrent use.
type Transport interface {
	// Send makes one attempt at a leased delivery with its event. Attempts count from
	// 1. Send takes no longer than the destination's Timeout. A failure is part of the
	// returned Attempt. If ctx ends before there is an answer, the attempt has failed,
	// although the receiver may have got the request.
	Send(ctx context.Context, d *eventhook.Delivery, attempt int) eventhook.Attempt
}

// Directory returns the current configuration of destinations. Safe for concurrent use.
type Directory interface {
	// Destination returns a destination, usually from memory and otherwise within
	// seconds. The error is of KindNotFound if the destination was deleted. The
	// dispatcher sets ID, TenantID, RouteID and TargetIndex of the result.
	Destination(ctx context.Context, of eventhook.Destination) (Destination, error)
}

// Directories is a Directory that uses one directory for subscriptions and another for
// targets of routes.
type Directories struct {
	Subscriptions Directory
	Routes        Directory
}

// Destination implements Directory.
func (d Directories) Destination(ctx context.Context, of eventhook.Destination) (Destination, error) {
	if of.RouteID.IsZero() {
		return d.Subscriptions.Destination(ctx, of)
	}
	return d.Routes.Destination(ctx, of)
}

// SubscriptionTransports returns the transports of subscriptions.
type SubscriptionTransports interface {
	To(s *eventhook.Subscription) Transport
}

// SubscriptionDirectory implements Directory and SubscriptionTransports for
// subscriptions.
type SubscriptionDirectory struct {
	Subscriptions *match.SubscriptionCache
	Sender        *send.HTTPSender
}

// Destination implements Directory. While the subscriptions cannot be read, it returns a
// subscription in the state of its last send, if that is in memory.
func (d SubscriptionDirectory) Destination(ctx context.Context, of eventhook.Destination) (Destination, error) {
	s, err := d.Subscriptions.Subscription(ctx, of.TenantID, of.SubscriptionID)
	if err != nil && !isNotFound(err) {
		if cached := d.Sender.Cached(of.SubscriptionID); cached != nil {
			s, err = cached, nil
		}
	}
	if err != nil {
		return Destination{}, err
	}
	return SubscriptionDestination(s, d.To(s)), nil
}

// To implements SubscriptionTransports.
func (d SubscriptionDirectory) To(s *eventhook.Subscription) Transport { return d.Sender.To(s) }

// SubscriptionDestination returns the destination that sends to a subscription with a
// transport.
func SubscriptionDestination(s *eventhook.Subscription, transport Transport) Destination {
	return Destination{
		Destination: schedulerDestination(s), Retry: s.Retry.WithDefaults(eventhook.DeliveryRetry), DeadInRow: s.FailuresToDisable(),
		DisableGone: true, ChangedAt: s.UpdatedAt,
		Held: s.HoldsDeliveries() && !s.SecretsLost, Transport: transport,
		Labels: s.TargetLabels, ForAgents: isUsable(s) && s.IsForAgents(), Scopes: s.ScopeFilter,
	}
}

// excludes reports whether the scope_filter of a subscription does not match the event of a delivery to it.
// A test event is for its subscription, whatever the filter.
func (to Destination) excludes(d *eventhook.Delivery) bool {
	return !isTest(d) && !match.Scope(to.Scopes, d.Event)
}

// schedulerDestination returns the part of a subscription's configuration that the
// scheduler needs.
func schedulerDestination(s *eventhook.Subscription) schedule.Destination {
	to := schedule.Destination{
		ID: eventhook.DestinationID(s.ID), TenantID: s.TenantID, Version: s.Version, Address: s.URL, Ready: isSendable(s),
		Slots: s.InFlight(), PerSecond: s.RatePerSecond, Timeout: s.Timeout(),
	}
	if s.RecoveredAt != nil {
		to.HeldBefore = s.RecoveredAt.UTC()
	}
	return to
}

// isSendable reports whether this gateway sends to a subscription.
func isSendable(s *eventhook.Subscription) bool {
	return isUsable(s) && !s.IsForAgents()
}

// isUsable reports whether this gateway or an agent may send to a subscription.
func isUsable(s *eventhook.Subscription) bool {
	return s.Status == eventhook.SubscriptionActive && !s.SecretsLost
}

// lookUp returns a destination of the directory. It sets the fields that identify the
// destination, even on an error.
func (d *Dispatcher) lookUp(ctx context.Context, of eventhook.Destination) (Destination, error) {
	to, err := d.Directory.Destination(ctx, of)
	to.ID, to.RouteID, to.TargetIndex = of.ID(), of.RouteID, of.TargetIndex
	if err != nil || to.TenantID.IsZero() {
		to.TenantID = of.TenantID // of a delivery; an operator subscription has deliveries of many tenants
	}
	return to, err
}

func isNotFound(err error) bool {
	e, ok := errors.AsType[*eventhook.Error](err)
	return ok && e.Kind == eventhook.KindNotFound
}
