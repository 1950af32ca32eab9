package web

import (
	"bytes"
	"compress/gzip"
	"errors"
	"html/template"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// maxPage limits the HTML of a page in bytes.
const maxPage = 4 << 20

// ErrPageTooLarge is the error of a page that has more HTML than a browser should get.
var ErrPageTooLarge = errors.New("the page would have more than 4 MB of HTML")

// Execute returns the HTML of a page: the template layout of a set. The error is ErrPageTooLarge for
// a page of more than 4 MB, of which it keeps no more than that.
func Execute(set *template.Template, data any) ([]byte, error) {
	var page limitedPage
	if err := set.ExecuteTemplate(&page, "layout", data); err != nil {
		return nil, err
	}
	return page.html.Bytes(), nil
}

type limitedPage struct{ html bytes.Buffer }

func (p *limitedPage) Write(b []byte) (int, error) {
	if p.html.Len()+len(b) > maxPage {
		return 0, ErrPageTooLarge
	}
	return p.html.Write(b)
}

// compressors are reused, because a new one takes 800 KB.
var compressors = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

// WriteHTML writes a complete page, compressed if the browser accepts that.
func WriteHTML(w http.ResponseWriter, r *http.Request, status int, page []byte) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Vary", "Accept-Encoding")
	if !acceptsGzip(r) {
		w.WriteHeader(status)
		_, _ = w.Write(page) // the client may have disconnected
		return
	}
	h.Set("Content-Encoding", "gzip")
	w.WriteHeader(status)
	z, _ := compressors.Get().(*gzip.Writer) // New makes each
	defer compressors.Put(z)
	z.Reset(w)
	_, _ = z.Write(page)
	_ = z.Close()
}

// SetRetryAfter sets the header Retry-After to a time in whole seconds, rounded up. It does nothing for 0.
func SetRetryAfter(h http.Header, wait time.Duration) {
	if wait > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
	}
}

// GetOnly returns a handler for a pattern with the method GET that answers HEAD with 405, because the
// handler changes something, for example starts a session. Programs look at links with HEAD.
func GetOnly(handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			w.Header().Set("Allow", http.MethodGet)
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		handle(w, r)
	}
}

// IsForPart reports whether htmx asks for the page to replace a part of it, not a person.
func IsForPart(r *http.Request) bool { return r.Header.Get("Hx-Request") != "" }

// HostOf returns the host of a request if it can be part of a URL, else localhost.
func HostOf(r *http.Request) string {
	u, err := url.Parse("http://" + r.Host)
	if err == nil && u.Host != "" && u.User == nil && u.Path == "" && u.RawQuery == "" {
		return u.Host
	}
	return "localhost"
}

// ParseTime returns a time of a query: RFC 3339, or the form of a datetime-local field, which counts
// as UTC. It returns nil for "". ok is false for a text that is not a time.
func ParseTime(text string) (at *time.Time, ok bool) {
	if text == "" {
		return nil, true
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04", "2006-01-02T15:04:05"} {
		if t, err := time.Parse(layout, text); err == nil {
			return &t, true
		}
	}
	return nil, false
}
