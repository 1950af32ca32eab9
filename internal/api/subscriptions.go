package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

// SubscriptionStore keeps subscriptions, with the errors of SourceStore. One
// that is deleted is gone at once, whatever is still owed to it.
type SubscriptionStore interface {
	// Subscription and Subscriptions show one whose secrets cannot be opened
	// without them.
	Subscription(ctx context.Context, tenant eventhook.TenantID, id eventhook.SubscriptionID) (eventhook.Subscription, error)
	Subscriptions(ctx context.Context, tenant eventhook.TenantID, before eventhook.SubscriptionID, limit int) ([]eventhook.Subscription, error)
	CreateSubscription(ctx context.Context, by eventhook.Actor, s eventhook.Subscription) (eventhook.Subscription, error)
	UpdateSubscription(ctx context.Context, by eventhook.Actor, tenant eventhook.TenantID, id eventhook.SubscriptionID, version int64, change func(eventhook.Subscription) (eventhook.Subscription, error)) (eventhook.Subscription, error)
	DeleteSubscription(ctx context.Context, by eventhook.Actor, tenant eventhook.TenantID, id eventhook.SubscriptionID, version int64) error
	SubscriptionStats(ctx context.Context, tenant eventhook.TenantID, id eventhook.SubscriptionID) (eventhook.SubscriptionStats, error)
}

// Receivers are where subscriptions send, as the API looks at them.
type Receivers struct {
	// CheckFilter says what is wrong with a filter, by places within it.
	CheckFilter func(filter []byte) eventhook.Faults
	// CheckAddress is nil for a URL that may be called, as far as that can be
	// told now. Its error is for people.
	CheckAddress func(ctx context.Context, url string) error
	Tester       Tester
	RequireHTTPS bool // refuse http:// URLs
}

func (s *server) registerSubscriptions(api huma.API) {
	create := subscriptionOperation("create-subscription", http.MethodPost, "", "Make a subscription", eventhook.ScopeManage)
	create.status, create.skipsShape = http.StatusCreated, true
	create.about = "The answer holds the signing secret, this once, and the whole URL. With validate, a test event must be answered with 2xx first, else nothing is made."
	update := subscriptionOperation("update-subscription", http.MethodPatch, "/{id}", "Change what is named of a subscription", eventhook.ScopeManage)
	update.skipsShape, update.about = true, "A JSON merge patch: null is the default, and what is not named stays. The filter is replaced whole. "+
		"A url and an auth_header that are written back as they are shown stay. "+
		"If url changes its scheme, host or port, or target_labels gains a label, auth_header and each of headers must be named again with a value or null: "+
		"a secret is never sent to a host that it was not given for. The status active enables a subscription that was disabled."
	create.maxBody, update.maxBody = configBody, configBody
	remove := subscriptionOperation("delete-subscription", http.MethodDelete, "/{id}", "Delete a subscription", eventhook.ScopeManage)
	remove.status, remove.about = http.StatusNoContent, "What it has not received yet is not sent any more. Deliveries that are done can still be read."
	register(s, api, create, s.addSubscription)
	register(s, api, subscriptionOperation("list-subscriptions", http.MethodGet, "", "List subscriptions, newest first", eventhook.ScopeRead), s.listSubscriptions)
	register(s, api, subscriptionOperation("get-subscription", http.MethodGet, "/{id}", "Read a subscription", eventhook.ScopeRead), s.readSubscription)
	register(s, api, update, s.changeSubscription)
	register(s, api, remove, s.deleteSubscription)
	s.registerSubscriptionActs(api)
	s.registerReplay(api)
}

func subscriptionOperation(id, method, path, summary string, scope eventhook.Scope) operation {
	return operation{id: id, method: method, path: base + "/subscriptions" + path, summary: summary, scope: scope, tag: "subscriptions"}
}

type createSubscriptionRequest struct {
	TenantPath
	Body document[SubscriptionCreate]
}

type subscriptionAnswer struct {
	ETag string `header:"ETag" doc:"Its version, for If-Match."`
	Body Subscription
}

type createdSubscription struct {
	Location string `header:"Location"`
	ETag     string `header:"ETag" doc:"Its version, for If-Match."`
	Body     SubscriptionCreated
}

func (s *server) addSubscription(ctx context.Context, who caller, in *createSubscriptionRequest) (*createdSubscription, error) {
	body, shape := in.Body.read(s)
	want := body.over(eventhook.Subscription{ID: eventhook.NewID[eventhook.Subscription](s.Now()), TenantID: who.tenant, TenantSlug: in.Tenant,
		Status: eventhook.SubscriptionActive})
	rules := s.checkSubscription(want, eventhook.Subscription{})
	if body.Validate && want.IsForAgents() {
		rules.Add("body.validate", "only what the gateway sends itself can be tried from here: leave out validate, or target_labels")
	}
	if err := together(shape, rules); err != nil {
		return nil, err
	}
	if err := s.checkReceiver(ctx, want, eventhook.Subscription{}); err != nil {
		return nil, err
	}
	if body.Validate {
		if err := s.validateReceiver(ctx, who, want); err != nil {
			return nil, err
		}
	}
	made, err := s.Subscriptions.CreateSubscription(ctx, who.actor(), want)
	if err != nil {
		return nil, err
	}
	view := SubscriptionCreated{s.viewSubscription(made), want.Signing[0].Secret.Reveal()}
	view.URL = want.URL.Reveal()
	return &createdSubscription{pathTo(in.Tenant, "subscriptions", view.ID), etag(made.Version), view}, nil
}

// validateReceiver has a test event sent to what is not stored yet.
func (s *server) validateReceiver(ctx context.Context, who caller, want eventhook.Subscription) error {
	leave, err := who.hold.inTurn(ctx, trials)
	if err != nil {
		return err
	}
	defer leave()
	a := s.Receivers.Tester.Validate(ctx, want)
	if a.Succeeded() {
		return nil
	}
	return invalid("body.url", "nothing was made, since a test event was not answered with 2xx: "+a.Error)
}

type subscriptionsQuery struct {
	TenantPath
	PageQuery
}

func (s *server) listSubscriptions(ctx context.Context, who caller, in *subscriptionsQuery) (*page[Subscription], error) {
	pages := s.pager("subscriptions", who.tenant)
	before, err := cursorOf[eventhook.Subscription](pages, in.Cursor)
	if err != nil {
		return nil, err
	}
	list, err := s.Subscriptions.Subscriptions(ctx, who.tenant, before, in.Limit+1)
	if err != nil {
		return nil, err
	}
	return makePage(pages, list, in.Limit, s.viewSubscription, func(x eventhook.Subscription) eventhook.SubscriptionID { return x.ID }), nil
}

// SubscriptionPath is the part of a path that names a subscription.
type SubscriptionPath struct {
	TenantPath
	ID string `path:"id" format:"uuid" doc:"The subscription's id."`
}

// findSubscription finds the one that a path names.
func (s *server) findSubscription(ctx context.Context, who caller, in *SubscriptionPath) (eventhook.Subscription, error) {
	id, err := eventhook.ParseID[eventhook.Subscription](in.ID)
	if err != nil {
		return eventhook.Subscription{}, err
	}
	return s.Subscriptions.Subscription(ctx, who.tenant, id)
}

func (s *server) showSubscription(x eventhook.Subscription) *subscriptionAnswer {
	return &subscriptionAnswer{etag(x.Version), s.viewSubscription(x)}
}

func (s *server) readSubscription(ctx context.Context, who caller, in *SubscriptionPath) (*subscriptionAnswer, error) {
	x, err := s.findSubscription(ctx, who, in)
	if err != nil {
		return nil, err
	}
	return s.showSubscription(x), nil
}

type changeSubscriptionRequest struct {
	SubscriptionPath
	IfMatch
	Body document[SubscriptionPatch]
}

// errSubscriptionBusy answers a change that names no version and was overtaken
// again and again.
var errSubscriptionBusy = &eventhook.Error{Kind: eventhook.KindConflict, Message: "Others are changing the subscription, too: try again."}

// changeSubscription looks at what a subscription would become while nothing
// is locked, since its host's name may have to be resolved, and then changes
// the version that it has seen.
func (s *server) changeSubscription(ctx context.Context, who caller, in *changeSubscriptionRequest) (*subscriptionAnswer, error) {
	const tries = 5
	var out *subscriptionAnswer
	err := in.held(func(version int64) error {
		for range tries {
			x, err := s.tryToChangeSubscription(ctx, who, in, version)
			if err == nil {
				out = s.showSubscription(x)
				return nil
			}
			if version != 0 || !errors.Is(err, eventhook.ErrStale) {
				return err
			}
		}
		return errSubscriptionBusy
	})
	return out, err
}

func (s *server) tryToChangeSubscription(ctx context.Context, who caller, in *changeSubscriptionRequest, wanted int64) (eventhook.Subscription, error) {
	have, err := s.findSubscription(ctx, who, &in.SubscriptionPath)
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
	if err := s.checkReceiver(ctx, want, have); err != nil {
		return have, err
	}
	return s.Subscriptions.UpdateSubscription(ctx, who.actor(), who.tenant, have.ID, have.Version,
		func(eventhook.Subscription) (eventhook.Subscription, error) { return want, nil })
}

type deleteSubscriptionRequest struct {
	SubscriptionPath
	IfMatch
}

func (s *server) deleteSubscription(ctx context.Context, who caller, in *deleteSubscriptionRequest) (*struct{}, error) {
	id, err := eventhook.ParseID[eventhook.Subscription](in.ID)
	if err != nil {
		return nil, err
	}
	return nil, in.held(func(version int64) error {
		return s.Subscriptions.DeleteSubscription(ctx, who.actor(), who.tenant, id, version)
	})
}
