package httpguard

import (
	"io"
	"net/http"
	"time"
)

// drainTime is the time for which the server still reads the body of a refused
// request. A client that is still sending then reads the answer before the
// connection is reset. net/http reads at most 256 KiB.
const drainTime = 250 * time.Millisecond

// refusePromptly sends the answer of a refusal without waiting for the rest of the
// body, and then closes the connection. net/http alone would first read up to
// 256 KiB of the body, until the read timeout.
func refusePromptly(now func() time.Time, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 || r.ProtoMajor > 1 { // HTTP/2 resets the stream of a refused request
			next.ServeHTTP(w, r)
			return
		}
		// The request is copied because net/http checks the type of the body in its own request.
		unread := &trackedBody{ReadCloser: r.Body}
		copied := *r
		copied.Body = unread
		next.ServeHTTP(&promptWriter{ResponseWriter: w, body: unread, now: now}, &copied)
	})
}

// trackedBody records whether a body was read to its end.
type trackedBody struct {
	io.ReadCloser
	ended bool
}

func (b *trackedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.ended = b.ended || err == io.EOF
	return n, err
}

// promptWriter closes the connection after a refusal.
type promptWriter struct {
	http.ResponseWriter
	body *trackedBody
	now  func() time.Time
}

// Unwrap implements the interface that http.ResponseController looks for.
func (w *promptWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader sends the status. If it is a refusal and the body was not read to
// its end, the server closes the connection after the answer.
func (w *promptWriter) WriteHeader(status int) {
	if status >= http.StatusBadRequest && !w.body.ended {
		w.Header().Set("Connection", "close")
		_ = http.NewResponseController(w.ResponseWriter).SetReadDeadline(w.now().Add(drainTime)) // the writers of tests do not support it
	}
	w.ResponseWriter.WriteHeader(status)
}
