package portal

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/eventhook/eventhook/internal/session"
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

// cookie returns a cookie that a browser sends from a frame on another site, too. A cookie without
// a value is deleted.
func (p *Portal) cookie(r *http.Request, name, value string, seconds int) *http.Cookie {
	//nolint:gosec // a browser on a development machine has no TLS to the portal
	c := &http.Cookie{Name: name, Value: value, Path: Root, MaxAge: seconds, HttpOnly: true, Secure: true,
		SameSite: http.SameSiteNoneMode, Partitioned: true}
	if session.IsPlainLoopback(r, p.IsHTTPS(r)) {
		c.Secure, c.SameSite, c.Partitioned = false, http.SameSiteLaxMode, false
	}
	if value == "" {
		c.MaxAge = -1
	}
	return c
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
	http.SetCookie(w, p.cookie(r, noticeCookie, url.QueryEscape(notice), seconds))
}

// takeNotice returns the notice of a request and deletes its cookie.
func (p *Portal) takeNotice(w http.ResponseWriter, r *http.Request) string {
	cookie, err := r.Cookie(noticeCookie)
	if err != nil {
		return ""
	}
	http.SetCookie(w, p.cookie(r, noticeCookie, "", 0))
	notice, _ := url.QueryUnescape(cookie.Value)
	return notice
}

// themeOf returns the theme that the customer chose: light, dark, or "" for the system's.
func themeOf(r *http.Request) string {
	if cookie, err := r.Cookie(themeCookie); err == nil && (cookie.Value == "light" || cookie.Value == "dark") {
		return cookie.Value
	}
	return ""
}

func (p *Portal) setTheme(r *request) (view, error) {
	theme := r.PostForm.Get("theme")
	if theme != "light" && theme != "dark" {
		theme = ""
	}
	http.SetCookie(r.w, p.cookie(r.Request, themeCookie, theme, themeSeconds))
	return redirect(pathOf(r.PostForm.Get("next")), "")
}

// pathOf returns the path of the portal to which a form leads back, so that no form leads elsewhere.
func pathOf(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(u.Path, Root+"/") || strings.Contains(u.Path, `\`) {
		return Root
	}
	return u.RequestURI()
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
