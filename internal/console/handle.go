package console

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/api"
	"github.com/eventhook/eventhook/internal/session"
	"github.com/eventhook/eventhook/internal/web"
)

// maxForm limits the body of a form in bytes. The largest form has a pasted payload.
const maxForm = 4 << 20

// handler returns the HTTP handler of a page. It reads the session, checks the CSRF token of acts
// and the permission of the person, calls the page's handler and renders its view or its error.
func (c *Console) handler(p page) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s, token, err := c.session(r)
		if err != nil {
			c.refuseSession(w, r, err)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if unreadable := parseForm(r); unreadable != nil {
			c.renderProblem(w, p, &request{Request: r}, *unreadable)
			return
		}
		if err := c.Sessions.CheckCSRF(r, token); err != nil {
			c.renderProblem(w, p, &request{Request: r}, problemPage{Title: "The form has expired", Status: http.StatusForbidden,
				Detail: "Go back, reload the page and send the form again."})
			return
		}
		var memory api.HeldMemory // of the answers of the API, until the page is written
		defer memory.Release()
		in, err := c.newRequest(r, s, token, &memory)
		if err != nil {
			c.fail(w, p, &request{Request: r, tenant: r.PathValue("tenant")}, err)
			return
		}
		if err := in.refusal(p); err != nil {
			c.fail(w, p, in, err)
			return
		}
		c.answer(w, p, in)
	})
}

// parseForm parses the form of an act. It returns why the form cannot be read, or nil.
func parseForm(r *http.Request) *problemPage {
	if r.Method != http.MethodPost {
		return nil
	}
	err := r.ParseForm()
	_, isLarge := errors.AsType[*http.MaxBytesError](err)
	switch {
	case isLarge:
		return &problemPage{Title: "The form is too large", Status: http.StatusRequestEntityTooLarge,
			Detail: "A form has at most " + web.Bytes(maxForm) + ". Go back, and send less."}
	case err != nil:
		return &problemPage{Title: "The form cannot be read", Status: http.StatusBadRequest,
			Detail: "Go back, reload the page and send the form again."}
	}
	return nil
}

// session returns the session of a request and its token. A page refreshes its parts by itself, always
// with GET, so such a request is no sign of a person and does not extend the session.
func (c *Console) session(r *http.Request) (session.Session, string, error) {
	if r.Method == http.MethodGet && web.IsForPart(r) {
		return c.Sessions.Peek(r)
	}
	return c.Sessions.Read(r)
}

func (c *Console) answer(w http.ResponseWriter, p page, r *request) {
	if p.serve != nil {
		if err := p.serve(c, r, w); err != nil {
			c.fail(w, p, r, err)
		}
		return
	}
	v, err := p.handle(c, r)
	switch {
	case err != nil:
		c.fail(w, p, r, err)
	case v.To != "":
		c.setNotice(w, r.Request, v.Notice)
		http.Redirect(w, r.Request, v.To, http.StatusSeeOther)
	default:
		c.rememberTenant(w, r)
		v.Notice = cmp.Or(v.Notice, c.takeNotice(w, r.Request))
		c.render(w, r.Request, cmp.Or(v.Page, p.template), cmp.Or(v.Status, http.StatusOK), c.shell(p, r, v))
	}
}

// refuseSession responds to a request without a valid session: pages redirect to the sign-in.
func (c *Console) refuseSession(w http.ResponseWriter, r *http.Request, err error) {
	if eventhook.KindOf(err) != eventhook.KindUnauthorized {
		c.fail(w, page{}, &request{Request: r}, err)
		return
	}
	c.askSignIn(w, r)
}

// askSignIn redirects to the sign-in, and from there back to the page.
func (c *Console) askSignIn(w http.ResponseWriter, r *http.Request) {
	to := Root + "/sign-in"
	if r.Method == http.MethodGet {
		to += "?next=" + url.QueryEscape(r.URL.RequestURI())
	}
	if web.IsForPart(r) {
		w.Header().Set("HX-Redirect", to)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// problemPage is the data of the page that shows an error.
type problemPage struct {
	Title, Detail, RequestID string
	Hint                     string // the steps of a person
	Status                   int
	Faults                   []client.Fault
}

// fail renders the page of an error: what failed, what to do, and the request id.
func (c *Console) fail(w http.ResponseWriter, p page, r *request, err error) {
	if errors.Is(err, client.ErrName) {
		err = &client.Problem{Status: http.StatusNotFound, Detail: "Nothing has the name in this request."}
	}
	problem, ok := errors.AsType[*client.Problem](problemOf(err))
	if !ok {
		if r.Context().Err() != nil {
			return // the browser left
		}
		c.Log.Error("a page of the console failed", "path", r.URL.Path, "error", err)
		c.renderProblem(w, p, r, problemPage{Title: "Something failed", Status: http.StatusInternalServerError,
			Detail: "The gateway could not build this page. Reload it; if it fails again, the log of the gateway has the cause."})
		return
	}
	web.SetRetryAfter(w.Header(), problem.RetryAfter)
	if problem.Status == http.StatusUnauthorized {
		_ = c.Sessions.End(r.detached(), w, r.Request) // the session is of no use without its key
		c.askSignIn(w, r.Request)
		return
	}
	c.renderProblem(w, p, r, problemPage{Title: problemTitle(problem), Detail: sentence(problem.Detail), Hint: problemHint(problem.Status),
		Status: problem.Status, RequestID: problem.RequestID, Faults: problem.Errors})
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
	case http.StatusForbidden:
		return "No permission"
	case http.StatusNotFound:
		return "Not found"
	case http.StatusConflict, http.StatusPreconditionFailed:
		return "Not possible now"
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return "The gateway is busy"
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return "The request is not valid"
	}
	return "Something failed"
}

// problemHint tells what a person can do about a problem with a status; "" if only a reload helps.
func problemHint(status int) string {
	switch status {
	case http.StatusForbidden:
		return "Sign in with a key that has this permission, or ask the team that runs the gateway for one."
	case http.StatusNotFound:
		return "Check the address. What it named was deleted, is past its retention, or belongs to another tenant."
	case http.StatusConflict, http.StatusPreconditionFailed:
		return "Go back and reload the page: it shows the present state."
	}
	return ""
}

// sentence begins a text with an upper-case letter and ends it with a full stop.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	first, size := utf8.DecodeRuneInString(text)
	text = string(unicode.ToUpper(first)) + text[size:]
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text
}

func (c *Console) renderProblem(w http.ResponseWriter, p page, r *request, problem problemPage) {
	p.isLive = false
	c.render(w, r.Request, "problem", problem.Status, c.shell(p, r, view{Title: problem.Title, Data: problem}))
}
