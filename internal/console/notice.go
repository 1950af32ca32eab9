package console

import (
	"net/http"
	"net/url"

	"github.com/eventhook/eventhook/internal/session"
)

// A notice is shown once, on the page after an act. A cookie carries it over the redirect, so that
// the URL stays the state of the page.
const noticeCookie = "eventhook_notice"

const maxNotice = 500

func (c *Console) setNotice(w http.ResponseWriter, r *http.Request, notice string) {
	if notice == "" {
		return
	}
	if len(notice) > maxNotice {
		notice = notice[:maxNotice]
	}
	const seconds = 20
	c.writeNotice(w, r, url.QueryEscape(notice), seconds)
}

// takeNotice returns the notice of a request and deletes its cookie.
func (c *Console) takeNotice(w http.ResponseWriter, r *http.Request) string {
	value := c.Jar.Get(r, noticeCookie)
	if value == "" {
		return ""
	}
	c.writeNotice(w, r, "", -1)
	notice, _ := url.QueryUnescape(value)
	return notice
}

func (c *Console) writeNotice(w http.ResponseWriter, r *http.Request, value string, seconds int) {
	c.Jar.Set(w, r, session.Cookie{Name: noticeCookie, Value: value, Path: Root, MaxAge: seconds, SameSite: http.SameSiteLaxMode})
}
