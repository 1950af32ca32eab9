package console

import (
	"net/http"

	"github.com/eventhook/eventhook/client"
)

var workPages = []page{
	{pattern: "GET /console/t/{tenant}/work", reads: []string{"read", "work"},
		template: "work", handle: (*Console).work, isLive: true},
	{pattern: "GET /console/t/{tenant}/work/new", needs: "work", template: "work_new", handle: (*Console).newWork},
	{pattern: "POST /console/t/{tenant}/work/new", needs: "work", template: "work_new", handle: (*Console).startWork},
	{pattern: "GET /console/t/{tenant}/work/{id}", reads: []string{"work"},
		template: "execution", handle: (*Console).execution, isLive: true},
	{pattern: "POST /console/t/{tenant}/work/{id}/cancel", needs: "work", handle: (*Console).cancelWork},
	{pattern: "POST /console/t/{tenant}/work/{id}/retry", needs: "work", handle: (*Console).retryWork},
}

var (
	workTypes    = []string{"task", "workflow"}
	workStatuses = []string{"pending", "running", "suspended", "failed", "dead", "completed", "cancelled"}
)

// workList is the data of the page of queues and executions.
type workList struct {
	Queues       client.WorkQueuesAnswer
	QueuesFault  string // why the queues cannot be shown
	Executions   []client.Execution
	IsForbidden  bool // the key cannot list executions
	Filter       form
	Types, Kinds []string
	Statuses     []string
	Pager        pager
	IsFiltered   bool
}

// work shows the queues and the executions. Queues need the scope read, executions the scope work:
// a person with one of the scopes sees that part.
func (c *Console) work(r *request) (view, error) {
	list := workList{Filter: form{Values: r.URL.Query()}, Types: workTypes, Statuses: workStatuses}
	for _, name := range []string{"type", "status", "kind", "queue"} {
		list.IsFiltered = list.IsFiltered || r.filter(name) != nil
	}
	var err error
	if list.Queues, err = r.api.GetWorkQueues(r.Context(), r.tenant); err != nil {
		if client.StatusOf(err) == 0 || client.StatusOf(err) == http.StatusUnauthorized || client.StatusOf(err) == http.StatusNotFound {
			return view{}, err
		}
		list.QueuesFault = faultOf(err)
	}
	if err := list.read(r); err != nil {
		return view{}, err
	}
	return view{Title: "Work", Data: list}, nil
}

func (l *workList) read(r *request) error {
	cursor, limit := r.cursor()
	found, err := r.api.ListWork(r.Context(), r.tenant, client.ListWorkParams{Cursor: cursor, Limit: limit,
		Type: filterAs[client.ExecutionType](r, "type"), Status: filterAs[client.ExecutionStatus](r, "status"),
		Kind: r.filter("kind"), Queue: r.filter("queue")})
	if client.StatusOf(err) == http.StatusForbidden {
		l.IsForbidden = true
		return nil
	}
	l.Executions, l.Pager = found.Items, r.pager(found.NextCursor)
	return err
}
