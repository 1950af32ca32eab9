package portal

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/web"
)

var actPages = []page{
	{pattern: "POST /portal/endpoints/{endpoint}/test", handle: (*Portal).testEndpoint, isTest: true},
	{pattern: "POST /portal/endpoints/{endpoint}/pause", handle: (*Portal).pauseEndpoint},
	{pattern: "POST /portal/endpoints/{endpoint}/resume", handle: (*Portal).resumeEndpoint},
	{pattern: "POST /portal/endpoints/{endpoint}/enable", handle: (*Portal).enableEndpoint},
	{pattern: "POST /portal/endpoints/{endpoint}/rotate", template: "secret", handle: (*Portal).rotateSecret},
	{pattern: "POST /portal/endpoints/{endpoint}/delete", handle: (*Portal).deleteEndpoint},
}

// testEndpoint sends a test event and shows its delivery.
func (p *Portal) testEndpoint(r *request) (view, error) {
	tested, err := r.api.TestSubscription(r.detached(), r.tenant(), r.endpoint.ID)
	if err != nil {
		return view{}, err
	}
	took := web.Duration(time.Duration(tested.DurationMs) * time.Millisecond)
	result := "The test event failed after " + took + "."
	if tested.Delivered && tested.StatusCode != nil {
		result = fmt.Sprintf("The test event was delivered: your endpoint answered %d in %s.", *tested.StatusCode, took)
	}
	return redirect(Root+"/deliveries/"+tested.DeliveryID, result)
}

// operation is an operation of the API on a subscription of a tenant.
type operation func(ctx context.Context, tenant, id string, options ...client.CallOption) (client.Subscription, error)

// act calls an operation of the API that changes the status of the endpoint.
func (r *request) act(call operation, notice string) (view, error) {
	if _, err := call(r.detached(), r.tenant(), r.endpoint.ID); err != nil {
		return view{}, err
	}
	return redirect(r.base(), notice)
}

func (p *Portal) pauseEndpoint(r *request) (view, error) {
	return r.act(r.api.PauseSubscription, "The endpoint is paused. Deliveries are held until you resume it.")
}

func (p *Portal) resumeEndpoint(r *request) (view, error) {
	return r.act(r.api.ResumeSubscription, "The endpoint is active again. The held deliveries are being sent.")
}

func (p *Portal) enableEndpoint(r *request) (view, error) {
	return r.act(r.api.EnableSubscription, "The endpoint is enabled. As soon as it answers, the deliveries that it missed are sent.")
}

// secretPage is the data of the page that shows a signing secret once.
type secretPage struct {
	Title, Name, ID, Secret string
	IsNew                   bool
	BothUntil               *time.Time // until when the previous secret signs, too
}

func (p *Portal) rotateSecret(r *request) (view, error) {
	rotated, err := r.api.RotateSubscriptionSecret(r.detached(), r.tenant(), r.endpoint.ID, client.SecretRotation{})
	if err != nil {
		return view{}, err
	}
	return view{Title: "New signing secret", Data: secretPage{Title: "New signing secret", Name: r.endpoint.Name, ID: r.endpoint.ID,
		Secret: rotated.SigningSecret, BothUntil: rotated.PreviousExpiresAt}}, nil
}

func (p *Portal) deleteEndpoint(r *request) (view, error) {
	match := fmt.Sprintf(`"%d"`, r.endpoint.Version)
	checked := client.DeleteSubscriptionParams{IfMatch: &match}
	if err := r.api.DeleteSubscription(r.detached(), r.tenant(), r.endpoint.ID, checked); err != nil {
		return view{}, err
	}
	return redirect(Root, "The endpoint "+cmp.Or(r.endpoint.Name, r.endpoint.ID)+" was deleted.")
}
