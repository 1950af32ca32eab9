package web

import (
	"bytes"
	"io"
	"net/http"
)

// forwarded lists the headers of a browser's request that a call to the API carries: the address
// of the client and the ids of the request.
var forwarded = []string{"X-Forwarded-For", "Forwarded", "X-Real-Ip", "X-Request-Id", "Traceparent", "Tracestate"}

// Transport calls a handler of the same process in place of a server, on behalf of the request of
// a browser: calls have its client address, its headers for addresses and traces, and its context
// values. It keeps the whole response in memory, so it must not be used for streams. A response of
// more than maxResponse bytes becomes a problem with the status 500. A Transport belongs to one
// request and is safe for concurrent use.
type Transport struct {
	Handler http.Handler
	// CopyTo returns the writer of the body of a response with the status 200, which then is not kept
	// in memory and has no limit. It gets the header of the response, before the first byte. nil: every
	// body is kept.
	CopyTo func(http.Header) io.Writer
	// Request is the request of the browser. The caller stores the session for the API in its
	// context.
	Request *http.Request
}

// RoundTrip calls the handler. If the context has a session for the API, the API ignores the
// Authorization header of the call. The error is the context's, if it has ended.
func (t Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	in := r.Clone(r.Context())
	for _, name := range forwarded {
		if v := t.Request.Header.Values(name); len(v) > 0 && in.Header.Get(name) == "" {
			in.Header[http.CanonicalHeaderKey(name)] = v
		}
	}
	in.RemoteAddr, in.RequestURI, in.TLS = t.Request.RemoteAddr, r.URL.RequestURI(), t.Request.TLS
	if in.Body == nil {
		in.Body = http.NoBody
	}
	answer := &recorder{header: http.Header{}, copyTo: t.CopyTo}
	t.Handler.ServeHTTP(answer, in)
	return answer.response(r), nil
}

// maxResponse limits a response in memory, in bytes. Pages read documents in part, and lists by page,
// of which the API returns at most 16 MiB of stored values.
const maxResponse = 32 << 20

// recorder keeps a response in memory, or copies it.
type recorder struct {
	header  http.Header
	status  int
	body    bytes.Buffer
	copyTo  func(http.Header) io.Writer
	copied  io.Writer // nil until the first byte
	isLarge bool
}

func (w *recorder) Header() http.Header { return w.header }

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *recorder) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	switch {
	case w.isCopied():
		return w.copied.Write(b)
	case w.isLarge || w.body.Len()+len(b) > maxResponse:
		w.isLarge, w.body = true, bytes.Buffer{}
		return len(b), nil
	}
	return w.body.Write(b)
}

// isCopied reports whether the body is copied, and begins the copy.
func (w *recorder) isCopied() bool {
	if w.copied == nil && w.copyTo != nil && w.status == http.StatusOK {
		w.copied = w.copyTo(w.header)
	}
	return w.copied != nil
}

// tooLarge is the problem in place of a response that is too large.
const tooLarge = `{"title":"Internal Server Error","status":500,
"detail":"This is too large for a page. Read it with the API."}`

func (w *recorder) response(r *http.Request) *http.Response {
	w.WriteHeader(http.StatusOK)
	_ = w.isCopied() // also without a body
	if w.isLarge {
		w.status = http.StatusInternalServerError
		w.header.Set("Content-Type", "application/problem+json")
		w.body.WriteString(tooLarge)
	}
	return &http.Response{Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r}
}
