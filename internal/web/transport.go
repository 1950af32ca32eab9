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
// values. It keeps the whole response in memory, so it must not be used for streams. A Transport
// belongs to one request and is safe for concurrent use.
type Transport struct {
	Handler http.Handler
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
	answer := &recorder{header: http.Header{}}
	t.Handler.ServeHTTP(answer, in)
	return answer.response(r), nil
}

// recorder keeps a response in memory.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *recorder) Header() http.Header { return w.header }

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *recorder) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}

func (w *recorder) response(r *http.Request) *http.Response {
	w.WriteHeader(http.StatusOK)
	return &http.Response{Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r}
}
