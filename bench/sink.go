package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/eventhook/eventhook/bench/measure"
)

// sink is a receiver that counts deliveries. It answers a POST to /50ms/name after 50
// ms and a POST to /never/name not at all.
type sink struct {
	mu    sync.Mutex
	seen  map[string]bool
	last  map[string]string // the last event of each customer
	times []time.Duration
	tally
}

// tally counts the requests since the last reset. Requests that are never answered do
// not count.
type tally struct {
	Requests   int `json:"requests"`
	Distinct   int `json:"distinct"`   // distinct delivery ids
	Duplicates int `json:"duplicates"` // requests that repeat a delivery id
	Reordered  int `json:"reordered"`  // first requests of events after a later event of their customer
	// P50 and P99 are the times from sending to arrival of the Timed requests, whose
	// bodies have the time of sending.
	P50   time.Duration `json:"p50"`
	P99   time.Duration `json:"p99"`
	Timed int           `json:"timed"`
}

const never = "never"

func newSink() *sink { return &sink{seen: map[string]bool{}, last: map[string]string{}} }

// ServeHTTP receives a delivery by POST. GET returns the tally and DELETE resets it.
func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet:
		_ = json.NewEncoder(w).Encode(s.current()) // the client detects a truncated response
	case http.MethodDelete:
		s.reset()
	default:
		s.receive(w, r)
	}
}

func (s *sink) receive(w http.ResponseWriter, r *http.Request) {
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
	// The requests of an http target may have no delivery id, but always an
	// Idempotency-Key, which is the same for every attempt.
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
	case delivery == "": // from the bare client
	case s.seen[delivery]:
		s.Duplicates++
	default:
		s.seen[strings.Clone(delivery)] = true // a copy, to release the header
		s.Distinct++
		s.follow(body)
	}
	if !sent.IsZero() {
		s.times = append(s.times, arrived.Sub(sent))
	}
}

// follow compares an event of a customer with the one before it.
func (s *sink) follow(body []byte) {
	customer, id := textMember(body, "customer"), textMember(body, "id")
	if customer == "" {
		return
	}
	if id < s.last[customer] {
		s.Reordered++
	}
	s.last[customer] = id
}

// textMember returns a text in an event's data, or "". The text must have no escapes.
func textMember(body []byte, name string) string {
	_, rest, _ := bytes.Cut(body, []byte(`,"`+name+`":"`))
	text, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(text)
}

// sentAt returns the time of sending in a body, or zero if the body has none.
func sentAt(body []byte) time.Time {
	_, rest, _ := bytes.Cut(body, []byte(`"sent_at":`))
	digits, _, found := bytes.Cut(rest, []byte(","))
	n, err := strconv.ParseInt(string(digits), 10, 64)
	if !found || err != nil {
		return time.Time{}
	}
	return time.Unix(0, n)
}

func (s *sink) current() tally {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tally
	if t.Timed = len(s.times); t.Timed > 0 {
		t.P50, t.P99 = measure.Percentile(s.times, 50), measure.Percentile(s.times, 99)
	}
	return t
}

func (s *sink) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.seen)
	clear(s.last)
	s.times, s.tally = nil, tally{}
}
