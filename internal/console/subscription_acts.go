package console

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/eventhook/eventhook/client"
)

// testSubscription sends a test event and shows the answer of the receiver.
func (c *Console) testSubscription(r *request) (view, error) {
	tested, err := r.api.TestSubscription(r.detached(), r.tenant, r.PathValue("id"))
	if err != nil {
		return view{}, err
	}
	return r.subscriptionView(subscriptionPage{Tested: &tested})
}

// rotateSecret makes a new signing secret and shows it once.
func (c *Console) rotateSecret(r *request) (view, error) {
	if err := r.ParseForm(); err != nil {
		return view{}, err
	}
	f := r.formOf(nil, "grace_seconds", "signing_secret")
	body := client.SecretRotation{SigningSecret: r.posted("signing_secret")}
	if grace, err := strconv.ParseInt(f.Get("grace_seconds"), 10, 64); err == nil {
		body.GraceSeconds = &grace
	}
	rotated, err := r.api.RotateSubscriptionSecret(r.detached(), r.tenant, r.PathValue("id"), body)
	if err == nil {
		return r.subscriptionView(subscriptionPage{Secret: &rotated})
	}
	if !f.refuse(err) {
		return view{}, err
	}
	v, err := r.subscriptionView(subscriptionPage{})
	if p, ok := v.Data.(subscriptionPage); ok {
		f.Values = url.Values{"grace_seconds": f.Values["grace_seconds"]} // a refused secret is not shown
		p.Rotation = f
		v.Data, v.Status = p, http.StatusUnprocessableEntity
	}
	return v, err
}

func (c *Console) deleteSubscription(r *request) (view, error) {
	if err := r.ParseForm(); err != nil {
		return view{}, err
	}
	if err := r.api.DeleteSubscription(r.detached(), r.tenant, r.PathValue("id"), client.DeleteSubscriptionParams{IfMatch: r.version()}); err != nil {
		return view{}, err
	}
	return redirect(r.base()+"/subscriptions", "The subscription is deleted. Its deliveries stay in the list until their retention ends.")
}

// version returns the ETag of the version that the form was made for; nil without one.
func (r *request) version() *string {
	if v := r.posted("version"); v != nil {
		tag := strconv.Quote(*v)
		return &tag
	}
	return nil
}
