package console

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/eventhook/eventhook/client"
)

// eventPath returns the path of the page of the event in the path.
func (r *request) eventPath() string {
	return r.base() + "/events/" + url.PathEscape(r.PathValue("id"))
}

// reprocessEvent processes one event again. With the mode again it makes a new event of the payload
// and redirects to it.
func (c *Console) reprocessEvent(r *request) (view, error) {
	id, mode := r.PathValue("id"), client.EventReprocessModeRetry
	if r.PostFormValue("mode") == "again" {
		mode = client.EventReprocessModeAgain
	}
	done, err := r.api.ReprocessEvents(r.detached(), r.tenant, client.EventReprocess{EventIDs: []string{id}, Mode: &mode})
	switch {
	case err != nil:
		return view{}, err
	case len(done.Skipped) > 0:
		return redirect(r.eventPath(), "No event was created: "+done.Skipped[0].Reason+".")
	case done.ReprocessedCount == 0:
		return redirect(r.eventPath(), "Nothing was done: the event is no longer failed, dead or unrouted.")
	case mode == client.EventReprocessModeAgain && len(done.EventIDs) > 0:
		return redirect(r.base()+"/events/"+url.PathEscape(done.EventIDs[0]), "This is the new event. It has the same payload, and today's routes process it.")
	}
	return redirect(r.eventPath(), "The event is processed again.")
}

// sendEvent sends the event to the chosen subscription. A refusal is shown at the form.
func (c *Console) sendEvent(r *request) (view, error) {
	subscription := r.PostFormValue("subscription")
	var sent client.SubscriptionSent
	err := error(&client.Problem{Status: http.StatusUnprocessableEntity, Title: "Unprocessable Entity",
		Errors: []client.Fault{{Location: "body.subscription", Message: "choose a subscription"}}})
	if subscription != "" {
		sent, err = r.api.SendEvent(r.detached(), r.tenant, subscription, client.SubscriptionSend{EventID: r.PathValue("id")})
	}
	if err == nil {
		return redirect(r.eventPath(), sentNotice(sent))
	}
	s, failed := c.storyOf(r)
	if failed != nil {
		return view{}, failed
	}
	if !s.Send.refuse(err) {
		return view{}, err
	}
	v := storyView(s)
	v.Status = http.StatusUnprocessableEntity
	return v, nil
}

func sentNotice(sent client.SubscriptionSent) string {
	if sent.Created {
		return "The event is being sent: it has a new delivery " + sent.DeliveryID + "."
	}
	return "The event is being sent again with its delivery " + sent.DeliveryID + "."
}

// retryDeliveryOfEvent retries a delivery of the event.
func (c *Console) retryDeliveryOfEvent(r *request) (view, error) {
	id := r.PostFormValue("delivery")
	if id == "" {
		return view{}, &client.Problem{Title: "Bad Request", Status: http.StatusBadRequest,
			Detail: "The form names no delivery to retry."}
	}
	if _, err := r.api.RetryDelivery(r.detached(), r.tenant, id); err != nil {
		return view{}, err
	}
	return redirect(r.eventPath(), "The delivery is due now, with all its retries.")
}

// retryExecutionOfEvent retries an execution of the event.
func (c *Console) retryExecutionOfEvent(r *request) (view, error) {
	id := r.PostFormValue("execution")
	if id == "" {
		return view{}, &client.Problem{Title: "Bad Request", Status: http.StatusBadRequest,
			Detail: "The form names no execution to retry."}
	}
	if _, err := r.api.RetryWork(r.detached(), r.tenant, id); err != nil {
		return view{}, err
	}
	return redirect(r.eventPath(), "The execution is due now, with all its attempts.")
}

// problemDetail returns the detail of a problem of the API, else its title.
func problemDetail(err error) string {
	p, ok := errors.AsType[*client.Problem](err)
	if !ok {
		return ""
	}
	if p.Detail == "" {
		return p.Title
	}
	return p.Detail
}
