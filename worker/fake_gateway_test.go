package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eventhook/eventhook/internal/httpguard/httpguardtest"
)

const base = "/api/tenants/acme/eventhook"

// gateway is a fake gateway in memory. It implements the endpoints that a worker calls.
type gateway struct {
	mu        sync.Mutex
	work      []*execution
	promises  []*promise
	changed   chan struct{} // closed when the state changes
	calls     []string      // operations on executions, such as "complete 1"
	claims    []claimBody
	maxLeased int // maximum number of executions that were leased at the same time

	retryDelay time.Duration
	fault      faultFunc
}

// faultFunc may answer a request instead of the gateway. It returns whether it did.
type faultFunc func(w http.ResponseWriter, r *http.Request) bool

// setFault makes the gateway call f before it handles a request.
func (g *gateway) setFault(f faultFunc) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fault = f
}

type execution struct {
	ID         string          `json:"id"`
	Type       string          `json:"type"`
	Kind       string          `json:"kind"`
	Queue      string          `json:"queue"`
	EventID    *string         `json:"event_id"`
	Key        *string         `json:"idempotency_key"`
	Input      json.RawMessage `json:"input"`
	Attempt    int             `json:"attempt"`
	Priority   int             `json:"priority"`
	TraceID    string          `json:"trace_id"`
	LeaseToken int64           `json:"lease_token"`
	LeaseUntil time.Time       `json:"lease_until"`
	State      json.RawMessage `json:"state,omitempty"`
	Promises   []*promise      `json:"promises,omitempty"`

	Status string          `json:"status"`
	Output json.RawMessage `json:"output,omitempty"`
	Error  string          `json:"error,omitempty"`
	due    time.Time       // zero: never
}

type promise struct {
	ID       string          `json:"id"`
	Key      string          `json:"idempotency_key"`
	Status   string          `json:"status"`
	Value    json.RawMessage `json:"value"`
	Error    *string         `json:"error"`
	Workflow *string         `json:"workflow_execution_id"`
}

func newGateway() *gateway {
	return &gateway{changed: make(chan struct{}), retryDelay: 10 * time.Second}
}

// add adds an execution that is due now.
func (g *gateway) add(typ, kind, input string) *execution {
	defer g.lock()()
	id := fmt.Sprint(len(g.work) + 1)
	x := &execution{ID: id, Type: typ, Kind: kind, Queue: "default", Input: json.RawMessage(input), Status: "pending", due: time.Now()}
	g.work = append(g.work, x)
	return x
}

// lock locks the gateway and returns a function that unlocks it and wakes waiting claims.
func (g *gateway) lock() func() {
	g.mu.Lock()
	return func() {
		close(g.changed)
		g.changed = make(chan struct{})
		g.mu.Unlock()
	}
}

// current returns a copy of the execution.
func (g *gateway) current(x *execution) execution {
	g.mu.Lock()
	defer g.mu.Unlock()
	return *x
}

// countCalls returns the number of calls of an operation, such as "complete".
func (g *gateway) countCalls(operation string) (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.calls {
		if strings.HasPrefix(c, operation+" ") {
			n++
		}
	}
	return n
}

// cancel cancels an execution, as an operator would.
func (g *gateway) cancel(x *execution) {
	defer g.lock()()
	x.Status, x.due = "cancelled", time.Time{}
	x.LeaseToken++
}

// settle settles the promise with a key.
func (g *gateway) settle(key, status, value string) {
	defer g.lock()()
	for _, p := range g.promises {
		if p.Key == key {
			p.Status = status
			if status == "resolved" {
				p.Value = json.RawMessage(value)
			} else {
				p.Error = &value
			}
		}
	}
	for _, x := range g.work {
		if x.Status == "suspended" && !slices.ContainsFunc(x.Promises, func(p *promise) bool { return p.Status == "pending" }) {
			x.due = time.Now()
		}
	}
}

// client returns an HTTP client that calls the gateway without a network.
func (g *gateway) client() *http.Client {
	return &http.Client{Transport: httpguardtest.Transport{Handler: g}}
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	fault := g.fault
	g.mu.Unlock()
	if fault != nil && fault(w, r) {
		return
	}
	if r.Header.Get("Authorization") != "Bearer ehk_acme" {
		problem(w, http.StatusUnauthorized, "")
		return
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /work/claim", g.claim)
	mux.HandleFunc("POST /work/{id}/{operation}", g.operate)
	mux.HandleFunc("POST /promises", g.createPromise)
	http.StripPrefix(base, mux).ServeHTTP(w, r)
}

type claimBody struct {
	Queue        string   `json:"queue"`
	Kinds        []string `json:"kinds"`
	Max          int      `json:"max"`
	WaitSeconds  int      `json:"wait_seconds"`
	LeaseSeconds int      `json:"lease_seconds"`
}

func (g *gateway) claim(w http.ResponseWriter, r *http.Request) {
	var body claimBody
	if !read(w, r, &body) {
		return
	}
	end := time.NewTimer(time.Duration(body.WaitSeconds) * time.Second)
	defer end.Stop()
	for waiting := true; ; {
		items, changed, next := g.lease(body)
		if len(items) > 0 || !waiting {
			answer(w, map[string]any{"items": items})
			return
		}
		due := time.NewTimer(next)
		select {
		case <-changed:
		case <-due.C:
		case <-end.C:
			waiting = false
		case <-r.Context().Done():
			return
		}
		due.Stop()
	}
}

// lease leases the executions that are due. It returns a channel that is closed at the next
// change, and the time until the next execution is due.
func (g *gateway) lease(body claimBody) (items []execution, changed <-chan struct{}, next time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now, leased := time.Now(), 0
	g.claims = append(g.claims, body)
	next = time.Hour
	items = []execution{}
	for _, x := range g.work {
		if x.Queue != body.Queue || !slices.Contains(body.Kinds, x.Kind) || x.due.IsZero() {
			continue
		}
		if x.due.After(now) || len(items) == body.Max {
			next = min(next, x.due.Sub(now))
		} else {
			if x.Status != "suspended" {
				x.Attempt++
			}
			x.Status, x.due = "running", now.Add(time.Duration(body.LeaseSeconds)*time.Second)
			x.LeaseToken++
			x.LeaseUntil = x.due
			items = append(items, *x)
		}
		if x.Status == "running" {
			leased++
		}
	}
	g.maxLeased = max(g.maxLeased, leased)
	return items, g.changed, next
}

func (g *gateway) operate(w http.ResponseWriter, r *http.Request) {
	var body struct {
		LeaseToken     int64           `json:"lease_token"`
		LeaseSeconds   int             `json:"lease_seconds"`
		Output         json.RawMessage `json:"output"`
		Error          string          `json:"error"`
		Retryable      *bool           `json:"retryable"`
		State          json.RawMessage `json:"state"`
		Await          []string        `json:"await"`
		TimeoutSeconds int             `json:"timeout_seconds"`
	}
	if !read(w, r, &body) {
		return
	}
	defer g.lock()()
	operation, id := r.PathValue("operation"), r.PathValue("id")
	g.calls = append(g.calls, operation+" "+id)
	i := slices.IndexFunc(g.work, func(x *execution) bool { return x.ID == id })
	if i < 0 {
		problem(w, http.StatusNotFound, "")
		return
	}
	x, now := g.work[i], time.Now()
	if x.Status != "running" || x.LeaseToken != body.LeaseToken {
		problem(w, http.StatusConflict, "the lease is lost")
		return
	}
	switch operation {
	case "heartbeat":
		x.due = now.Add(time.Duration(body.LeaseSeconds) * time.Second)
		answer(w, map[string]any{"lease_until": x.due})
		return
	case "complete":
		x.Status, x.due, x.Output = "completed", time.Time{}, body.Output
	case "fail":
		x.Status, x.due, x.Error = "failed", now.Add(g.retryDelay), body.Error
		if body.Retryable != nil && !*body.Retryable {
			x.Status, x.due = "dead", time.Time{}
		}
	case "suspend":
		x.Status, x.due, x.State, x.Promises = "suspended", time.Time{}, body.State, nil
		for _, p := range g.promises {
			if slices.Contains(body.Await, p.ID) {
				x.Promises = append(x.Promises, p)
			}
		}
		if !slices.ContainsFunc(x.Promises, func(p *promise) bool { return p.Status == "pending" }) {
			x.due = now
		} else if body.TimeoutSeconds > 0 {
			x.due = now.Add(time.Duration(body.TimeoutSeconds) * time.Second)
		}
	}
	answer(w, x)
}

func (g *gateway) createPromise(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Key            string  `json:"idempotency_key"`
		Workflow       *string `json:"workflow_execution_id"`
		TimeoutSeconds int     `json:"timeout_seconds"`
	}
	if !read(w, r, &body) {
		return
	}
	defer g.lock()()
	i := slices.IndexFunc(g.promises, func(p *promise) bool { return p.Key == body.Key })
	if i < 0 {
		i = len(g.promises)
		g.promises = append(g.promises, &promise{ID: "promise-" + body.Key, Key: body.Key, Status: "pending", Workflow: body.Workflow})
		w.WriteHeader(http.StatusCreated)
	}
	answer(w, g.promises[i])
}

// read decodes a request. It is as strict as the gateway and rejects unknown members.
func read(w http.ResponseWriter, r *http.Request, into any) bool {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		problem(w, http.StatusUnprocessableEntity, err.Error())
		return false
	}
	return true
}

func answer(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }

func problem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	answer(w, map[string]any{"title": http.StatusText(status), "status": status, "detail": detail})
}

// waitForStatus waits until an execution has a status, or ctx ends.
func (g *gateway) waitForStatus(ctx context.Context, x *execution, status string) {
	for {
		g.mu.Lock()
		got, changed := x.Status, g.changed
		g.mu.Unlock()
		if got == status {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
