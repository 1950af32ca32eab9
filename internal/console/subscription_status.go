package console

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/web"
)

// statusChange is an act that changes the status of subscriptions.
type statusChange struct {
	Verb string // of the act, for example Pause
	Done string // for example paused
	// Effect tells what the act does.
	Effect string
	one    func(*client.Client, context.Context, string, string, ...client.CallOption) (client.Subscription, error)
	many   func(*client.Client, context.Context, string, client.SubscriptionsBulk, ...client.CallOption) (client.SubscriptionsChanged, error)
}

// statusChanges are the acts by the name that a form sends.
var statusChanges = map[string]statusChange{
	"pause": {"Pause", "paused", "New deliveries are stored and held, and are sent after a resume. Disabled subscriptions stay disabled.",
		(*client.Client).PauseSubscription, (*client.Client).PauseSubscriptions},
	"resume": {"Resume", "resumed", "The deliveries that were held are sent, and new ones as they arrive. Disabled subscriptions stay disabled.",
		(*client.Client).ResumeSubscription, (*client.Client).ResumeSubscriptions},
	"enable": {"Enable", "enabled",
		"Waiting and held deliveries are sent. If failures had disabled a subscription, its oldest missed delivery is sent at once, and the rest as soon as the receiver answers with 2xx.",
		(*client.Client).EnableSubscription, (*client.Client).EnableSubscriptions},
	"disable": {"Disable", "disabled", "No deliveries are created until a person enables the subscription: events of this time are not sent. Waiting deliveries are kept.",
		(*client.Client).DisableSubscription, (*client.Client).DisableSubscriptions},
}

// changeOf returns the act that a form names.
func (r *request) changeOf() (statusChange, error) {
	if err := r.ParseForm(); err != nil {
		return statusChange{}, err
	}
	act, ok := statusChanges[r.PostForm.Get("act")]
	if !ok {
		return act, &client.Problem{Title: "Bad Request", Status: http.StatusBadRequest, Detail: "The form names no act: pause, resume, enable or disable."}
	}
	return act, nil
}

func (c *Console) changeSubscription(r *request) (view, error) {
	act, err := r.changeOf()
	if err != nil {
		return view{}, err
	}
	id := r.PathValue("id")
	if _, err := act.one(r.api, r.detached(), r.tenant, id); err != nil {
		return view{}, err
	}
	return redirect(r.base()+"/subscriptions/"+url.PathEscape(id), "The subscription is "+act.Done+".")
}

// changeChosen changes the subscriptions whose boxes are checked, each by its own call.
func (c *Console) changeChosen(r *request) (view, error) {
	act, err := r.changeOf()
	if err != nil {
		return view{}, err
	}
	ids, err := r.chosen()
	if err != nil {
		return view{}, err
	}
	var last error
	done := 0
	for _, id := range ids {
		if _, err := act.one(r.api, r.detached(), r.tenant, id); err != nil {
			last = err
			continue
		}
		done++
	}
	if done == 0 && last != nil {
		return view{}, last
	}
	return redirect(r.base()+"/subscriptions", doneNotice(done, len(ids), "subscription is "+act.Done, "subscriptions are "+act.Done, last))
}

// bulkQuestion is the data of the page that asks before many subscriptions are changed.
type bulkQuestion struct {
	statusChange
	Act        string
	Count      int64
	HasChanged bool
	Filters    map[string]string
	Back       string
}

// changeSubscriptions changes the subscriptions that match the filters of the form. It asks first,
// with their number.
func (c *Console) changeSubscriptions(r *request) (view, error) {
	act, err := r.changeOf()
	if err != nil {
		return view{}, err
	}
	n, isConfirmed := r.expected()
	const limit = 10000
	most := int64(limit)
	body := client.SubscriptionsBulk{ExpectedCount: &n, Limit: &most, Filter: client.SubscriptionsBulkFilter{EventType: r.posted("event_type")}}
	filters, back := map[string]string{}, url.Values{}
	for _, name := range []string{"status", "event_type"} {
		if v := r.PostForm.Get(name); v != "" {
			filters[name] = v
			back.Set(name, v)
		}
	}
	if status := filters["status"]; status != "" {
		body.Filter.Status = []client.SubscriptionStatus{client.SubscriptionStatus(status)}
	}
	to := r.base() + "/subscriptions?" + back.Encode()
	done, err := act.many(r.api, r.detached(), r.tenant, body)
	if count, ok := matchesOf(err); ok {
		return view{Title: act.Verb + " subscriptions", Data: bulkQuestion{statusChange: act, Act: r.PostForm.Get("act"), Count: count,
			HasChanged: isConfirmed, Filters: filters, Back: to}}, nil
	}
	if err != nil {
		return view{}, err
	}
	return redirect(to, fmt.Sprintf("%s matched, %s %s.", web.Plural(done.MatchedCount, "subscription", "subscriptions"), web.Number(done.ChangedCount), act.Done))
}
