package console

import (
	"net/http"
	"net/url"
)

// A notice is shown once, on the page after an act. A cookie carries it over the redirect, so that
// the URL stays the state of the page.
const noticeCookie = "eventhook_notice"

const maxNotice = 500

func setNotice(w http.ResponseWriter, r *http.Request, notice string) {
	if notice == "" {
		return
	}
	if len(notice) > maxNotice {
		notice = notice[:maxNotice]
	}
	const seconds = 20
	writeNotice(w, r, url.QueryEscape(notice), seconds)
}

// takeNotice returns the notice of a request and deletes its cookie.
func takeNotice(w http.ResponseWriter, r *http.Request) string {
	cookie, err := r.Cookie(noticeCookie)
	if err != nil {
		return ""
	}
	writeNotice(w, r, "", -1)
	notice, _ := url.QueryUnescape(cookie.Value)
	return notice
}

func writeNotice(w http.ResponseWriter, r *http.Request, value string, seconds int) {
	//nolint:gosec // on a development machine there is no TLS; the notice is no secret
	http.SetCookie(w, &http.Cookie{Name: noticeCookie, Value: value, Path: Root, MaxAge: seconds, HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteLaxMode})
}
