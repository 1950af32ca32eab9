package portal

import (
	"context"
	"net/http"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/api"
	"github.com/eventhook/eventhook/internal/session"
	"github.com/eventhook/eventhook/internal/web"
)

// request is a request of a customer with a session.
type request struct {
	*http.Request
	api     *client.Client // calls the API with the grant of the session, which is for its tenant only
	session session.Session
	csrf    string              // token of the session; "" without one
	w       http.ResponseWriter // for cookies

	endpoint client.Subscription   // of the path; the gate sets it
	delivery client.DeliveryDetail // of the path; the gate sets it
}

// newRequest returns the request with a client for the API.
func (p *Portal) newRequest(r *http.Request, s session.Session, token string,
	memory *api.HeldMemory) (*request, error) {
	ctx := api.WithSession(r.Context(), api.Session{Grant: s.Grant, Via: string(session.Portal), Memory: memory})
	in := &request{Request: r.WithContext(ctx), session: s, csrf: p.Sessions.CSRFToken(token)}
	h := &http.Client{Transport: web.Transport{Handler: p.API, Request: in.Request}}
	var err error
	in.api, err = client.New("http://"+web.HostOf(r), "session", client.WithHTTPClient(h), client.WithUserAgent(r.UserAgent()))
	return in, err
}

// tenant returns the slug of the tenant.
func (r *request) tenant() string { return r.session.TenantSlug }

// scope returns the scope of the customer.
func (r *request) scope() string { return r.session.Grant.Customer.Scope }

// detached returns a context for a change that must be finished even if the browser disconnects.
func (r *request) detached() context.Context { return context.WithoutCancel(r.Context()) }

// base returns the path of the endpoint of the request.
func (r *request) base() string { return Root + "/endpoints/" + r.endpoint.ID }

// filter returns a query parameter for a filter of the API; nil if it is absent or empty.
func (r *request) filter(name string) *string {
	if v := r.URL.Query().Get(name); v != "" {
		return &v
	}
	return nil
}

// with returns the address of the page with a query parameter changed; "" removes it.
func (r *request) with(name, value string) string {
	q := r.URL.Query()
	q.Del(name)
	if value != "" {
		q.Set(name, value)
	}
	if len(q) == 0 {
		return r.URL.Path
	}
	return r.URL.Path + "?" + q.Encode()
}

// pager has the addresses of the first and the next page of a list; "" where there is none.
type pager struct{ First, Next string }

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
