package outbound

import (
	"context"
	"errors"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound/match"
	"github.com/eventhook/eventhook/outbound/schedule"
	"github.com/eventhook/eventhook/outbound/send"
)

// Destination is the current configuration of a destination, with its transport.
type Destination struct {
	schedule.Destination
	Retry eventhook.RetryPolicy // complete
	// DeadInRow is after how many dead deliveries in a row the destination is
	// disabled; 0: never.
	DeadInRow int
	// DisableGone says that an answer of 410 disables the destination.
	DisableGone bool
	Transport   Transport
}

// Transport sends to one destination. Send makes an attempt, counted from 1, at a leased
// delivery with its event, and returns the outcome: it has no errors of its own, and
// takes no longer than the destination's Timeout. If ctx ends before there is an answer,
// the attempt has failed, and it is not known whether it arrived. Safe for concurrent use.
type Transport interface {
	Send(ctx context.Context, d *eventhook.Delivery, attempt int) eventhook.Attempt
}

// Directory returns the current Destination, mostly from memory and otherwise within
// seconds, or an error of KindNotFound if it does not exist any more. The dispatcher
// fills in ID, TenantID, RouteID and TargetIndex itself. Safe for concurrent use.
type Directory interface {
	Destination(ctx context.Context, of eventhook.Destination) (Destination, error)
}

// Directories asks one directory for subscriptions, and another for targets of routes.
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

// SubscriptionTransports returns the transport of a subscription.
type SubscriptionTransports interface {
	To(s *eventhook.Subscription) Transport
}

// SubscriptionDirectory is the Directory of subscriptions, and SubscriptionTransports.
type SubscriptionDirectory struct {
	Subscriptions *match.SubscriptionCache
	Sender        *send.HTTPSender
}

// Destination implements Directory. While the subscriptions cannot be read, it returns
// one as it was sent to last.
func (d SubscriptionDirectory) Destination(ctx context.Context, of eventhook.Destination) (Destination, error) {
	s, err := d.Subscriptions.Subscription(ctx, of.TenantID, of.SubscriptionID)
	if err != nil && !isNotFound(err) {
		if known := d.Sender.Cached(of.SubscriptionID); known != nil {
			s, err = known, nil
		}
	}
	if err != nil {
		return Destination{}, err
	}
	return DestinationOf(s, d.To(s)), nil
}

// To implements SubscriptionTransports.
func (d SubscriptionDirectory) To(s *eventhook.Subscription) Transport { return d.Sender.To(s) }

// DestinationOf returns a subscription as a destination.
func DestinationOf(s *eventhook.Subscription, transport Transport) Destination {
	return Destination{
		Destination: scheduled(s), Retry: s.Retry.WithDefaults(eventhook.DeliveryRetry), DeadInRow: s.FailuresToDisable(), DisableGone: true, Transport: transport,
	}
}

// scheduled returns a subscription as the scheduler knows it.
func scheduled(s *eventhook.Subscription) schedule.Destination {
	return schedule.Destination{
		ID: eventhook.DestinationID(s.ID), TenantID: s.TenantID, Version: s.Version, Address: s.URL, Ready: isSendable(s),
		Slots: s.InFlight(), PerSecond: s.RatePerSecond, Timeout: s.Timeout(),
	}
}

// isSendable reports whether this gateway sends to a subscription.
func isSendable(s *eventhook.Subscription) bool {
	return s.Status == eventhook.SubscriptionActive && !s.IsForAgents() && !s.SecretsLost
}

// lookUp asks the directory for a destination, and fills in its name.
func (d *Dispatcher) lookUp(ctx context.Context, of eventhook.Destination) (Destination, error) {
	to, err := d.Directory.Destination(ctx, of)
	to.ID, to.TenantID, to.RouteID, to.TargetIndex = of.ID(), of.TenantID, of.RouteID, of.TargetIndex
	return to, err
}

func isNotFound(err error) bool {
	e, ok := errors.AsType[*eventhook.Error](err)
	return ok && e.Kind == eventhook.KindNotFound
}
