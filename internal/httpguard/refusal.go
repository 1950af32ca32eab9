package httpguard

import (
	"io"
	"net/http"
	"time"
)

// drainTime is how long a refused client may go on sending, so that it can read
// the answer before the connection is reset. net/http reads at most 256 KiB of
// that.
const drainTime = 250 * time.Millisecond

// refusePromptly answers a refusal without waiting for the rest of the body, and
// then closes the connection. net/http would wait for up to 256 KiB until the
// read timeout before it sends the answer.
func refusePromptly(now func() time.Time, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 {
			next.ServeHTTP(w, r)
			return
		}
		// A copy: net/http compares the type of its own request's body.
		unread := &bodyWatch{ReadCloser: r.Body}
		copied := *r
		copied.Body = unread
		next.ServeHTTP(&promptWriter{ResponseWriter: w, body: unread, now: now}, &copied)
	})
}

// bodyWatch notes whether a body was read to its end.
type bodyWatch struct {
	io.ReadCloser
	ended bool
}

func (b *bodyWatch) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.ended = b.ended || err == io.EOF
	return n, err
}

type promptWriter struct {
	http.ResponseWriter
	body *bodyWatch
	now  func() time.Time
}

// Unwrap is for http.ResponseController.
func (w *promptWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader closes the connection after a refusal of a request whose body was
// not read to its end.
func (w *promptWriter) WriteHeader(status int) {
	if status >= http.StatusBadRequest && !w.body.ended {
		w.Header().Set("Connection", "close")
		_ = http.NewResponseController(w.ResponseWriter).SetReadDeadline(w.now().Add(drainTime)) // a test's writer has none
	}
	w.ResponseWriter.WriteHeader(status)
}
