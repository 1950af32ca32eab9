package session

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// Cookies are the attributes of the cookies with tokens. Every cookie is HttpOnly.
type Cookies struct {
	Name        string
	Path        string
	Secure      bool
	SameSite    http.SameSite
	Partitioned bool
}

// ConsoleCookies returns the cookies of the console.
func ConsoleCookies() Cookies {
	return Cookies{Name: "eventhook_console", Path: "/console", Secure: true, SameSite: http.SameSiteStrictMode}
}

// PortalCookies returns the cookies of the portal, which can be in a frame on another site.
func PortalCookies() Cookies {
	return Cookies{Name: "eventhook_portal", Path: "/portal", Secure: true, SameSite: http.SameSiteNoneMode, Partitioned: true}
}

// cookie returns the cookie with a token for the answer to a request. A negative age deletes the cookie.
func (s *Sessions) cookie(r *http.Request, token string, age time.Duration) *http.Cookie {
	c := s.Cookies
	if IsPlainLoopback(r, s.IsHTTPS(r)) {
		c.Secure, c.SameSite, c.Partitioned = false, http.SameSiteLaxMode, false
	}
	//nolint:gosec // Secure except for a plain-HTTP loopback request, see IsPlainLoopback
	return &http.Cookie{Name: c.Name, Value: token, Path: c.Path, MaxAge: maxAge(age), HttpOnly: true, Secure: c.Secure,
		SameSite: c.SameSite, Partitioned: c.Partitioned}
}

// maxAge returns an age in whole seconds, never 0, which would be a cookie without an age.
func maxAge(age time.Duration) int {
	if seconds := int(age / time.Second); seconds != 0 {
		return seconds
	}
	return -1
}

// IsPlainLoopback reports whether the browser sent a request without TLS to its own machine: the
// request arrived without TLS, isHTTPS is false, and its Host is localhost, in 127.0.0.0/8, or
// ::1, with any port. isHTTPS is true if a trusted proxy says that the browser used TLS
// (X-Forwarded-Proto: https). Only for such a request do cookies go without the attribute
// Secure, because a browser on a development machine may refuse a Secure cookie without TLS. A
// browser that uses plain HTTP to another host does not store the cookie, so nobody can sign in
// there. The Host is the one in the browser's address bar: a page of another site cannot change it.
func IsPlainLoopback(r *http.Request, isHTTPS bool) bool {
	if r.TLS != nil || isHTTPS {
		return false
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && address.Unmap().IsLoopback()
}
