package console

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/eventhook/eventhook/internal/api"
	"github.com/eventhook/eventhook/internal/panics"
)

// checkSession is how often a stream checks that the session still exists.
const checkSession = 15 * time.Second

// streamFilters are the filters of the API's stream that a page may set.
var streamFilters = []string{"source", "status", "event_type"}

// serveStream passes the API's stream of events to the page, with a heartbeat each second, so that
// the page shows a lost connection within two seconds. The stream ends with the session.
func (c *Console) serveStream(w http.ResponseWriter, r *http.Request) {
	s, _, err := c.Sessions.Read(r)
	if err != nil {
		http.Error(w, "Sign in first.", http.StatusUnauthorized)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	ctx = api.WithSession(ctx, api.Session{KeyHash: s.KeyHash, Grant: s.Grant, Via: string(s.Kind)})
	go panics.Guarded(func() { c.endWithSession(ctx, cancel, r) })()
	in := r.Clone(ctx)
	in.Header.Del("Authorization")
	in.URL = &url.URL{Path: "/api/tenants/" + r.PathValue("tenant") + "/eventhook/events/stream", RawQuery: streamQuery(r.URL.Query()).Encode()}
	in.RequestURI = in.URL.RequestURI()
	c.API.ServeHTTP(w, in)
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

// endWithSession cancels a stream as soon as its session has ended. It returns when ctx ends.
func (c *Console) endWithSession(ctx context.Context, cancel context.CancelFunc, r *http.Request) {
	ticks := time.NewTicker(checkSession)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			if _, _, err := c.Sessions.Read(r.WithContext(ctx)); err != nil {
				cancel()
			}
		}
	}
}
