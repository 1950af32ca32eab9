package egress

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

var errUnsendable error = &requestError{"the request has a method or a header that cannot be sent", classBlocked, nil}

// transportHeaders are the headers that the transport sets or that control the connection.
// The values that a caller sets are never sent.
var transportHeaders = []string{"Connection", "Content-Length", "Host", "Trailer", "Transfer-Encoding", "Upgrade"}

// outgoing returns the request to send: a copy with ctx and a User-Agent, and without
// transportHeaders. net/http validates all other headers before it connects.
func (c *Client) outgoing(ctx context.Context, r *http.Request) (*http.Request, error) {
	host, err := httpguts.PunycodeHostPort(cmp.Or(r.Host, r.URL.Host))
	if err != nil || !httpguts.ValidHostHeader(host) || !httpguts.ValidHeaderFieldName(r.Method) ||
		strings.ContainsFunc(r.URL.RawQuery, isControl) {
		return nil, errUnsendable
	}
	sent := r.WithContext(ctx)
	sent.Header = c.header(r.Header)
	if strings.Contains(r.URL.RawQuery, " ") { // url.Parse accepts spaces in a query
		u := *r.URL
		u.RawQuery = strings.ReplaceAll(u.RawQuery, " ", "%20")
		sent.URL = &u
	}
	return sent, nil
}

// header returns h itself if it needs no change, and a changed copy otherwise.
func (c *Client) header(h http.Header) http.Header {
	_, isNamed := h["User-Agent"]
	isFinal := isNamed
	for name := range h {
		isFinal = isFinal && !isTransportHeader(name)
	}
	if isFinal {
		return h
	}
	sent := make(http.Header, len(h)+1)
	for name, values := range h {
		if !isTransportHeader(name) {
			sent[name] = values
		}
	}
	if !isNamed {
		sent["User-Agent"] = []string{c.UserAgent}
	}
	return sent
}

func isTransportHeader(name string) bool {
	return slices.ContainsFunc(transportHeaders, func(one string) bool {
		return len(one) == len(name) && strings.EqualFold(one, name)
	})
}

func isValidHeader(h http.Header) bool {
	for name, values := range h {
		if !httpguts.ValidHeaderFieldName(name) {
			return false
		}
		for _, value := range values {
			if !httpguts.ValidHeaderFieldValue(value) {
				return false
			}
		}
	}
	return true
}

// isControl reports whether c is an ASCII control character.
func isControl(c rune) bool { return c < ' ' || c == 0x7f }

// isSendable reports whether a URL is http or https, with a host, without user and
// password, and at most maxURL bytes long.
func isSendable(u *url.URL) bool {
	return u != nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil && len(u.String()) <= maxURL
}
