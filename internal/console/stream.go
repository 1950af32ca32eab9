package console

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/api"
	"github.com/eventhook/eventhook/internal/web"
)

// streamFilters are the filters of the API's stream that a page may set.
var streamFilters = []string{"source", "status", "event_type"}

// serveStream passes the API's stream of events to the page, with a heartbeat each second, so that
// the page shows a lost connection within two seconds. The stream ends with the session, which it does
// not extend.
func (c *Console) serveStream(w http.ResponseWriter, r *http.Request) {
	s, token, err := c.Sessions.Peek(r)
	if err != nil {
		c.refuseStream(w, r, err)
		return
	}
	tenant := r.PathValue("tenant")
	if !eventhook.IsSlug(tenant) { // cannot be a part of the path
		http.Error(w, "There is no such tenant.", http.StatusNotFound)
		return
	}
	granted, err := c.permissions(s)
	if err != nil {
		http.Error(w, "Sign in first.", http.StatusUnauthorized)
		return
	}
	ctx, stop := c.Sessions.Watch(r, token)
	defer stop()
	in := r.Clone(api.WithSession(ctx, granted))
	in.Header.Del("Authorization")
	in.URL = &url.URL{Path: "/api/tenants/" + tenant + "/eventhook/events/stream", RawQuery: streamQuery(r.URL.Query()).Encode()}
	in.RequestURI = in.URL.RequestURI()
	c.API.ServeHTTP(w, in)
}

// refuseStream responds to a request without a valid session. No person reads the response.
func (c *Console) refuseStream(w http.ResponseWriter, r *http.Request, err error) {
	problem, isLimit := errors.AsType[*client.Problem](problemOf(err))
	switch {
	case eventhook.KindOf(err) == eventhook.KindUnauthorized:
		http.Error(w, "Sign in first.", http.StatusUnauthorized)
	case isLimit:
		web.SetRetryAfter(w.Header(), problem.RetryAfter)
		http.Error(w, problem.Detail, problem.Status)
	case r.Context().Err() == nil: // else the browser left
		c.Log.Error("a stream of the console cannot read its session", "error", err)
		http.Error(w, "The gateway could not read the session.", http.StatusServiceUnavailable)
	}
}

func streamQuery(page url.Values) url.Values {
	q := url.Values{"heartbeat_seconds": {"1"}}
	for _, name := range streamFilters {
		if v := page.Get(name); v != "" {
			q.Set(name, v)
		}
	}
	return q
}
