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

// answering is what a receiver answers.
type answering struct {
	status    int
	delay     time.Duration
	failEvery int // every Nth of what is verified is answered 500; 0: none
}

// The bounds of what a receiver holds: of one body, and of the ids that it
// recognizes.
const (
	mostReceived   = 33 << 20 // the largest body that a gateway takes, and what is sent beside it
	mostRecognized = 100_000
)

// receiver is a subscriber: it verifies, prints and answers what comes.
type receiver struct {
	signed []signature
	answer answering
	path   string // "": any
	terminal.Printer
	told     io.Writer     // hears what is no event
	stopping chan struct{} // closed when nobody is to be kept waiting
	came     chan int      // how many requests have been answered, after each

	mu    sync.Mutex // of what follows, and of printing
	times *lru.Cache[string, int]
	tally
}

// tally counts requests. All but the refused are events, or come again.
type tally struct {
	requests, events, again, refused int
}

func newReceiver(signed []signature, answer answering, path string, p terminal.Printer) *receiver {
	r := &receiver{signed: signed, answer: answer, path: path, Printer: p, told: p.Out, stopping: make(chan struct{}), came: make(chan int)}
	if p.JSON {
		r.told = p.Hints
	}
	r.times, _ = lru.New[string, int](mostRecognized) // fails for sizes below 1 only
	return r
}

// ServeHTTP takes one request.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	switch {
	case r.path != "" && req.URL.Path != r.path:
		r.note(req, http.StatusNotFound, "another path")
		http.Error(w, "nothing is received at this path", http.StatusNotFound)
		return
	case req.Method != http.MethodPost:
		r.note(req, http.StatusMethodNotAllowed, "events come by POST")
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "events come by POST", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, mostReceived))
	if err != nil {
		status := http.StatusBadRequest
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			status = http.StatusRequestEntityTooLarge
		}
		r.note(req, status, "its body could not be read: "+err.Error())
		http.Error(w, "the body could not be read", status)
		return
	}
	a := arrive(req, body, time.Now())
	r.take(req, a)
	if !r.wait(req) {
		r.note(req, 0, "the sender of "+a.WebhookID+" hung up before its answer")
	}
	w.WriteHeader(a.Answered)
	select {
	case r.came <- r.answered():
	case <-r.stopping:
	}
}

// take judges and prints a request, and says in it what it is answered.
func (r *receiver) take(req *http.Request, a *arrival) {
	j := judge(req.Context(), r.signed, &verify.Request{Method: req.Method, Header: req.Header, Body: a.body, At: a.At})
	a.judged = j
	a.Verified, a.VerifiedBy, a.Error, a.PlainError = j.by != "", terminal.OrNull(j.by), terminal.OrNull(j.why), terminal.OrNull(j.plain)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count(a, len(r.signed) == 0)
	r.print(a)
}

// count says what a request is answered. One that is refused counts for nothing
// else: anybody can send it.
func (r *receiver) count(a *arrival, unjudged bool) {
	if !a.Verified && !unjudged {
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
		r.again++
	} else {
		r.events++
	}
	a.Answered = r.answer.status
	if n := r.answer.failEvery; n > 0 && (r.events+r.again)%n == 0 {
		a.Answered = http.StatusInternalServerError
	}
}

// wait lets the delay pass. It reports whether the sender is still there.
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

func (r *receiver) answered() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests++
	return r.requests
}

// summary tells how many requests came.
func (r *receiver) summary() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("%d came: %d events, %d again, %d not verified.", r.events+r.again+r.refused, r.events, r.again, r.refused)
}

// arrival is what came with one request. Its members are the lines of -o json.
type arrival struct {
	At         time.Time `json:"at"`
	WebhookID  string    `json:"webhook_id"`
	EventID    string    `json:"event_id"`
	EventType  string    `json:"event_type"`
	DeliveryID string    `json:"delivery_id"`
	Attempt    int       `json:"attempt"`
	Times      int       `json:"times"` // that it has come, with this one; 0 if it is refused
	Verified   bool      `json:"verified"`
	VerifiedBy *string   `json:"verified_by"`
	Error      *string   `json:"error"`
	PlainError *string   `json:"plain_signature_error"`
	Answered   int       `json:"answered"`
	BodySize   int       `json:"body_size"`
	body       []byte
	judged     judgement
}

// arrive reads what a request says of itself: in headers, else in its body.
func arrive(req *http.Request, body []byte, at time.Time) *arrival {
	h := req.Header
	a := &arrival{At: at, WebhookID: h.Get("webhook-id"), EventID: h.Get("X-Eventhook-Event-Id"), EventType: h.Get("X-Eventhook-Event-Type"),
		DeliveryID: h.Get("X-Eventhook-Delivery-Id"), BodySize: len(body), body: body}
	a.Attempt, _ = strconv.Atoi(h.Get("X-Eventhook-Attempt"))
	a.EventID = cmp.Or(a.EventID, memberOf(body, "event_id"))
	a.EventType = cmp.Or(a.EventType, memberOf(body, "event_type"), memberOf(body, "type"))
	return a
}

// memberOf is a text of a body that is a JSON object, "" without one.
func memberOf(body []byte, name string) string {
	if v := gjson.GetBytes(body, name); v.Type == gjson.String {
		return strings.Clone(v.Str)
	}
	return ""
}
