package portal

import (
	"net/http"
	"net/url"

	"github.com/eventhook/eventhook/internal/session"
	"github.com/eventhook/eventhook/internal/web"
)

// The acts that concern the browser only.
var browserPages = []page{
	{pattern: "POST /portal/theme", handle: (*Portal).setTheme, isOwn: true},
	{pattern: "POST /portal/leave", template: "problem", handle: (*Portal).leave, isOwn: true},
}

const (
	themeCookie  = "eventhook_portal_theme"
	noticeCookie = "eventhook_portal_notice"
	maxNotice    = 500
	themeSeconds = 365 * 24 * 3600
)

// setCookie sets a cookie that a browser sends from a frame on another site, too. A cookie without a
// value is deleted.
func (p *Portal) setCookie(w http.ResponseWriter, r *http.Request, name, value string, seconds int) {
	p.Jar.Set(w, r, session.Cookie{Name: name, Value: value, Path: Root, MaxAge: seconds, SameSite: http.SameSiteNoneMode, Partitioned: true})
}

// setNotice has a notice shown on the next page.
func (p *Portal) setNotice(w http.ResponseWriter, r *http.Request, notice string) {
	if notice == "" {
		return
	}
	if len(notice) > maxNotice {
		notice = notice[:maxNotice]
	}
	const seconds = 20
	p.setCookie(w, r, noticeCookie, url.QueryEscape(notice), seconds)
}

// takeNotice returns the notice of a request and deletes its cookie.
func (p *Portal) takeNotice(w http.ResponseWriter, r *http.Request) string {
	value := p.Jar.Get(r, noticeCookie)
	if value == "" {
		return ""
	}
	p.setCookie(w, r, noticeCookie, "", 0)
	notice, _ := url.QueryUnescape(value)
	return notice
}

// themeOf returns the theme that the customer chose: light, dark, or "" for the system's.
func (p *Portal) themeOf(r *http.Request) string {
	if theme := p.Jar.Get(r, themeCookie); theme == "light" || theme == "dark" {
		return theme
	}
	return ""
}

func (p *Portal) setTheme(r *request) (view, error) {
	theme := r.PostForm.Get("theme")
	if theme != "light" && theme != "dark" {
		theme = ""
	}
	p.setCookie(r.w, r.Request, themeCookie, theme, themeSeconds)
	return redirect(pathOf(r.PostForm.Get("next")), "")
}

// pathOf returns the path of the portal to which a form leads back, so that no form leads elsewhere.
func pathOf(next string) string {
	if u, ok := web.PathBelow(Root, next); ok {
		return u.RequestURI()
	}
	return Root
}

// leave ends the session of the browser.
func (p *Portal) leave(r *request) (view, error) {
	if err := p.Sessions.End(r.detached(), r.w, r.Request); err != nil {
		return view{}, err
	}
	r.csrf = ""
	const title = "You are signed out"
	return view{Title: title, Data: problemPage{Title: title,
		Detail: "The session of this browser has ended. To come back, open the link again before it expires, or ask for a new link."}}, nil
}
