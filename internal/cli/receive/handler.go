package receive

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/eventhook/eventhook/internal/cli/terminal"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/tidwall/gjson"

	"github.com/eventhook/eventhook/verify"
)

// answerPolicy decides the answers to verified requests.
type answerPolicy struct {
	status    int
	delay     time.Duration
	failEvery int // every Nth verified request is answered 500; 0: none
}

// The limits of memory.
const (
	maxBody = 33 << 20 // maximum body of a gateway with the envelope around it, in bytes
	maxIDs  = 100_000  // ids of received events
)

// receiver verifies, prints and answers requests.
type receiver struct {
	signed []signature
	answer answerPolicy
	path   string // "" for any path
	terminal.Printer
	notes    io.Writer     // for requests that are not events
	stopping chan struct{} // closed at the stop, which ends delays
	count    chan int      // number of answered requests, sent after each

	mu    sync.Mutex // guards the fields below and the output
	times *lru.Cache[string, int]
	tally
}

// tally counts requests.
type tally struct {
	answered   int
	events     int // verified, for the first time
	duplicates int // verified, with a known webhook-id
	refused    int // not verified
}

func newReceiver(signed []signature, answer answerPolicy, path string, p terminal.Printer) *receiver {
	r := &receiver{signed: signed, answer: answer, path: path, Printer: p, notes: p.Out, stopping: make(chan struct{}), count: make(chan int)}
	if p.JSON {
		r.notes = p.Hints
	}
	r.times, _ = lru.New[string, int](maxIDs) // fails only for sizes below 1
	return r
}

// ServeHTTP verifies, prints and answers one request.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	switch {
	case r.path != "" && req.URL.Path != r.path:
		r.note(req, http.StatusNotFound, "the path is not --path")
		http.Error(w, "this receiver uses another path", http.StatusNotFound)
		return
	case req.Method != http.MethodPost:
		r.note(req, http.StatusMethodNotAllowed, "events are sent by POST")
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "events are sent by POST", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBody))
	if err != nil {
		status := http.StatusBadRequest
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			status = http.StatusRequestEntityTooLarge
		}
		r.note(req, status, "cannot read the body: "+err.Error())
		http.Error(w, "cannot read the body", status)
		return
	}
	a := newArrival(req, body, time.Now())
	r.process(req, a)
	if !r.wait(req) {
		r.note(req, 0, "the sender of "+a.WebhookID+" closed the connection before the answer")
	}
	w.WriteHeader(a.Answered)
	select {
	case r.count <- r.countAnswer():
	case <-r.stopping:
	}
}

// process verifies, counts and prints a request, and sets its answer.
func (r *receiver) process(req *http.Request, a *arrival) {
	found := check(req.Context(), r.signed, &verify.Request{Method: req.Method, Header: req.Header, Body: a.body, At: a.At})
	a.result = found
	a.Verified, a.VerifiedBy, a.Error, a.PlainError = found.verifiedBy != "", terminal.OrNull(found.verifiedBy), terminal.OrNull(found.failure), terminal.OrNull(found.plainFailure)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle(a, len(r.signed) == 0)
	r.print(a)
}

// settle sets the answer to a request and counts it. The id of a
// refused request is not recorded, since any sender could send it.
func (r *receiver) settle(a *arrival, acceptAll bool) {
	if !a.Verified && !acceptAll {
		r.refused++
		a.Answered = http.StatusUnauthorized
		return
	}
	a.Times = 1
	if a.WebhookID != "" {
		before, _ := r.times.Get(a.WebhookID)
		a.Times += before
		r.times.Add(a.WebhookID, a.Times)
	}
	if a.Times > 1 {
		r.duplicates++
	} else {
		r.events++
	}
	a.Answered = r.answer.status
	if n := r.answer.failEvery; n > 0 && (r.events+r.duplicates)%n == 0 {
		a.Answered = http.StatusInternalServerError
	}
}

// wait waits for the delay. It returns false if the sender closed the connection.
func (r *receiver) wait(req *http.Request) bool {
	if r.answer.delay == 0 {
		return true
	}
	t := time.NewTimer(r.answer.delay)
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.stopping:
	case <-req.Context().Done():
		return false
	}
	return true
}

// countAnswer returns the number of answered requests.
func (r *receiver) countAnswer() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answered++
	return r.answered
}

// summary returns the numbers of requests.
func (r *receiver) summary() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("%d received: %d events, %d duplicates, %d not verified.", r.events+r.duplicates+r.refused, r.events, r.duplicates, r.refused)
}

// arrival is one received request. The JSON members are the documented output of
// -o json.
type arrival struct {
	At         time.Time `json:"at"`
	WebhookID  string    `json:"webhook_id"`
	EventID    string    `json:"event_id"`
	EventType  string    `json:"event_type"`
	DeliveryID string    `json:"delivery_id"`
	Attempt    int       `json:"attempt"`
	Times      int       `json:"times"` // number of requests with this webhook-id so far; 0 if it is refused
	Verified   bool      `json:"verified"`
	VerifiedBy *string   `json:"verified_by"`
	Error      *string   `json:"error"`
	PlainError *string   `json:"plain_signature_error"`
	Answered   int       `json:"answered"`
	BodySize   int       `json:"body_size"`
	body       []byte
	result     result
}

// newArrival reads the ids and the type of an event from the headers or the body.
func newArrival(req *http.Request, body []byte, at time.Time) *arrival {
	h := req.Header
	a := &arrival{At: at, WebhookID: h.Get("webhook-id"), EventID: h.Get("X-Eventhook-Event-Id"), EventType: h.Get("X-Eventhook-Event-Type"),
		DeliveryID: h.Get("X-Eventhook-Delivery-Id"), BodySize: len(body), body: body}
	a.Attempt, _ = strconv.Atoi(h.Get("X-Eventhook-Attempt"))
	a.EventID = cmp.Or(a.EventID, memberOf(body, "event_id"))
	a.EventType = cmp.Or(a.EventType, memberOf(body, "event_type"), memberOf(body, "type"))
	return a
}

// memberOf returns a text member of a JSON object, "" if there is none.
func memberOf(body []byte, name string) string {
	if v := gjson.GetBytes(body, name); v.Type == gjson.String {
		return strings.Clone(v.Str)
	}
	return ""
}
