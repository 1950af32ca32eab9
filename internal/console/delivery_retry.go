package console

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/web"
)

// maxRetried is how many deliveries the API retries in one call, and maxRetryCalls limits the calls
// of one act.
const (
	maxRetried    = 1000
	maxRetryCalls = 10
)

// retryQuestion is the data of the page that asks before many deliveries are retried.
type retryQuestion struct {
	Count int64
	// Now is how many of them one act retries, the newest.
	Now int64
	// HasChanged is true if another number was confirmed before.
	HasChanged bool
	// Title tells the group; "" for a filter.
	Title   string
	Filters map[string]string
	Back    string
	// Subscription is the destination; "" if there are several.
	Subscription string
}

// retryDeliveries retries the failed and dead deliveries that match the filters of the form. It
// asks first, with their number.
func (c *Console) retryDeliveries(r *request) (view, error) {
	body, filters, err := r.retryBody()
	if err != nil {
		return view{}, err
	}
	back := r.retryBack(filters)
	n, isConfirmed := r.expected()
	done, err := r.retryAll(body, n)
	count, isCounted := matchesOf(err)
	switch {
	case isCounted && done == 0:
		return view{Title: "Retry deliveries", Data: retryQuestion{Count: count, Now: min(count, maxRetried*maxRetryCalls), HasChanged: isConfirmed,
			Title: r.PostForm.Get("title"), Filters: filters, Back: back, Subscription: filters["subscription_id"]}}, nil
	case err != nil && done == 0:
		return view{}, err
	case done == 0:
		return redirect(back, "No failed or dead delivery matches. Nothing was retried.")
	case done < n:
		return redirect(back, fmt.Sprintf("%s of %s deliveries are sent again. Look at the rest, and retry them too if you want.",
			web.Number(done), web.Number(n)))
	}
	return redirect(back, web.Plural(done, "delivery is", "deliveries are")+" sent again.")
}

// retryAll retries the deliveries that match, in calls of maxRetried, as long as as many match as
// are expected. done is the number of retried deliveries, also with an error.
func (r *request) retryAll(body client.DeliveriesRetry, expected int64) (done int64, err error) {
	for range maxRetryCalls {
		left := expected - done
		body.ExpectedCount = &left
		some, err := r.api.RetryDeliveries(r.detached(), r.tenant, body)
		if err != nil {
			return done, err
		}
		done += some.RetriedCount
		if some.RetriedCount < maxRetried || done >= expected {
			return done, nil
		}
	}
	return done, nil
}

// retryBody returns the act that a form describes, and the filters that it has.
func (r *request) retryBody() (body client.DeliveriesRetry, filters map[string]string, err error) {
	if err := r.ParseForm(); err != nil {
		return body, nil, err
	}
	body = client.DeliveriesRetry{Limit: maxRetried, Filter: client.DeliveriesRetryFilter{Key: r.posted("key"), SubscriptionID: r.posted("subscription_id"),
		RouteID: r.posted("route_id"), EventID: r.posted("event_id")}}
	if status := r.PostForm.Get("status"); status != "" {
		body.Filter.Status = []client.DeliveryStatus{client.DeliveryStatus(status)}
	}
	var isAfter, isBefore bool
	body.Filter.CreatedAfter, isAfter = parseTime(r.PostForm.Get("created_after"))
	body.Filter.CreatedBefore, isBefore = parseTime(r.PostForm.Get("created_before"))
	if !isAfter || !isBefore {
		return body, nil, &client.Problem{Title: "Bad Request", Status: http.StatusBadRequest, Detail: "A time of the filter cannot be read."}
	}
	filters = map[string]string{}
	for _, name := range []string{"key", "subscription_id", "route_id", "event_id", "status", "created_after", "created_before"} {
		if v := r.PostForm.Get(name); v != "" {
			filters[name] = v
		}
	}
	return body, filters, nil
}

// retryBack returns the address of the list from which deliveries were retried.
func (r *request) retryBack(filters map[string]string) string {
	if filters["key"] != "" {
		return r.base() + "/deliveries/dead"
	}
	q := url.Values{}
	for name, v := range filters {
		q.Set(name, v)
	}
	if len(q) == 0 {
		return r.base() + "/deliveries"
	}
	return r.base() + "/deliveries?" + q.Encode()
}

// retryChosen retries the deliveries whose boxes are checked, each by its own call.
func (c *Console) retryChosen(r *request) (view, error) {
	if err := r.ParseForm(); err != nil {
		return view{}, err
	}
	ids, err := r.chosen()
	if err != nil {
		return view{}, err
	}
	var last error
	done := 0
	for _, id := range ids {
		if _, err := r.api.RetryDelivery(r.detached(), r.tenant, id); err != nil {
			last = err
			continue
		}
		done++
	}
	if done == 0 && last != nil {
		return view{}, last
	}
	return redirect(r.base()+"/deliveries", doneNotice(done, len(ids), "delivery is sent again", "deliveries are sent again", last))
}

// doneNotice tells how many of the chosen objects an act changed, and why not all.
func doneNotice(done, chosen int, one, many string, last error) string {
	if done == chosen {
		return web.Plural(done, one, many) + "."
	}
	notice := fmt.Sprintf("%d of %d chosen %s.", done, chosen, many)
	if p, ok := errors.AsType[*client.Problem](last); ok && p.Detail != "" {
		notice += " The last refusal: " + p.Detail
	}
	return notice
}

func (c *Console) retryDelivery(r *request) (view, error) {
	id := r.PathValue("id")
	if _, err := r.api.RetryDelivery(r.detached(), r.tenant, id); err != nil {
		return view{}, err
	}
	return redirect(r.base()+"/deliveries/"+url.PathEscape(id), "The delivery is sent again, with all its retries.")
}
