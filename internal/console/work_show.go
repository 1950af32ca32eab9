package console

import (
	"net/url"

	"github.com/eventhook/eventhook/client"
)

// executionStory is the data of the page of an execution.
type executionStory struct {
	client.Execution
	Documents []*document
	CanCancel bool // it has not ended
	CanRetry  bool
}

func (c *Console) execution(r *request) (view, error) {
	e, err := r.api.GetWork(r.Context(), r.tenant, r.PathValue("id"))
	if err != nil {
		return view{}, err
	}
	story := executionStory{Execution: e, Documents: documentsOf(optionalOf("Output", e.Output),
		optionalOf("State", e.State), optionalOf("Input", e.Input))}
	story.Output, story.State, story.Input = nil, nil, nil // the page has the documents
	switch e.Status {
	case "completed":
	case "dead", "cancelled":
		story.CanRetry = true
	case "failed":
		story.CanRetry, story.CanCancel = true, true
	default:
		story.CanCancel = true
	}
	return view{Title: e.Kind, Data: story}, nil
}

func (r *request) executionPath(id string) string { return r.base() + "/work/" + url.PathEscape(id) }

func (c *Console) cancelWork(r *request) (view, error) {
	if _, err := r.api.CancelWork(r.detached(), r.tenant, r.PathValue("id")); err != nil {
		return view{}, err
	}
	return redirect(r.executionPath(r.PathValue("id")), "The execution is cancelled.")
}

func (c *Console) retryWork(r *request) (view, error) {
	if _, err := r.api.RetryWork(r.detached(), r.tenant, r.PathValue("id")); err != nil {
		return view{}, err
	}
	return redirect(r.executionPath(r.PathValue("id")), "The execution is due now, and its attempts start anew.")
}
