package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// sink is a subscriber that counts. It answers a POST to /50ms/name after 50 ms
// and one to /never/name not at all.
type sink struct {
	mu    sync.Mutex
	seen  map[string]bool
	times []time.Duration
	tally
}

// tally is what a sink has got since it was cleared. What is never answered is
// counted for nothing.
type tally struct {
	Requests int `json:"requests"`
	Distinct int `json:"distinct"` // deliveries, by their ids
	Again    int `json:"again"`    // requests of deliveries that came before
	// P50 and P99 are of the time since the sending, of what tells it, and
	// Timed is how many do.
	P50   time.Duration `json:"p50"`
	P99   time.Duration `json:"p99"`
	Timed int           `json:"timed"`
}

const never = "never"

func newSink() *sink { return &sink{seen: map[string]bool{}} }

// ServeHTTP takes a delivery, or tells the tally for a GET and forgets it for a
// DELETE.
func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet:
		_ = json.NewEncoder(w).Encode(s.told()) // who asks sees that it is cut off
	case http.MethodDelete:
		s.clear()
	default:
		s.take(w, r)
	}
}

func (s *sink) take(w http.ResponseWriter, r *http.Request) {
	arrived := time.Now()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	delay, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if delay == never {
		<-r.Context().Done()
		return
	}
	wait, err := time.ParseDuration(delay)
	if err != nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	// An http target may send no delivery id, but its Idempotency-Key always stays the same.
	s.count(cmp.Or(r.Header.Get("X-Eventhook-Delivery-Id"), r.Header.Get("Idempotency-Key")), body, arrived)
	time.Sleep(wait)
	w.WriteHeader(http.StatusNoContent)
}

func (s *sink) count(delivery string, body []byte, arrived time.Time) {
	sent := sentAt(body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Requests++
	switch {
	case delivery == "": // of a bare client
	case s.seen[delivery]:
		s.Again++
	default:
		s.seen[strings.Clone(delivery)] = true // without the header that it is a part of
		s.Distinct++
	}
	if !sent.IsZero() {
		s.times = append(s.times, arrived.Sub(sent))
	}
}

// sentAt is when a body says that it was sent, zero if it does not.
func sentAt(body []byte) time.Time {
	_, rest, _ := bytes.Cut(body, []byte(`"sent_at":`))
	digits, _, found := bytes.Cut(rest, []byte(","))
	n, err := strconv.ParseInt(string(digits), 10, 64)
	if !found || err != nil {
		return time.Time{}
	}
	return time.Unix(0, n)
}

func (s *sink) told() tally {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tally
	if t.Timed = len(s.times); t.Timed > 0 {
		t.P50, t.P99 = percentile(s.times, 50), percentile(s.times, 99)
	}
	return t
}

func (s *sink) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.seen)
	s.times, s.tally = nil, tally{}
}

// serveSink is the process of a sink.
func serveSink(ctx context.Context, address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Println(sinkAt + l.Addr().String())
	server := &http.Server{Handler: newSink(), ReadHeaderTimeout: time.Minute}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	_ = server.Serve(l) // ends with ctx
	return nil
}

const sinkAt = "sink at "

// sinkProcess is a sink in a process of its own.
type sinkProcess struct {
	*process
	address string
}

func startSink(ctx context.Context) (*sinkProcess, error) {
	p, address, err := start(ctx, sinkAt, os.Args[0], nil, "-sink", "127.0.0.1:0")
	return &sinkProcess{p, address}, err
}

// url is where it answers after a while, in the words of time.ParseDuration, or
// never.
func (s *sinkProcess) url(delay, name string) string {
	return "http://" + s.address + "/" + delay + "/" + name
}

func (s *sinkProcess) clear(ctx context.Context) error {
	_, err := s.ask(ctx, http.MethodDelete)
	return err
}

func (s *sinkProcess) told(ctx context.Context) (t tally, err error) {
	raw, err := s.ask(ctx, http.MethodGet)
	if err == nil {
		err = json.Unmarshal(raw, &t)
	}
	return t, err
}

func (s *sinkProcess) ask(ctx context.Context, method string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+s.address+"/", nil)
	if err != nil {
		return nil, err
	}
	return answered(http.DefaultClient, r)
}

// answered is the body of an answer that is a success.
func answered(c *http.Client, r *http.Request) ([]byte, error) {
	res, err := c.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode/100 != http.StatusOK/100 {
		err = fmt.Errorf("%s %s: %s %s", r.Method, r.URL, res.Status, body)
	}
	return body, err
}
