package session

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// Cookie is a cookie for a Jar, which decides on its other attributes.
type Cookie struct {
	Name, Value, Path string
	MaxAge            int // in seconds
	SameSite          http.SameSite
	Partitioned       bool
}

// ConsoleCookies returns the cookie of the console's sessions without a value.
func ConsoleCookies() Cookie {
	return Cookie{Name: "eventhook_console", Path: "/console", SameSite: http.SameSiteStrictMode}
}

// PortalCookies returns the cookie of the portal's sessions without a value. The portal can be in a
// frame on another site.
func PortalCookies() Cookie {
	return Cookie{Name: "eventhook_portal", Path: "/portal", SameSite: http.SameSiteNoneMode, Partitioned: true}
}

// Jar sets and reads the cookies of a gateway. Each is HttpOnly and Secure, and its name begins with
// SecurePrefix, so that a page without TLS on a neighbouring host cannot set it. The cookies of a
// request that IsPlainLoopback have neither, and SameSite=Lax, unless the gateway's public URL is
// https.
type Jar struct {
	// IsHTTPS is true if the public URL of the gateway begins with https.
	IsHTTPS bool
}

// SecurePrefix begins the name of a Secure cookie (RFC 6265bis, section 4.1.3). The prefix __Host-
// would require the path /, with which every request to the API had the session, too.
const SecurePrefix = "__Secure-"

// Set adds a cookie to the response of a request. A cookie without a value is deleted.
func (j Jar) Set(w http.ResponseWriter, r *http.Request, c Cookie) {
	if c.Value == "" {
		c.MaxAge = -1
	}
	isPlain := j.isPlain(r)
	if isPlain {
		c.SameSite, c.Partitioned = http.SameSiteLaxMode, false
	}
	//nolint:gosec // Secure except for a plain request to this machine, see IsPlainLoopback
	http.SetCookie(w, &http.Cookie{Name: j.name(r, c.Name), Value: c.Value, Path: c.Path, MaxAge: c.MaxAge, HttpOnly: true, Secure: !isPlain,
		SameSite: c.SameSite, Partitioned: c.Partitioned})
}

// Get returns the value of a cookie that Set has set; "" if the request has none.
func (j Jar) Get(r *http.Request, name string) string {
	if c, err := r.Cookie(j.name(r, name)); err == nil {
		return c.Value
	}
	return ""
}

func (j Jar) name(r *http.Request, name string) string {
	if j.isPlain(r) {
		return name
	}
	return SecurePrefix + name
}

func (j Jar) isPlain(r *http.Request) bool { return !j.IsHTTPS && IsPlainLoopback(r) }

// setToken sets the cookie with a token that ends after an age. An empty token deletes the cookie.
func (s *Sessions) setToken(w http.ResponseWriter, r *http.Request, token string, age time.Duration) {
	c := s.Cookies
	c.Value, c.MaxAge = token, max(int(age/time.Second), 1)
	s.Jar.Set(w, r, c)
}

// IsPlainLoopback reports whether a browser sent a request to its own machine, without TLS and
// without a proxy: the peer is a loopback address, the Host is localhost, in 127.0.0.0/8 or ::1, with
// any port, and no header is one that proxies add. Only for such a request do cookies go without the
// attribute Secure, because a browser on a development machine may refuse a Secure cookie without
// TLS. A browser that uses plain HTTP to another host does not store the cookie, so signing in there
// is not possible.
func IsPlainLoopback(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return r.TLS == nil && err == nil && peer.Addr().Unmap().IsLoopback() && isLoopbackHost(r.Host) && !isForwarded(r.Header)
}

func isLoopbackHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && address.Unmap().IsLoopback()
}

// isForwarded reports whether a proxy has added one of its usual headers. A proxy on the gateway's
// machine may send Host: localhost, whatever the browser's address bar shows.
func isForwarded(h http.Header) bool {
	for name := range h {
		if strings.HasPrefix(name, "X-Forwarded-") || name == "Forwarded" || name == "Via" || name == "X-Real-Ip" {
			return true
		}
	}
	return false
}
