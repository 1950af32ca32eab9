package gatewaytest

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// receiveLimit allows for a busy machine.
const receiveLimit = time.Minute

// Receiver is a server on this machine that receives deliveries.
type Receiver struct {
	URL    string
	t      testing.TB
	answer atomic.Pointer[answer]
	got    chan Delivery
}

// answer is how a receiver answers.
type answer struct {
	status int
	body   string
}

// Delivery is a request that a receiver answered.
type Delivery struct {
	Header http.Header
	Body   []byte
	Status int // of the answer
}

// NewReceiver starts a receiver that answers 200 until the test ends.
func NewReceiver(t testing.TB) *Receiver {
	r := newReceiver(t)
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	r.URL = s.URL + "/hooks"
	return r
}

// newReceiver returns a receiver without a server.
func newReceiver(t testing.TB) *Receiver {
	const buffered = 10_000
	r := &Receiver{t: t, got: make(chan Delivery, buffered)}
	r.Answer(http.StatusOK)
	return r
}

// Answer sets the status of all answers from now on.
func (r *Receiver) Answer(status int) { r.AnswerText(status, "") }

// AnswerText sets the status and the body of all answers from now on.
func (r *Receiver) AnswerText(status int, body string) { r.answer.Store(&answer{status, body}) }

// ServeHTTP answers a delivery.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return
	}
	a := r.answer.Load()
	select {
	case r.got <- Delivery{Header: q.Header, Body: body, Status: a.status}:
	default: // the test reads no deliveries
	}
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, a.body)
}

// Next waits for the next delivery.
func (r *Receiver) Next() Delivery {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), receiveLimit)
	defer cancel()
	select {
	case d := <-r.got:
		return d
	case <-ctx.Done():
		r.t.Fatal("the receiver got no delivery")
		return Delivery{}
	}
}

// Unread returns the number of deliveries that Next has not returned.
func (r *Receiver) Unread() int { return len(r.got) }
