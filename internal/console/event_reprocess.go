package console

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventhook/eventhook/client"
)

// Limits of the API for one reprocessing by filter.
const (
	mostReprocessed = 1000
	mostCounted     = 10_000
)

// reprocessFilters are the filters of the list by which the API reprocesses events.
var reprocessFilters = []string{"source", "status", "received_after", "received_before"}

// reprocessPlan is the data of the page that reprocesses all events of a filter.
type reprocessPlan struct {
	Filter   form
	Statuses []string
	IsAgain  bool
	// Count is the number of events that match, as the API counted them at CountedAt.
	Count     int64
	IsMore    bool // there are more than the API counts
	CountedAt time.Time
	Batch     int64 // events that one act processes: the newest
	Back      string
}

// canReprocessFilter reports whether the API reprocesses by the filters of a list.
func canReprocessFilter(q url.Values) bool {
	for _, name := range eventFilters {
		if q.Get(name) != "" && !slices.Contains(reprocessFilters, name) {
			return false
		}
	}
	return slices.Contains([]string{"", "failed", "dead", "unrouted", "delivered", "duplicate"}, q.Get("status"))
}

// reprocessQuery returns the filters of a list as the query of the page that reprocesses by them.
func reprocessQuery(q url.Values) string {
	out := url.Values{}
	for _, name := range reprocessFilters {
		if v := q.Get(name); v != "" {
			out.Set(name, v)
		}
	}
	if s := q.Get("status"); s == "delivered" || s == "duplicate" {
		out.Set("mode", "again")
	}
	return out.Encode()
}

// planReprocess shows how many events the filters match, before anything happens.
func (c *Console) planReprocess(r *request) (view, error) {
	plan, err := c.countReprocess(r, r.URL.Query())
	return view{Title: "Reprocess events", Data: plan}, err
}

// reprocessMatching reprocesses the events of a filter. If their number has changed since the page
// showed it, nothing happens, and the page shows the new number.
func (c *Console) reprocessMatching(r *request) (view, error) {
	if err := r.ParseForm(); err != nil {
		return view{}, err
	}
	body, err := reprocessBody(r.PostForm)
	if err != nil {
		return view{}, err
	}
	count, err := strconv.ParseInt(r.PostForm.Get("expected_count"), 10, 64)
	if err == nil && count >= 0 && count <= mostCounted {
		body.ExpectedCount = &count
	}
	done, err := r.api.ReprocessEvents(r.detached(), r.tenant, body)
	if err == nil {
		return redirect(r.listPath(r.PostForm), reprocessedNotice(done))
	}
	if _, ok := countOf(err); !ok {
		return view{}, err
	}
	plan, failed := c.countReprocess(r, r.PostForm)
	if failed != nil {
		return view{}, failed
	}
	plan.Filter.Summary = problemDetail(err)
	return view{Title: "Reprocess events", Data: plan, Status: http.StatusUnprocessableEntity}, nil
}

// reprocessedNotice has the number of processed events, and the reason for skipped ones.
func reprocessedNotice(done client.EventsReprocessed) string {
	n := strconv.FormatInt(done.ReprocessedCount, 10)
	notice := n + " events are processed again."
	if done.ReprocessedCount == 1 {
		notice = "1 event is processed again."
	}
	if len(done.Skipped) > 0 {
		notice += " " + strconv.Itoa(len(done.Skipped)) + " are skipped: " + done.Skipped[0].Reason + "."
	}
	return notice
}

// countReprocess asks the API for the number of events, by expecting 0: the API refuses with the
// number, or no event matches and nothing happens.
func (c *Console) countReprocess(r *request, q url.Values) (*reprocessPlan, error) {
	body, err := reprocessBody(q)
	if err != nil {
		return nil, err
	}
	none := int64(0)
	body.ExpectedCount = &none
	plan := &reprocessPlan{Filter: form{Values: q}, IsAgain: q.Get("mode") == "again", CountedAt: c.Now(), Back: r.listPath(q)}
	plan.Statuses = []string{"failed", "dead", "unrouted"}
	if plan.IsAgain {
		plan.Statuses = []string{"dead", "unrouted", "delivered", "duplicate"}
	}
	_, err = r.api.ReprocessEvents(r.Context(), r.tenant, body)
	if n, ok := countOf(err); ok {
		plan.Count, err = n, nil
	}
	plan.IsMore, plan.Batch = plan.Count > mostCounted, min(plan.Count, mostReprocessed)
	return plan, err
}

// reprocessBody returns the API's request for the filters of a page. A status that the mode cannot
// reprocess is left out.
func reprocessBody(q url.Values) (client.EventReprocess, error) {
	limit, mode := int64(mostReprocessed), client.EventReprocessMode(cmp.Or(q.Get("mode"), "retry"))
	f := &client.EventReprocessFilter{}
	if s := q.Get("source"); s != "" {
		f.Source = &s
	}
	if s := q.Get("status"); s != "" {
		f.Status = []client.EventStatus{client.EventStatus(s)}
	}
	times, err := timesOf(q, "received_after", "received_before")
	if err != nil {
		return client.EventReprocess{}, err
	}
	f.ReceivedAfter, f.ReceivedBefore = times[0], times[1]
	return client.EventReprocess{Filter: f, Limit: &limit, Mode: &mode}, nil
}

// countOf returns the number of events in the API's refusal of an expected count, which the message
// of the fault ends with: "is 0, but 12 match".
func countOf(err error) (int64, bool) {
	p, ok := errors.AsType[*client.Problem](err)
	if !ok || p.Status != http.StatusConflict {
		return 0, false
	}
	for _, fault := range p.Errors {
		_, after, _ := strings.Cut(fault.Message, "but ")
		number, _, _ := strings.Cut(after, " ")
		if n, err := strconv.ParseInt(number, 10, 64); err == nil && strings.HasSuffix(fault.Location, "expected_count") {
			return n, true
		}
	}
	return 0, false
}

// listPath returns the address of the list of events with the filters of a form or query.
func (r *request) listPath(q url.Values) string {
	if filters := filtersOf(q); len(filters) > 0 {
		return r.base() + "/events?" + filters.Encode()
	}
	return r.base() + "/events"
}

// filtersOf returns the filters of the list that a form or query has.
func filtersOf(q url.Values) url.Values {
	out := url.Values{}
	for _, name := range eventFilters {
		if v := q.Get(name); v != "" {
			out.Set(name, v)
		}
	}
	return out
}
