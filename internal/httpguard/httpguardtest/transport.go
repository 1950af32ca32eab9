package httpguardtest

import (
	"errors"
	"net/http"
	"net/http/httptest"
)

// Transport calls a handler without a network. If the handler panics, as it does to end a
// connection, the caller gets an error.
type Transport struct{ http.Handler }

// RoundTrip implements http.RoundTripper.
func (t Transport) RoundTrip(r *http.Request) (_ *http.Response, err error) {
	defer func() {
		if recover() != nil { // http.ErrAbortHandler
			err = errors.New("connection reset by peer")
		}
	}()
	w := httptest.NewRecorder()
	t.ServeHTTP(w, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return w.Result(), nil
}
