package api

import (
	"cmp"
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

// registerSubscriptionBulks registers the changes of all subscriptions that match a filter.
func (s *server) registerSubscriptionBulks(api huma.API) {
	bulk := func(verb, summary, about, action string, change func(*eventhook.Subscription) error) {
		op := subscriptionOperation(verb+"-subscriptions", http.MethodPost, "/"+verb, summary, eventhook.ScopeManage)
		op.skipsShape, op.class = true, bulks
		op.about = about + " All changes are one transaction with one audit entry. 409 if the number of matches is not expected_count."
		register(s, api, op, func(ctx context.Context, by caller, in *subscriptionsBulkRequest) (*subscriptionsBulkAnswer, error) {
			return s.updateSubscriptions(ctx, by, in, action, change)
		})
	}
	bulk("pause", "Pause subscriptions", "Pauses the subscriptions that match the filter, except disabled ones.",
		"subscriptions.paused", requireEnabled(setStatus(eventhook.SubscriptionPaused)))
	bulk("resume", "Resume subscriptions", "Resumes the subscriptions that match the filter, except disabled ones.",
		"subscriptions.resumed", requireEnabled(setStatus(eventhook.SubscriptionActive)))
	bulk("enable", "Enable subscriptions", "Makes the disabled and paused subscriptions that match the filter active.",
		"subscriptions.enabled", setStatus(eventhook.SubscriptionActive))
	bulk("disable", "Disable subscriptions", "Disables the subscriptions that match the filter: nothing is stored for them until they are enabled.",
		"subscriptions.disabled", setStatus(eventhook.SubscriptionDisabled))
}

// SubscriptionsBulk selects subscriptions to change.
type SubscriptionsBulk struct {
	Filter        *SubscriptionsBulkFilter `json:"filter" doc:"Subscriptions to change; {} for all. If more match than limit, the oldest are changed."`
	Limit         int                      `json:"limit,omitempty" minimum:"1" maximum:"10000" default:"1000" doc:"Maximum number of subscriptions to change; default 1000."`
	ExpectedCount *int                     `json:"expected_count,omitempty" minimum:"0" maximum:"100000" doc:"Number of subscriptions that must match the filter, regardless of limit. If another number matches, nothing is changed: 409 with that number."`
}

// SubscriptionsBulkFilter filters subscriptions, as their list does. An omitted member does
// not filter.
type SubscriptionsBulkFilter struct {
	Status    []string `json:"status,omitempty" minItems:"1" enum:"active,paused,disabled" doc:"Subscriptions with these statuses: a list, or one status as a string."`
	EventType string   `json:"event_type,omitempty" maxLength:"256" example:"payment.*" doc:"Subscriptions that receive events of this type, or of a type that this pattern matches."`
}

// SubscriptionsChanged lists the changed subscriptions.
type SubscriptionsChanged struct {
	MatchedCount    int      `json:"matched_count" doc:"Number of subscriptions that matched the filter."`
	ChangedCount    int      `json:"changed_count" doc:"Number of subscriptions that were changed. A subscription that had the status already, or to which the operation does not apply, is not changed."`
	SubscriptionIDs []string `json:"subscription_ids" doc:"The changed subscriptions, oldest first."`
}

type subscriptionsBulkRequest struct {
	TenantPath
	Body document[SubscriptionsBulk]
}

type subscriptionsBulkAnswer struct{ Body SubscriptionsChanged }

func (s *server) updateSubscriptions(ctx context.Context, by caller, in *subscriptionsBulkRequest, action string,
	change func(*eventhook.Subscription) error) (*subscriptionsBulkAnswer, error) {
	const defaultLimit = 1000
	body, shape := in.Body.readStatuses(s)
	if err := combinedError(shape, nil); err != nil {
		return nil, err
	}
	which := eventhook.SubscriptionSelection{ExpectedCount: body.ExpectedCount, Action: action, Limit: cmp.Or(body.Limit, defaultLimit)}
	if f := body.Filter; f != nil {
		var err error
		for _, status := range f.Status {
			which.Statuses = append(which.Statuses, eventhook.SubscriptionStatus(status))
		}
		if which.EventType, err = typeFilter("body.filter.event_type", f.EventType); err != nil {
			return nil, err
		}
	}
	matched, changed, err := s.Subscriptions.UpdateSubscriptions(ctx, by.actor(), by.tenant, which,
		func(x eventhook.Subscription) (eventhook.Subscription, error) {
			err := change(&x)
			return x, err
		})
	if err != nil {
		return nil, err
	}
	return &subscriptionsBulkAnswer{SubscriptionsChanged{matched, len(changed), idTexts(changed)}}, nil
}
