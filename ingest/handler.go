package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime"
	"slices"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/time/rate"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/chunks"
	"github.com/eventhook/eventhook/internal/clients"
	"github.com/eventhook/eventhook/internal/snapshot"
	"github.com/eventhook/eventhook/internal/usage"
	"github.com/eventhook/eventhook/verify"
)

// Observer hears how each request was answered. reason says in one of a few
// words why verification failed: mostly one of verify's.
type Observer interface {
	Answered(o Outcome, reason string)
}

// Handler is the tenant's URL.
type Handler struct {
	config    Config
	sources   *snapshot.Cache[address, *endpoint]
	fastly    *fastlyCache
	batcher   *Batcher
	observer  Observer
	learner   Learner
	confirm   Confirm
	log       *slog.Logger
	now       func() time.Time
	trusted   clients.Ranges // proxies
	forgeries *clients.Budget
	rejected  rejections

	confirming chan struct{} // holds one for each confirmation under way
	memory     *memory       // that requests hold
	large      largeGate
	refusals   *rate.Limiter // of log lines about requests
	faults     *rate.Limiter // and about what we failed at
}

// Deps are what a Handler needs of others.
type Deps struct {
	Sources  Sources
	Batcher  *Batcher
	Observer Observer
	Keys     verify.Keys  // of verifiers whose keys are on the web; nil: such requests are refused
	Learner  Learner      // nil: handshakes that bring a secret fail
	Confirm  Confirm      // nil: subscriptions of Amazon SNS are not confirmed
	Services Services     // nil: Fastly is told of none
	Meter    *usage.Meter // nil: nothing is counted, and no quota holds
	Log      *slog.Logger
	Now      func() time.Time
}

// The bounds of log lines of one kind about failed or refused requests.
const (
	linesPerSecond = 5
	linesAtOnce    = 20
)

// NewHandler makes the handler. The config has been validated.
func NewHandler(config Config, deps Deps) *Handler {
	h := &Handler{config: config, sources: newSnapshot(config, deps), fastly: newFastlyCache(deps), batcher: deps.Batcher,
		observer: deps.Observer, learner: deps.Learner, confirm: deps.Confirm, log: deps.Log, now: deps.Now,
		confirming: make(chan struct{}, confirmsAtOnce), memory: newMemory(config, deps.Now), large: newLargeGate(runtime.GOMAXPROCS(0)),
		forgeries: clients.NewBudget(config.ForgeriesPerSec, config.ForgeriesBurst), refusals: rate.NewLimiter(linesPerSecond, linesAtOnce), faults: rate.NewLimiter(linesPerSecond, linesAtOnce)}
	var err error
	if h.trusted, err = clients.ParseRanges(config.TrustedProxies); err != nil {
		panic(err) // the config has been validated
	}
	return h
}

// Sender is who sent a request, as far as trusted proxies can be believed; not
// valid if that is not known.
func (h *Handler) Sender(r *http.Request) netip.Addr { return h.trusted.Sender(r) }

// Register adds the tenants' URLs to a router, for every method there is or
// may be: the answer to a wrong one is ours too. It adds FastlyPath, too.
func (h *Handler) Register(e *echo.Echo) {
	e.Any(Path(":tenant", ":source"), h.serve)
	e.RouteNotFound(Path(":tenant", ":source"), h.serve)
	e.GET(FastlyPath, h.serveFastly)
}

// InvalidateSource drops what is cached of a source, InvalidateTenant of all sources
// of a tenant, InvalidateAll of everything.
func (h *Handler) InvalidateSource(tenant, source string) {
	h.sources.Invalidate(address{tenant, source})
	h.fastly.Clear()
}

// InvalidateTenant drops what is cached of all sources of a tenant.
func (h *Handler) InvalidateTenant(tenant string) {
	h.sources.InvalidateFunc(func(a address) bool { return a.tenant == tenant })
	h.fastly.Clear()
}

// InvalidateAll drops everything that is cached.
func (h *Handler) InvalidateAll() {
	h.sources.Clear()
	h.fastly.Clear()
}

// refused is why a request is not accepted.
type refused struct {
	outcome    Outcome
	reason     string        // for log and metric, never for the sender
	retryAfter time.Duration // 0: none is told
	allow      string        // the methods that would be taken
	silent     bool          // the answer has no body
	closes     bool          // the connection cannot be used again
	cause      error         // what we failed at, for the log
	detail     string        // the verifier's words, for the source's people
	bodySize   int           // of a body that was read to its end; see having
	bodySHA256 []byte        // nil if it was not
	over       *usage.Excess // the quota that it does not fit into
}

func (h *Handler) serve(c echo.Context) error {
	r, w := c.Request(), c.Response().Writer
	at := addressOf(r, c.Param("tenant"), c.Param("source"))
	a, end, no := h.receive(w, r, at)
	if no != nil {
		h.observer.Answered(no.outcome, no.reason)
		h.logRefusal(at, r, no)
		h.reject(r, end, no)
		refuse(w, no)
		c.Response().Committed = true
		return nil
	}
	h.answer(w, end, a)
	c.Response().Committed = true
	return nil
}

// answered is what became of a request: an event, or a handshake's reply.
type answered struct {
	event *eventhook.Event
	reply *reply
}

// receive takes a request down the road to the disk. The source's limits are
// looked at before anything is read or verified, and used only by requests
// that are genuine: whatever is refused before costs the provider nothing. The
// source is returned, too, when it refuses; it is nil if there is none.
func (h *Handler) receive(w http.ResponseWriter, r *http.Request, at address) (a answered, end *endpoint, no *refused) {
	end, no = h.find(r.Context(), at)
	if no != nil {
		return a, nil, no
	}
	if !end.takes(r.Method) {
		return a, nil, &refused{outcome: OutcomeMethod, allow: end.allow()} // a browser's visit is no rejection
	}
	now, client := h.now(), h.Sender(r)
	if no = end.admits(r, client, now); no != nil {
		return a, end, no
	}
	if r.ContentLength > int64(end.bodyLimit) {
		return a, end, &refused{outcome: OutcomeTooLarge}
	}
	hold := h.memory.begin(w, r, end.limits, client, now)
	defer hold.end()
	raw, no := h.readRequest(r, end, hold)
	if no != nil {
		return a, end, no
	}
	c := challenge{h.signed(r, end, raw.Body, now), end, at, client}
	cost := end.cost(c.Request)
	if hold.Take(cost) != nil {
		return a, end, shed()
	}
	e, reply, no := h.examine(r, raw, c, hold, cost)
	if e == nil {
		a.reply = reply
		return a, end, no
	}
	a.event, no = h.store(e, c)
	return a, end, no
}

// examine verifies a request and makes its event, unless it is a handshake or is
// refused. cost is the memory that hold counts for the verifier.
func (h *Handler) examine(r *http.Request, raw eventhook.Payload, c challenge, hold *holding, cost int) (*eventhook.Event, *reply, *refused) {
	leave, no := h.large.enter(r.Context(), c.end, r.Header.Get("Content-Encoding"), raw.Body)
	if no != nil {
		return nil, nil, no
	}
	defer leave()
	if reply, no := h.judge(r.Context(), c); reply != nil || no != nil {
		return nil, reply, no
	}
	hold.Return(cost)
	e, no := h.accept(r, raw, c, hold)
	return e, nil, no
}

// admits is nil for a request that may be read. A handshake without a body has
// no content type either.
func (e *endpoint) admits(r *http.Request, client netip.Addr, now time.Time) *refused {
	if !e.allows(client) {
		return &refused{outcome: OutcomeNotAllowed}
	}
	if wait := e.limits.wait(now); wait > 0 {
		return &refused{outcome: OutcomeRateLimited, retryAfter: wait}
	}
	bare := r.ContentLength == 0 && e.handshake.exists()
	if !bare && !e.accepts(r.Header.Get("Content-Type")) {
		return &refused{outcome: OutcomeContentType}
	}
	if !bare && !decodes(r.Header) {
		return &refused{outcome: OutcomeEncoding}
	}
	return nil
}

// judge verifies a request, and answers it if it is a handshake. Both answers
// are nil if it is genuine, and to be an event.
func (h *Handler) judge(ctx context.Context, c challenge) (*reply, *refused) {
	end := c.end
	if reply, no := h.shake(ctx, end.handshake.unsigned[c.Method], c, end.limits.unproven); reply != nil || no != nil {
		return reply, no
	}
	if no := h.verify(ctx, c); no != nil {
		no.silent = end.handshake.silent
		return nil, no
	}
	return h.shake(ctx, end.handshake.signed[c.Method], c, end.limits.pace)
}

// accept makes the event of a verified request, within the limits of its source.
func (h *Handler) accept(r *http.Request, raw eventhook.Payload, c challenge, hold *holding) (*eventhook.Event, *refused) {
	switch {
	case !slices.Contains(c.end.methods, r.Method):
		return nil, h.overdrawn(c.client, malformed("no webhook comes with this method, and it is no handshake")).having(raw.Body)
	case !c.end.accepts(r.Header.Get("Content-Type")):
		return nil, &refused{outcome: OutcomeContentType}
	}
	if wait := c.end.limits.take(h.now()); wait > 0 {
		return nil, &refused{outcome: OutcomeRateLimited, retryAfter: wait}
	}
	e, no := h.event(r, raw, c, hold)
	if no != nil {
		return nil, no.having(raw.Body)
	}
	e.SignedHash = c.end.signedHash(c.Request)
	return e, nil
}

// store stores an event if its tenant's quota has room for it.
func (h *Handler) store(e *eventhook.Event, c challenge) (*eventhook.Event, *refused) {
	now := h.now()
	size := len(e.Headers) + len(e.Body)
	if over := c.end.account.Take(size, now); over != nil {
		return nil, &refused{outcome: OutcomeQuotaExceeded, retryAfter: over.ResetsAt.Sub(now), over: over}
	}
	if err := h.batcher.Accept(e); err != nil {
		c.end.account.Return(size, now)
		return nil, notStored(err)
	}
	return e, nil
}

func (h *Handler) find(ctx context.Context, at address) (*endpoint, *refused) {
	if !eventhook.IsSlug(at.tenant) || !eventhook.IsSlug(at.source) {
		return nil, &refused{outcome: OutcomeNotFound} // made-up names are not asked for, kept or logged
	}
	end, err := h.sources.Get(ctx, at)
	switch {
	case err == nil:
		return end, nil
	case eventhook.KindOf(err) == eventhook.KindNotFound:
		return nil, &refused{outcome: OutcomeNotFound}
	case ctx.Err() != nil:
		return nil, &refused{outcome: OutcomeUnreadable} // the sender is gone
	}
	return nil, &refused{outcome: OutcomeFailed, cause: fmt.Errorf("find the source: %w", err)}
}

func (h *Handler) signed(r *http.Request, end *endpoint, body []byte, now time.Time) *verify.Request {
	url := end.signedURL
	if r.URL.RawQuery != "" {
		url += "?" + r.URL.RawQuery
	}
	return &verify.Request{Method: r.Method, URL: url, Header: r.Header, Body: body, At: now}
}

func notStored(err error) *refused {
	if e, ok := errors.AsType[*eventhook.Error](err); ok && e.Kind == eventhook.KindUnavailable {
		return &refused{outcome: OutcomeShed, retryAfter: e.RetryAfter}
	}
	return &refused{outcome: OutcomeFailed}
}

// event makes the event of a verified request. Afterwards hold counts the raw
// bytes alone.
func (h *Handler) event(r *http.Request, raw eventhook.Payload, c challenge, hold *holding) (*eventhook.Event, *refused) {
	before := hold.bytes
	defer func() { hold.Return(int(hold.bytes - before)) }()
	view, err := c.end.view(r.Header, raw.Body, hold)
	switch {
	case errors.Is(err, chunks.ErrTooLong):
		return nil, &refused{outcome: OutcomeTooLarge}
	case err != nil:
		return nil, shed()
	}
	e := c.end.event(r.Header, raw, view, c.At)
	if e.IdempotencyKey == "" && c.end.source.RequireIdempotencyKey {
		return nil, &refused{outcome: OutcomeKeyMissing}
	}
	e.SourceIP = clients.Text(c.client)
	return e, nil
}

// answer replies to a handshake, or tells the sender that the event is stored.
func (h *Handler) answer(w http.ResponseWriter, end *endpoint, a answered) {
	if a.reply != nil {
		h.observer.Answered(OutcomeHandshake, "")
		a.reply.write(w)
		return
	}
	e, outcome := a.event, OutcomeAccepted
	if e.Status == eventhook.EventDuplicate {
		outcome = OutcomeDuplicate
	}
	h.observer.Answered(outcome, "")
	header := w.Header()
	if reply := end.source.Response; reply != nil {
		// A tenant's text must not act as a page of ours.
		header["X-Content-Type-Options"], header["Content-Security-Policy"] = noSniff, sandbox
		if reply.ContentType != "" {
			header.Set("Content-Type", reply.ContentType)
		}
		w.WriteHeader(reply.Status)
		if reply.Status != http.StatusNoContent && reply.Status != http.StatusResetContent { // which have no body
			_, _ = io.WriteString(w, reply.Body) // the sender may be gone
		}
		return
	}
	header["Content-Type"] = jsonType
	const usual = 160
	b := append(make([]byte, 0, usual), `{"event_id":"`...)
	b = e.ID.AppendText(b)
	b = append(b, `","status":"`...)
	b = append(b, outcome...)
	if outcome == OutcomeDuplicate {
		b = append(b, `","duplicate_of":"`...)
		b = e.DuplicateOf.AppendText(b)
	}
	_, _ = w.Write(append(b, `"}`...)) // the sender may be gone
}

// logRefusal writes a capped line without anything of the request but its
// source, the client and the reason. The source's name is a slug.
func (h *Handler) logRefusal(at address, r *http.Request, no *refused) {
	if no.outcome == OutcomeNotFound || no.outcome == OutcomeMethod {
		return
	}
	if no.cause != nil {
		if h.faults.AllowN(h.now(), 1) {
			h.log.Error("a webhook could not be accepted", "tenant", at.tenant, "source", at.source, "error", no.cause)
		}
		return
	}
	if h.refusals.AllowN(h.now(), 1) {
		h.log.Warn("a webhook was refused", "tenant", at.tenant, "source", at.source, "outcome", no.outcome, "reason", no.word(),
			"client", h.Sender(r))
	}
}
