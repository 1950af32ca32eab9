package api

import (
	"context"
	"errors"

	"github.com/eventhook/eventhook"
)

// Why a delivery cannot be retried.
var (
	errAlreadyQueued = &eventhook.Error{Kind: eventhook.KindConflict, Message: "The delivery is already waiting to be sent or being sent."}
	errCannotRetry   = &eventhook.Error{Kind: eventhook.KindConflict, Message: "The delivery cannot be retried: its subscription is deleted, its route is deleted or has another target at this index, its event's data is past the retention period, or it is already being sent."}
)

func (s *server) retryDelivery(ctx context.Context, by caller, in *DeliveryPath) (*deliveryAnswer, error) {
	d, _, err := s.findDelivery(ctx, by, in)
	if err == nil && !d.IsOfRoute() {
		err = s.checkNotDisabled(ctx, by, d.SubscriptionID)
	}
	switch {
	case err != nil:
		return nil, err
	case d.Status == eventhook.DeliveryPending || d.Status == eventhook.DeliveryAcquired:
		return nil, errAlreadyQueued
	}
	restarted, err := s.Deliveries.RestartDeliveries(ctx, by.actor(), by.tenant, eventhook.DeliverySelection{
		IDs: []eventhook.DeliveryID{d.ID}, Statuses: []eventhook.DeliveryStatus{eventhook.DeliveryFailed, eventhook.DeliveryDead, eventhook.DeliverySuccess}})
	switch {
	case err != nil:
		return nil, err
	case len(restarted) == 0:
		return nil, errCannotRetry
	}
	return s.getDelivery(ctx, by, in)
}

// checkNotDisabled returns errNotEnabled if a subscription is disabled, and nil if it
// is deleted.
func (s *server) checkNotDisabled(ctx context.Context, by caller, id eventhook.SubscriptionID) error {
	x, err := s.Subscriptions.Subscription(ctx, by.tenant, id)
	switch {
	case errors.Is(err, eventhook.ErrNotFound):
		return nil
	case err == nil && x.Status == eventhook.SubscriptionDisabled:
		return errNotEnabled
	}
	return err
}

// DeliveriesRetry selects deliveries to retry.
type DeliveriesRetry struct {
	Filter *DeliveriesRetryFilter `json:"filter" doc:"Deliveries to retry. If more match than limit, the newest are retried."`
	Limit  int                    `json:"limit" minimum:"1" maximum:"1000" doc:"Maximum number of deliveries to retry."`
	// ExpectedCount is compared before anything is retried.
	ExpectedCount *int `json:"expected_count,omitempty" minimum:"0" maximum:"100000" doc:"Number of deliveries that must match the filter, regardless of limit. If another number matches, nothing is retried: 409 with that number."`
}

// DeliveriesRetryFilter filters deliveries. An omitted member does not filter.
type DeliveriesRetryFilter struct {
	SubscriptionID string   `json:"subscription_id,omitempty" doc:"Deliveries to this subscription."`
	RouteID        string   `json:"route_id,omitempty" doc:"Deliveries to the targets of this route."`
	EventID        string   `json:"event_id,omitempty" doc:"Deliveries of this event."`
	Key            string   `json:"key,omitempty" maxLength:"64" doc:"Dead deliveries of one group of GET …/deliveries/dead-groups: the key of the group."`
	Status         []string `json:"status,omitempty" minItems:"1" enum:"failed,dead" doc:"Statuses to retry: a list, or one status as a string; default failed and dead."`
	CreatedAfter   string   `json:"created_after,omitempty" format:"date-time" doc:"Deliveries of events published or received at or after this time."`
	CreatedBefore  string   `json:"created_before,omitempty" format:"date-time" doc:"Deliveries of events published or received before this time."`
}

// DeliveriesRetried lists the retried deliveries.
type DeliveriesRetried struct {
	RetriedCount int      `json:"retried_count" doc:"Number of retried deliveries."`
	DeliveryIDs  []string `json:"delivery_ids" doc:"Retried deliveries, newest event first."`
}

type retryRequest struct {
	TenantPath
	Body document[DeliveriesRetry]
}

type retryAnswer struct{ Body DeliveriesRetried }

func (s *server) retryDeliveries(ctx context.Context, by caller, in *retryRequest) (*retryAnswer, error) {
	body, shape := in.Body.readStatuses(s)
	which, err := body.selection(shape)
	if of, isGroup := eventhook.ParseDeadGroupKey(which.Group); err == nil && isGroup {
		err = s.checkNotDisabled(ctx, by, eventhook.SubscriptionID(of)) // nil for a target of a route
	} else if err == nil && !which.SubscriptionID.IsZero() {
		err = s.checkNotDisabled(ctx, by, which.SubscriptionID)
	}
	if err != nil {
		return nil, err
	}
	restarted, err := s.Deliveries.RestartDeliveries(ctx, by.actor(), by.tenant, which)
	if err != nil {
		return nil, err
	}
	return &retryAnswer{DeliveriesRetried{len(restarted), idTexts(restarted)}}, nil
}

func idTexts[K any](ids []eventhook.ID[K]) []string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = id.String()
	}
	return texts
}

// selection returns the selected deliveries. If an id cannot be parsed, the error is
// KindMalformed, whatever other faults there are.
func (b DeliveriesRetry) selection(shape eventhook.Faults) (eventhook.DeliverySelection, error) {
	which := eventhook.DeliverySelection{Statuses: []eventhook.DeliveryStatus{eventhook.DeliveryFailed, eventhook.DeliveryDead},
		Limit: b.Limit, ExpectedCount: b.ExpectedCount}
	var ids, rules eventhook.Faults
	if f := b.Filter; f != nil {
		which.SubscriptionID = namedID[eventhook.Subscription](&ids, &rules, "body.filter.subscription_id", f.SubscriptionID)
		which.RouteID = namedID[eventhook.Route](&ids, &rules, "body.filter.route_id", f.RouteID)
		which.EventID = namedID[eventhook.Event](&ids, &rules, "body.filter.event_id", f.EventID)
		which.Since, which.Until = moment(f.CreatedAfter), moment(f.CreatedBefore)
		if f.Status != nil {
			which.Statuses = deliveryStatuses(f.Status)
		}
		which.Group = f.Key
		if f.Key != "" {
			if f.Status == nil {
				which.Statuses = []eventhook.DeliveryStatus{eventhook.DeliveryDead}
			}
			rules.Merge("body.filter", which.CheckGroup())
		}
	}
	return which, unreadFirst(shape, ids, rules)
}

func deliveryStatuses(texts []string) (list []eventhook.DeliveryStatus) {
	for _, text := range texts {
		list = append(list, eventhook.DeliveryStatus(text))
	}
	return list
}

// namedID parses an optional id. The zero id is a fault, because it would select
// everything.
func namedID[K any](ids, rules *eventhook.Faults, at, text string) eventhook.ID[K] {
	if text == "" {
		return eventhook.ID[K]{}
	}
	before := len(*ids)
	id := idAt[K](ids, at, text)
	if id.IsZero() && len(*ids) == before {
		rules.Add(at, "must not be the zero id")
	}
	return id
}

// unreadFirst returns the error for the faults of a body. If an id cannot be parsed,
// the error is KindMalformed with all faults, else KindInvalid.
func unreadFirst(shape, ids, rules eventhook.Faults) error {
	if unread := join(shape, ids)[len(shape):]; len(unread) > 0 {
		all := join(join(shape, ids), rules)
		return malformed(all[:min(len(all), maxFaults)])
	}
	return combinedError(shape, rules)
}
