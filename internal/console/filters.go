package console

import (
	"net/http"
	"net/url"
	"time"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/web"
)

// filterAs returns a query parameter for a filter of the API that has its own type; nil if it is
// absent or empty.
func filterAs[T ~string](r *request, name string) *T {
	if v := r.filter(name); v != nil {
		t := T(*v)
		return &t
	}
	return nil
}

// times returns query parameters that are times: RFC 3339, or the form of a datetime-local field,
// which counts as UTC. The error names the parameter, as the API's error would.
func (r *request) times(names ...string) (times []*time.Time, err error) {
	return timesOf(r.URL.Query(), names...)
}

// timesOf is times for the values of a form.
func timesOf(values url.Values, names ...string) (times []*time.Time, err error) {
	var faults []client.Fault
	for _, name := range names {
		at, ok := parseTime(values.Get(name))
		if !ok {
			faults = append(faults, client.Fault{Location: "query." + name, Message: "is not a time such as 2026-01-31T14:02:00Z"})
		}
		times = append(times, at)
	}
	if len(faults) > 0 {
		return nil, &client.Problem{Title: "Bad Request", Status: http.StatusBadRequest, Detail: "The filter cannot be read.", Errors: faults}
	}
	return times, nil
}

// parseTime returns nil for "". ok is false for a text that is not a time.
func parseTime(text string) (at *time.Time, ok bool) { return web.ParseTime(text) }

// pager has the addresses of the first and the next page of a list; "" where there is none.
type pager struct{ First, Next string }

// pager returns the addresses of the pages of a list with the given next_cursor.
func (r *request) pager(next *string) pager {
	var p pager
	if r.filter("cursor") != nil {
		p.First = r.with("cursor", "")
	}
	if next != nil {
		p.Next = r.with("cursor", *next)
	}
	return p
}
