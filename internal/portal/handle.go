package portal

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/api"
	"github.com/eventhook/eventhook/internal/session"
	"github.com/eventhook/eventhook/internal/web"
)

// maxForm limits the body of a form in bytes.
const maxForm = 256 << 10

// handler returns the HTTP handler of a page. It reads the session, checks the tenant and the CSRF
// token of acts, passes the gate, calls the page's handler and renders its view or its error.
func (p *Portal) handler(page page) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s, token, err := p.session(w, r)
		if err != nil {
			p.refuseSession(w, r, err)
			return
		}
		var memory api.HeldMemory // of the answers of the API, until the page is written
		defer memory.Release()
		in, err := p.newRequest(r, s, token, &memory)
		if err != nil {
			p.fail(w, &request{Request: r}, err)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if err := p.Sessions.CheckCSRF(r, token); err != nil {
			p.renderProblem(w, in, problemPage{Title: "The form has expired", Status: http.StatusForbidden,
				Detail: "Go back, reload the page and send the form again."})
			return
		}
		if err := r.ParseForm(); err != nil {
			p.fail(w, in, &client.Problem{Status: http.StatusBadRequest, Detail: "The form cannot be read, or it is too large."})
			return
		}
		in.w, in.Request = w, r.WithContext(in.Context())
		p.answer(w, page, in)
	})
}

func (p *Portal) answer(w http.ResponseWriter, page page, r *request) {
	release, err := p.limits.acquire(r.Context(), customer{r.tenant(), r.scope()}, page)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	defer release()
	if err := r.admit(page); err != nil {
		p.fail(w, r, err)
		return
	}
	v, err := page.handle(p, r)
	switch {
	case err != nil:
		p.fail(w, r, err)
	case v.To != "":
		p.setNotice(w, r.Request, v.Notice)
		http.Redirect(w, r.Request, v.To, http.StatusSeeOther)
	default:
		v.Notice = cmp.Or(v.Notice, p.takeNotice(w, r.Request))
		p.render(w, r.Request, cmp.Or(v.Page, page.template), cmp.Or(v.Status, http.StatusOK), p.shell(r, v))
	}
}

// refuseSession says why a request has no session. A page that refreshes a part of itself is loaded
// again, so that it says so, too.
func (p *Portal) refuseSession(w http.ResponseWriter, r *http.Request, err error) {
	if _, isEnd := errors.AsType[*client.Problem](err); isEnd && web.IsForPart(r) {
		w.Header().Set("HX-Refresh", "true")
	}
	p.fail(w, &request{Request: r}, err)
}

// The reasons why a request has no session that is valid.
var (
	errNoSession = &client.Problem{Status: http.StatusUnauthorized,
		Detail: "You are not signed in, or your link has expired. " +
			"Open the portal again from the application that sent you here, or ask for a new link."}
	errTenantEnded = &client.Problem{Status: http.StatusForbidden,
		Detail: "This portal is not available now, because the account of the sender is not active. Ask the sender."}
)

// session returns the session of a request and its token. A session ends as soon as its tenant is
// no longer active.
func (p *Portal) session(w http.ResponseWriter, r *http.Request) (session.Session, string, error) {
	s, token, err := p.Sessions.Read(r)
	switch {
	case eventhook.KindOf(err) == eventhook.KindUnauthorized, err == nil && (s.Grant == nil || s.Grant.Customer == nil || s.TenantSlug == ""):
		return s, "", errNoSession
	case err != nil:
		return s, "", err
	}
	switch err := p.checkTenant(r.Context(), s.TenantSlug); {
	case errors.Is(err, errTenantEnded):
		_ = p.Sessions.End(context.WithoutCancel(r.Context()), w, r) // a later request ends it otherwise
		return s, "", err
	case err != nil:
		return s, "", err
	}
	return s, token, nil
}

// checkTenant returns errTenantEnded unless the tenant exists and is active.
func (p *Portal) checkTenant(ctx context.Context, slug string) error {
	t, err := p.Tenants.Tenant(ctx, slug)
	switch {
	case eventhook.KindOf(err) == eventhook.KindNotFound, err == nil && t.Status != eventhook.TenantActive:
		return errTenantEnded
	}
	return err
}

// problemPage is the data of the page that shows an error.
type problemPage struct {
	Title, Detail, RequestID string
	Status                   int
	Faults                   []client.Fault
	IsSignedIn               bool
}

// fail renders the page of an error: what failed, what to do, and the request id.
func (p *Portal) fail(w http.ResponseWriter, r *request, err error) {
	problem, ok := errors.AsType[*client.Problem](problemOf(err))
	if !ok {
		if r.Context().Err() != nil {
			return // the browser left
		}
		p.Log.Error("a page of the portal failed", "path", r.URL.Path, "error", err)
		p.renderProblem(w, r, problemPage{Title: "Something failed", Status: http.StatusInternalServerError,
			Detail: "This page could not be built. Reload it in a few seconds."})
		return
	}
	web.SetRetryAfter(w.Header(), problem.RetryAfter)
	p.renderProblem(w, r, problemPage{Title: problemTitle(problem), Detail: problem.Detail, Status: problem.Status,
		RequestID: problem.RequestID, Faults: problem.Errors})
}

// problemOf turns a limit of the sessions into the problem that the API has for its own limits. It
// returns every other error unchanged.
func problemOf(err error) error {
	if limit, ok := errors.AsType[*eventhook.Error](err); ok && limit.Kind == eventhook.KindRateLimited {
		return &client.Problem{Status: http.StatusTooManyRequests, Detail: limit.Message, RetryAfter: limit.RetryAfter}
	}
	return err
}

func problemTitle(p *client.Problem) string {
	switch p.Status {
	case http.StatusUnauthorized:
		return "You need a new link"
	case http.StatusForbidden:
		return "No permission"
	case http.StatusNotFound:
		return "Not found"
	case http.StatusConflict, http.StatusPreconditionFailed:
		return "Not possible now"
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return "Too busy"
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return "The request is not valid"
	}
	return "Something failed"
}

func (p *Portal) renderProblem(w http.ResponseWriter, r *request, problem problemPage) {
	problem.IsSignedIn = r.csrf != ""
	p.render(w, r.Request, "problem", problem.Status, p.shell(r, view{Title: problem.Title, Data: problem}))
}
