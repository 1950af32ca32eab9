package console

import (
	"net/http"
	"net/url"

	"github.com/eventhook/eventhook/client"
)

var promisePages = []page{
	{pattern: "GET /console/t/{tenant}/promises", reads: []string{"work"},
		template: "promises", handle: (*Console).promises, isLive: true},
	{pattern: "GET /console/t/{tenant}/promises/new", needs: "work",
		template: "promise_new", handle: (*Console).newPromise},
	{pattern: "POST /console/t/{tenant}/promises/new", needs: "work",
		template: "promise_new", handle: (*Console).createPromise},
	{pattern: "GET /console/t/{tenant}/promises/{id}", reads: []string{"work"},
		template: "promise", handle: (*Console).promise},
	{pattern: "POST /console/t/{tenant}/promises/{id}/resolve", needs: "work",
		template: "promise", handle: (*Console).resolvePromise},
	{pattern: "POST /console/t/{tenant}/promises/{id}/reject", needs: "work",
		template: "promise", handle: (*Console).rejectPromise},
}

var promiseStatuses = []string{"pending", "resolved", "rejected", "expired"}

// promiseList is the data of the list of promises.
type promiseList struct {
	Promises   []client.Promise
	Filter     form
	Statuses   []string
	Pager      pager
	IsFiltered bool
}

func (c *Console) promises(r *request) (view, error) {
	cursor, limit := r.cursor()
	found, err := r.api.ListPromises(r.Context(), r.tenant, client.ListPromisesParams{Cursor: cursor, Limit: limit,
		IdempotencyKey: r.filter("idempotency_key"), Status: filterAs[client.ListPromisesParamsStatus](r, "status")})
	if err != nil {
		return view{}, err
	}
	return view{Title: "Promises", Data: promiseList{Promises: found.Items, Filter: form{Values: r.URL.Query()}, Statuses: promiseStatuses,
		Pager: r.pager(found.NextCursor), IsFiltered: r.filter("status") != nil || r.filter("idempotency_key") != nil}}, nil
}

// promiseStory is the data of the page of a promise.
type promiseStory struct {
	client.Promise
	Value           *document
	Resolve, Reject form
}

func (c *Console) promise(r *request) (view, error) {
	empty := form{Values: url.Values{}, Faults: map[string]string{}}
	return c.showPromise(r, empty, empty, http.StatusOK)
}

func (c *Console) showPromise(r *request, resolve, reject form, status int) (view, error) {
	p, err := r.api.GetPromise(r.Context(), r.tenant, r.PathValue("id"), client.GetPromiseParams{})
	if err != nil {
		return view{}, err
	}
	story := promiseStory{Promise: p, Resolve: resolve, Reject: reject, Value: documentOf("Value", p.Value)}
	return view{Title: "Promise " + p.IdempotencyKey, Data: story, Status: status}, nil
}

func (c *Console) resolvePromise(r *request) (view, error) {
	if err := r.ParseForm(); err != nil {
		return view{}, err
	}
	f := r.formOf(nil, "value")
	body := client.ResolveRequest{}
	if value := f.json("value"); value != nil {
		body.Value = value
	}
	if f.isReadable() {
		_, err := r.api.ResolvePromise(r.detached(), r.tenant, r.PathValue("id"), body)
		if err == nil {
			return redirect(r.promisePath(r.PathValue("id")), "The promise is resolved. A workflow that awaits it continues.")
		}
		if !f.refuse(err) {
			return view{}, err
		}
	}
	return c.showPromise(r, f, form{Values: url.Values{}}, http.StatusUnprocessableEntity)
}

func (c *Console) rejectPromise(r *request) (view, error) {
	if err := r.ParseForm(); err != nil {
		return view{}, err
	}
	f := r.formOf(nil, "error")
	_, err := r.api.RejectPromise(r.detached(), r.tenant, r.PathValue("id"), client.RejectRequest{Error: f.Get("error")})
	if err == nil {
		return redirect(r.promisePath(r.PathValue("id")), "The promise is rejected. A workflow that awaits it continues with the error.")
	}
	if !f.refuse(err) {
		return view{}, err
	}
	return c.showPromise(r, form{Values: url.Values{}}, f, http.StatusUnprocessableEntity)
}

func (r *request) promisePath(id string) string { return r.base() + "/promises/" + url.PathEscape(id) }

var promiseFields = []string{"idempotency_key", "timeout_seconds", "workflow_execution_id"}

func (c *Console) newPromise(r *request) (view, error) {
	return view{Title: "Create a promise", Data: r.formOf(nil, promiseFields...)}, nil
}

func (c *Console) createPromise(r *request) (view, error) {
	if err := r.ParseForm(); err != nil {
		return view{}, err
	}
	f := r.formOf(nil, promiseFields...)
	body := client.CreatePromiseRequest{IdempotencyKey: f.Get("idempotency_key"), TimeoutSeconds: f.integer("timeout_seconds"),
		WorkflowExecutionID: f.text("workflow_execution_id")}
	if f.isReadable() {
		p, err := r.api.CreatePromise(r.detached(), r.tenant, body)
		if err == nil {
			return redirect(r.promisePath(p.ID), "This is the promise with the idempotency key "+p.IdempotencyKey+".")
		}
		if !f.refuse(err) {
			return view{}, err
		}
	}
	return view{Title: "Create a promise", Data: f, Status: http.StatusUnprocessableEntity}, nil
}
