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
	status atomic.Int64
	got    chan Delivery
}

// Delivery is a request that a receiver answered.
type Delivery struct {
	Header http.Header
	Body   []byte
	Status int // of the answer
}

// NewReceiver starts a receiver that answers 200 until the test ends.
func NewReceiver(t testing.TB) *Receiver {
	const buffered = 10_000
	r := &Receiver{t: t, got: make(chan Delivery, buffered)}
	r.Answer(http.StatusOK)
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	r.URL = s.URL + "/hooks"
	return r
}

// Answer sets the status of all answers from now on.
func (r *Receiver) Answer(status int) { r.status.Store(int64(status)) }

// ServeHTTP answers a delivery.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return
	}
	status := int(r.status.Load())
	select {
	case r.got <- Delivery{Header: q.Header, Body: body, Status: status}:
	default: // the test reads no deliveries
	}
	w.WriteHeader(status)
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
