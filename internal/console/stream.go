package console

import (
	"net/http"
	"net/url"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/api"
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
	ctx, stop := c.Sessions.Watch(r, token)
	defer stop()
	in := r.Clone(api.WithSession(ctx, api.Session{KeyHash: s.KeyHash, Grant: s.Grant, Via: string(s.Kind)}))
	in.Header.Del("Authorization")
	in.URL = &url.URL{Path: "/api/tenants/" + tenant + "/eventhook/events/stream", RawQuery: streamQuery(r.URL.Query()).Encode()}
	in.RequestURI = in.URL.RequestURI()
	c.API.ServeHTTP(w, in)
}

// refuseStream responds to a request without a valid session. No person reads the response.
func (c *Console) refuseStream(w http.ResponseWriter, r *http.Request, err error) {
	switch eventhook.KindOf(err) {
	case eventhook.KindUnauthorized:
		http.Error(w, "Sign in first.", http.StatusUnauthorized)
	case eventhook.KindRateLimited:
		http.Error(w, err.Error(), http.StatusTooManyRequests)
	default:
		if r.Context().Err() == nil {
			c.Log.Error("a stream of the console cannot read its session", "error", err)
		}
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
