package console

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/api"
	"github.com/eventhook/eventhook/internal/session"
	"github.com/eventhook/eventhook/internal/web"
)

// request is a request of a signed-in person.
type request struct {
	*http.Request
	api      *client.Client // calls the API with the permissions of the session
	tenant   string         // slug in the path; "" for pages of all tenants
	session  session.Session
	identity client.Identity
	csrf     string
	jar      session.Jar
}

// permissions returns the permissions of a session for the API. Those of a person are what the
// configuration of this instance grants now. The error is a *client.Problem with status 401 without any.
func (c *Console) permissions(s session.Session) (api.Session, error) {
	if s.Person == nil {
		return api.Session{KeyHash: s.KeyHash, Grant: s.Grant, Via: string(s.Kind)}, nil
	}
	var grant *eventhook.Grant
	if c.OpenID != nil {
		grant = c.OpenID.Grant(s)
	}
	if grant == nil {
		return api.Session{}, &client.Problem{Status: http.StatusUnauthorized}
	}
	return api.Session{Grant: grant, Via: string(s.Kind)}, nil
}

// newRequest returns the request with a client for the API. It reads who is signed in. The error is
// a *client.Problem with status 401 if the session's key is no longer valid.
func (c *Console) newRequest(r *http.Request, s session.Session, token string,
	memory *api.HeldMemory) (*request, error) {
	granted, err := c.permissions(s)
	if err != nil {
		return nil, err
	}
	granted.Memory = memory
	ctx := api.WithSession(r.Context(), granted)
	in := &request{Request: r.WithContext(ctx), tenant: r.PathValue("tenant"), session: s, csrf: c.Sessions.CSRFToken(token), jar: c.Jar}
	if in.api, err = c.inProcess(in.Request, nil); err != nil {
		return nil, err
	}
	in.identity, err = in.api.GetIdentity(in.Context())
	return in, err
}

// inProcess returns a client for the API in this process, for one request of a browser. The context
// of the request has a session. copyTo is that of web.Transport.
func (c *Console) inProcess(r *http.Request, copyTo func(http.Header) io.Writer) (*client.Client, error) {
	return clientOf(web.Transport{Handler: c.API, Request: r, CopyTo: copyTo}, "session")
}

// clientOf returns a client for the API in this process. If the context of the request has a session,
// key is not used.
func clientOf(t web.Transport, key string) (*client.Client, error) {
	return client.New("http://"+web.HostOf(t.Request), key, client.WithHTTPClient(&http.Client{Transport: t}),
		client.WithUserAgent(t.Request.UserAgent()))
}

// base returns the path of the tenant's pages.
func (r *request) base() string { return tenantBase(r.tenant) }

func tenantBase(tenant string) string { return Root + "/t/" + url.PathEscape(tenant) }

// isAdmin reports whether the person has the permissions of an admin key, at least to read.
func (r *request) isAdmin() bool {
	return r.identity.Type == "admin" || r.identity.Type == "admin_read"
}

// filter returns a query parameter for a filter of the API; nil if it is absent or empty.
func (r *request) filter(name string) *string {
	if v := r.URL.Query().Get(name); v != "" {
		return &v
	}
	return nil
}

// cursor returns the parameters of a page of a list.
func (r *request) cursor() (cursor *string, limit *int64) {
	const defaultLimit = 50
	size := int64(defaultLimit)
	if n, err := strconv.ParseInt(r.URL.Query().Get("limit"), 10, 64); err == nil && n > 0 {
		size = n
	}
	return r.filter("cursor"), &size
}

// maxChosen limits the rows of an act: a page has at most as many.
const maxChosen = 250

// chosen returns the ids of the rows whose boxes are checked. The form must be parsed.
func (r *request) chosen() ([]string, error) {
	ids := r.PostForm["selected"]
	if len(ids) > maxChosen {
		return nil, &client.Problem{Title: "Bad Request", Status: http.StatusBadRequest,
			Detail: fmt.Sprintf("%d rows are chosen; one act takes at most %d. Choose fewer, or act on a filter.",
				len(ids), maxChosen)}
	}
	return ids, nil
}

// with returns the address of the page with a query parameter changed; "" removes it. The selected
// rows of this page are left out.
func (r *request) with(name, value string) string {
	q := r.URL.Query()
	q.Del(name)
	q.Del("selected")
	if value != "" {
		q.Set(name, value)
	}
	if len(q) == 0 {
		return r.URL.Path
	}
	return r.URL.Path + "?" + q.Encode()
}

// detached returns a context for a change that must be finished even if the browser disconnects.
func (r *request) detached() context.Context { return context.WithoutCancel(r.Context()) }
