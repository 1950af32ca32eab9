package console

import (
	"net/url"
	"time"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/web"
)

// searchWindow is how far back a search looks if its form names no time.
const searchWindow = 24 * time.Hour

// eventSearch is the data of the search in payloads.
type eventSearch struct {
	Form      form
	Rows      []conditionRow
	Operators []operator
	// Sent is the filter that the API got, indented; "" before the first search.
	Sent  string
	Found *client.EventsFound // nil before the first search, and if the search was refused
	Pager pager
	// Later is the address of the results while the page waits for them; "" if it has them.
	Later string
}

// searchEvents finds events by a filter on header, body and event. The rows of the form and its JSON
// must all hold. A search takes up to 5 s: the page appears without the results and then requests
// them. Without JavaScript, a link of the page does.
func (c *Console) searchEvents(r *request) (view, error) {
	q := r.URL.Query()
	values := url.Values{"filter": {q.Get("filter")}, "received_before": {q.Get("received_before")}, "received_after": {q.Get("received_after")}}
	if q.Get("received_after") == "" {
		values.Set("received_after", c.Now().UTC().Add(-searchWindow).Truncate(time.Minute).Format("2006-01-02T15:04:05"))
	}
	s := &eventSearch{Form: form{Values: values, Faults: map[string]string{}, Shown: []string{"received_after", "received_before"}}, Operators: operators}
	conditions, rows := readConditions(q)
	s.Rows = rows
	v := view{Title: "Search payloads", Data: s}
	filter, fault := combineFilter(conditions, values.Get("filter"))
	if fault != "" {
		s.Form.Faults["filter"] = fault
		v.Status = 422
		return v, nil
	}
	if filter == nil {
		return v, nil
	}
	s.Sent = web.Pretty(plainJSON(filter))
	if s.Later = laterSearch(r); s.Later != "" {
		return v, nil
	}
	err := s.run(r, filter)
	if err != nil && s.Form.refuse(err) {
		v.Status, err = 422, nil
	}
	return v, err
}

// waits is the parameter of a request that waits for the results.
const waits = "wait"

// laterSearch returns the address of the results, "" if the request asks for them.
func laterSearch(r *request) string {
	if web.IsForPart(r.Request) || r.URL.Query().Has(waits) {
		return ""
	}
	return withParameter(r.URL.RequestURI(), waits, "yes")
}

// run searches one part of the time span.
func (s *eventSearch) run(r *request, filter map[string]any) error {
	times, err := timesOf(s.Form.Values, "received_after", "received_before")
	if err != nil {
		return err
	}
	cursor, limit := r.cursor()
	found, err := r.api.SearchEvents(r.Context(), r.tenant, client.EventSearch{Filter: filter, ReceivedAfter: *times[0], ReceivedBefore: times[1],
		Cursor: cursor, Limit: limit})
	if err != nil {
		return err
	}
	s.Found, s.Pager = &found, r.pager(found.NextCursor)
	if s.Pager.Next != "" { // later parts keep the span, although "24 hours ago" moves on
		s.Pager.Next = withParameter(s.Pager.Next, "received_after", s.Form.Get("received_after"))
	}
	return nil
}

// withParameter returns an address with a query parameter set.
func withParameter(address, name, value string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String()
}
