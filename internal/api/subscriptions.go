package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

// SubscriptionStore stores subscriptions. Its errors are those of SourceStore. A
// deleted subscription does not exist any more for any method, even while deliveries to
// it are open.
type SubscriptionStore interface {
	// Subscription and Subscriptions return a subscription without secrets if these
	// cannot be decrypted.
	Subscription(ctx context.Context, tenant eventhook.TenantID, id eventhook.SubscriptionID) (eventhook.Subscription, error)
	Subscriptions(ctx context.Context, tenant eventhook.TenantID, f eventhook.SubscriptionFilter) ([]eventhook.Subscription, error)
	CreateSubscription(ctx context.Context, by eventhook.Actor, s eventhook.Subscription) (eventhook.Subscription, error)
	UpdateSubscription(ctx context.Context, by eventhook.Actor, tenant eventhook.TenantID, id eventhook.SubscriptionID, version int64, change func(eventhook.Subscription) (eventhook.Subscription, error)) (eventhook.Subscription, error)
	// UpdateSubscriptions changes the subscriptions that match, in one transaction. It
	// skips a subscription for which change returns an error of KindConflict. If the number
	// of matches is not the expected one, the error is KindConflict with that number.
	UpdateSubscriptions(ctx context.Context, by eventhook.Actor, tenant eventhook.TenantID, which eventhook.SubscriptionSelection,
		change func(eventhook.Subscription) (eventhook.Subscription, error)) (matched int, changed []eventhook.SubscriptionID, err error)
	DeleteSubscription(ctx context.Context, by eventhook.Actor, tenant eventhook.TenantID, id eventhook.SubscriptionID, version int64) error
	// CreateCustomerSubscription is CreateSubscription by a customer of the tenant. The error
	// is KindConflict if the scope of the customer has MaxEndpoints subscriptions.
	CreateCustomerSubscription(ctx context.Context, by eventhook.Actor, s eventhook.Subscription,
		of eventhook.Customer) (eventhook.Subscription, error)
	// SubscriptionOutage returns the current outage of a subscription, zero without one. If scope
	// is not "", it counts only missed deliveries of the customer with this scope.
	SubscriptionOutage(ctx context.Context, of eventhook.Subscription, scope string) (eventhook.Outage, error)
	SubscriptionStats(ctx context.Context, tenant eventhook.TenantID, id eventhook.SubscriptionID) (eventhook.SubscriptionStats, error)
	// CustomerStats returns statistics of a subscription that have only deliveries of the
	// customer with a scope.
	CustomerStats(ctx context.Context, of eventhook.Subscription, scope string) (eventhook.SubscriptionStats, error)
}

// Receivers checks and tests the URLs of subscriptions.
type Receivers struct {
	// CheckFilter returns the faults of a filter, with locations relative to the
	// filter.
	CheckFilter func(filter []byte) eventhook.Faults
	// CheckAddress returns an error if the gateway may not send to a URL. The check is
	// repeated at every connection. The error is shown to the caller.
	CheckAddress func(ctx context.Context, url string) error
	Tester       Tester
	RequireHTTPS bool // refuse http:// URLs
}

func (s *server) registerSubscriptions(api huma.API) {
	create := subscriptionOperation("create-subscription", http.MethodPost, "", "Create a subscription", eventhook.ScopeManage)
	create.status, create.skipsShape = http.StatusCreated, true
	create.about = "The response contains the signing secret and the complete URL, which are returned only once. With validate, the subscription is created only if the receiver answers a test event with 2xx."
	update := subscriptionOperation("update-subscription", http.MethodPatch, "/{id}", "Update a subscription", eventhook.ScopeManage)
	update.skipsShape, update.about = true, "The body is a JSON merge patch: omitted members keep their value, null resets a member to its default. filter is replaced as a whole. "+
		"url, auth_header and the secrets of auth keep their value if they are sent as shown in responses. "+
		"If the scheme, host or port of url changes, or target_labels gains a label, auth_header, auth and each of headers must be given again, with a value or null: "+
		"a secret is never sent to a host for which it was not set. The status active enables a disabled subscription."
	create.maxBody, update.maxBody = configBody, configBody
	remove := subscriptionOperation("delete-subscription", http.MethodDelete, "/{id}", "Delete a subscription", eventhook.ScopeManage)
	remove.status, remove.about = http.StatusNoContent, "Deliveries that are still waiting are not sent. Completed deliveries remain readable."
	register(s, api, create, s.createSubscription)
	register(s, api, subscriptionOperation("list-subscriptions", http.MethodGet, "", "List subscriptions", eventhook.ScopeRead), s.listSubscriptions)
	register(s, api, subscriptionOperation("get-subscription", http.MethodGet, "/{id}", "Get a subscription", eventhook.ScopeRead), s.getSubscription)
	register(s, api, update, s.updateSubscription)
	register(s, api, remove, s.deleteSubscription)
	s.registerSubscriptionActions(api)
	s.registerSubscriptionSend(api)
	s.registerOperatorSubscriptions(api)
	s.registerReplays(api)
	s.registerSubscriptionBulks(api)
	register(s, api, subscriptionOperation("get-subscription-stats", http.MethodGet, "/{id}/stats",
		"Get statistics of a subscription", eventhook.ScopeRead), s.getStats)
}

func subscriptionOperation(id, method, path, summary string, scope eventhook.Scope) operation {
	return operation{id: id, method: method, path: base + "/subscriptions" + path, summary: summary, scope: scope, tag: "subscriptions"}
}

type createSubscriptionRequest struct {
	TenantPath
	Body document[SubscriptionCreate]
}

type subscriptionAnswer struct {
	ETag string `header:"ETag" doc:"Version of the subscription, for If-Match."`
	Body Subscription
}

type createdSubscription struct {
	Location string `header:"Location"`
	ETag     string `header:"ETag" doc:"Version of the subscription, for If-Match."`
	Body     SubscriptionCreated
}

func (s *server) createSubscription(ctx context.Context, by caller, in *createSubscriptionRequest) (*createdSubscription, error) {
	body, shape := in.Body.read(s)
	want := body.over(eventhook.Subscription{ID: eventhook.NewID[eventhook.Subscription](s.Now()), TenantID: by.tenant, TenantSlug: in.Tenant,
		Status: eventhook.SubscriptionActive})
	rules := s.checkSubscription(want, eventhook.Subscription{})
	if body.Validate && want.IsForAgents() {
		rules.Add("body.validate", "must not be given with target_labels: the gateway cannot test a receiver that an agent serves")
	}
	if err := cmp.Or(combinedError(shape, rules), by.checkCustomer(eventhook.Subscription{}, want)); err != nil {
		return nil, err
	}
	if err := s.checkReceiver(ctx, want, eventhook.Subscription{}); err != nil {
		return nil, err
	}
	if body.Validate {
		if err := s.validateReceiver(ctx, by, want); err != nil {
			return nil, err
		}
	}
	created, err := s.createFor(ctx, by, want)
	if err != nil {
		return nil, err
	}
	view := SubscriptionCreated{s.viewSubscription(created).withOutage(eventhook.Outage{}), want.Signing[0].Secret.Reveal()}
	view.URL = want.URL.Reveal()
	if err := s.warn(ctx, by.tenant, &view.Subscription); err != nil {
		s.Log.Warn("cannot check the tenants or the agents of a new subscription", "subscription", created.ID, "error", err)
	}
	return &createdSubscription{pathTo(in.Tenant, "subscriptions", view.ID), etag(created.Version), view}, nil
}

// validateReceiver sends a test event to a subscription that is not stored yet.
func (s *server) validateReceiver(ctx context.Context, by caller, want eventhook.Subscription) error {
	release, err := by.reservation.acquireSlot(ctx, trials)
	if err != nil {
		return err
	}
	defer release()
	a := s.Receivers.Tester.Validate(ctx, want)
	if a.Succeeded() {
		return nil
	}
	return invalid("body.url", "the subscription was not created, because the receiver did not answer a test event with 2xx: "+a.Error)
}

// SubscriptionQuery filters a list of subscriptions.
type SubscriptionQuery struct {
	PageQuery
	Status    string `query:"status" enum:"active,paused,disabled" doc:"Return only subscriptions with this status."`
	EventType string `query:"event_type" example:"payment.*" doc:"Return only subscriptions that receive events of this type, or of a type that this pattern matches."`
	Scope     string `query:"scope" maxLength:"256" example:"customer-42" doc:"Return only subscriptions that a customer of this scope sees in the portal: each pattern of their scope_filter is the scope or begins with it and a slash."`
}

// filter returns the filter of a list, with a limit of one more than a page.
func (q SubscriptionQuery) filter(pages pager) (f eventhook.SubscriptionFilter, err error) {
	f = eventhook.SubscriptionFilter{Status: eventhook.SubscriptionStatus(q.Status), Limit: q.Limit + 1}
	if f.Before, err = cursorOf[eventhook.Subscription](pages, q.Cursor); err != nil {
		return f, err
	}
	if q.Scope != "" {
		if wrong := eventhook.CheckScope(q.Scope); wrong != "" {
			return f, invalid("query.scope", wrong)
		}
		f.Scope = q.Scope
	}
	f.EventType, err = typeFilter("query.event_type", q.EventType)
	return f, err
}

type subscriptionsQuery struct {
	TenantPath
	SubscriptionQuery
}

func (s *server) listSubscriptions(ctx context.Context, by caller, in *subscriptionsQuery) (*page[Subscription], error) {
	pages := s.pager("subscriptions", by.tenant)
	f, err := in.filter(pages)
	if err != nil {
		return nil, err
	}
	f.Scope = cmp.Or(by.scope(), f.Scope)
	list, err := s.Subscriptions.Subscriptions(ctx, by.tenant, f)
	if err != nil {
		return nil, err
	}
	out := newPage(pages, list, in.Limit, s.viewSubscription, func(x eventhook.Subscription) eventhook.SubscriptionID { return x.ID })
	return out, s.warnOfAgents(ctx, by.tenant, pointers(out.Body.Items)...)
}

// SubscriptionPath is the part of a path that identifies a subscription.
type SubscriptionPath struct {
	TenantPath
	ID string `path:"id" format:"uuid" doc:"Subscription id."`
}

// findSubscription returns the subscription of a path. One that a customer may not see is
// KindNotFound.
func (s *server) findSubscription(ctx context.Context, by caller, in *SubscriptionPath) (eventhook.Subscription, error) {
	id, err := eventhook.ParseID[eventhook.Subscription](in.ID)
	if err != nil {
		return eventhook.Subscription{}, err
	}
	x, err := s.Subscriptions.Subscription(ctx, by.tenant, id)
	if err == nil && !by.sees(x) {
		return eventhook.Subscription{}, eventhook.NotFound("subscription")
	}
	return x, err
}

func (s *server) answerSubscription(ctx context.Context, by caller,
	x eventhook.Subscription) (*subscriptionAnswer, error) {
	o, err := s.Subscriptions.SubscriptionOutage(ctx, x, by.scope())
	if err != nil {
		return nil, err
	}
	if o.Recovery != nil && !by.replaysOf(x).Includes(*o.Recovery) {
		o.Recovery = nil
	}
	answer := &subscriptionAnswer{etag(x.Version), s.viewSubscription(x).withOutage(o)}
	return answer, s.warn(ctx, x.TenantID, &answer.Body)
}

// warn adds the warnings about other resources to subscriptions of a tenant.
func (s *server) warn(ctx context.Context, tenant eventhook.TenantID, views ...*Subscription) error {
	return errors.Join(s.warnOfTenants(ctx, views...), s.warnOfAgents(ctx, tenant, views...))
}

func (s *server) getSubscription(ctx context.Context, by caller, in *SubscriptionPath) (*subscriptionAnswer, error) {
	x, err := s.findSubscription(ctx, by, in)
	if err != nil {
		return nil, err
	}
	return s.answerSubscription(ctx, by, x)
}

type updateSubscriptionRequest struct {
	SubscriptionPath
	IfMatch
	Body document[SubscriptionPatch]
}

// errSubscriptionBusy is returned if concurrent updates repeatedly overtook one without
// If-Match.
var errSubscriptionBusy = &eventhook.Error{Kind: eventhook.KindConflict, Message: "The subscription is being changed concurrently; try again."}

// updateSubscription checks the updated subscription without holding a lock, because
// the check may resolve a host name. It then writes the subscription only if its
// version has not changed meanwhile.
func (s *server) updateSubscription(ctx context.Context, by caller, in *updateSubscriptionRequest) (*subscriptionAnswer, error) {
	const tries = 5
	var out *subscriptionAnswer
	err := in.applyIfMatch(func(version int64) error {
		for range tries {
			x, err := s.tryUpdateSubscription(ctx, by, in, version)
			if err == nil {
				out, err = s.answerSubscription(ctx, by, x)
				return err
			}
			if version != 0 || !errors.Is(err, eventhook.ErrStale) {
				return err
			}
		}
		return errSubscriptionBusy
	})
	return out, err
}

func (s *server) tryUpdateSubscription(ctx context.Context, by caller, in *updateSubscriptionRequest, wanted int64) (eventhook.Subscription, error) {
	have, err := s.findSubscription(ctx, by, &in.SubscriptionPath)
	if err != nil {
		return have, err
	}
	if wanted != 0 && wanted != have.Version {
		return have, eventhook.ErrStale
	}
	want, err := s.patchedSubscription(have, in.Body)
	if err != nil {
		return have, err
	}
	if err := by.checkCustomer(have, want); err != nil {
		return have, err
	}
	if err := s.checkReceiver(ctx, want, have); err != nil {
		return have, err
	}
	return s.Subscriptions.UpdateSubscription(ctx, by.actor(), by.tenant, have.ID, have.Version,
		func(eventhook.Subscription) (eventhook.Subscription, error) { return want, nil })
}

type deleteSubscriptionRequest struct {
	SubscriptionPath
	IfMatch
}

func (s *server) deleteSubscription(ctx context.Context, by caller, in *deleteSubscriptionRequest) (*struct{}, error) {
	id, err := eventhook.ParseID[eventhook.Subscription](in.ID)
	if err != nil {
		return nil, err
	}
	var seen int64 // by a customer; another version may be of another customer
	if by.customer != nil {
		x, err := s.findSubscription(ctx, by, &in.SubscriptionPath)
		if err != nil {
			return nil, err
		}
		seen = x.Version
	}
	return nil, in.applyIfMatch(func(version int64) error {
		return s.Subscriptions.DeleteSubscription(ctx, by.actor(), by.tenant, id, cmp.Or(version, seen))
	})
}
