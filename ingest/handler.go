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

// Observer is notified of how each request was answered. reason says why verification
// failed and is one of a small set of words, mostly a verify.Reason; otherwise it is "".
type Observer interface {
	Answered(o Outcome, reason string)
}

// Handler serves the URLs of sources. It is safe for concurrent use.
type Handler struct {
	config    Config
	sources   *snapshot.Cache[address, *source]
	shared    *sharedLimits
	fastly    *fastlyCache
	acceptor  Acceptor
	observer  Observer
	tracer    Tracer // may be nil
	learner   Learner
	confirm   Confirm
	ready     func() error
	log       *slog.Logger
	now       func() time.Time
	trusted   clients.Ranges // proxies
	forgeries *clients.Budget
	rejected  rejections

	confirmSlots chan struct{} // holds a token for each running confirmation
	memory       *memory
	large        largeSlots
	refusalLines *rate.Limiter // limits log lines about refused requests
	errorLines   *rate.Limiter // limits log lines about failures of the gateway
}

// Deps are the dependencies of a Handler.
type Deps struct {
	Sources  Sources
	Acceptor Acceptor
	Observer Observer
	Tracer   Tracer       // may be nil
	Keys     verify.Keys  // published keys; if nil, verifiers that need them refuse every request
	Learner  Learner      // if nil, handshakes that send a secret fail
	Confirm  Confirm      // if nil, subscriptions of Amazon SNS are not confirmed
	Services Services     // if nil, Fastly gets a 404
	Ready    func() error // returns why this instance accepts no webhooks; if nil, it is always ready
	Meter    *usage.Meter // if nil, nothing is counted and no quota applies
	Log      *slog.Logger
	Now      func() time.Time
}

// Limits of log lines of one kind.
const (
	logLinesPerSecond = 5
	logLinesBurst     = 20
)

func newLogLimiter() *rate.Limiter { return rate.NewLimiter(logLinesPerSecond, logLinesBurst) }

// NewHandler returns a Handler. The config must have been validated.
func NewHandler(config Config, deps Deps) *Handler {
	shared := &sharedLimits{active: map[*limits]bool{}}
	h := &Handler{config: config, shared: shared, sources: newSourceCache(config, deps, shared), fastly: newFastlyCache(deps), acceptor: deps.Acceptor,
		observer: deps.Observer, tracer: deps.Tracer, learner: deps.Learner, confirm: deps.Confirm, ready: deps.Ready, log: deps.Log, now: deps.Now,
		confirmSlots: make(chan struct{}, maxConfirmations), memory: newMemory(config, deps.Now), large: newLargeSlots(runtime.GOMAXPROCS(0)),
		forgeries: clients.NewBudget(config.ForgeriesPerSec, config.ForgeriesBurst), refusalLines: newLogLimiter(), errorLines: newLogLimiter()}
	var err error
	if h.trusted, err = clients.ParseRanges(config.TrustedProxies); err != nil {
		panic(err) // the config has been validated
	}
	return h
}

// Sender returns the client address of a request, as the trusted proxies report it. It is
// the zero Addr if the address is unknown.
func (h *Handler) Sender(r *http.Request) netip.Addr { return h.trusted.Sender(r) }

// Register adds the URLs of sources, all paths below them, and FastlyPath to a router. It adds the URLs of sources
// for every method, known or unknown, because Handler answers wrong methods itself.
func (h *Handler) Register(e *echo.Echo) {
	for _, path := range []string{Path(":tenant", ":source"), Path(":tenant", ":source") + "/*"} {
		e.Any(path, h.serve)
		e.RouteNotFound(path, h.serve)
	}
	e.GET(FastlyPath, h.serveFastly)
}

// InvalidateSource drops the cached configuration of a source.
func (h *Handler) InvalidateSource(tenant, source string) {
	h.sources.Invalidate(address{tenant, source})
	h.fastly.Clear()
}

// InvalidateTenant drops the cached configuration of all sources of a tenant.
func (h *Handler) InvalidateTenant(tenant string) {
	h.sources.InvalidateFunc(func(a address) bool { return a.tenant == tenant })
	h.fastly.Clear()
}

// InvalidateAll drops the whole cache.
func (h *Handler) InvalidateAll() {
	h.sources.Clear()
	h.fastly.Clear()
}

// refusal says why a request is refused and how to answer it.
type refusal struct {
	outcome    Outcome
	reason     string        // for log and metric, never sent to the sender
	retryAfter time.Duration // 0: no Retry-After
	allow      string        // the Allow header, or ""
	silent     bool          // the response has no body
	closes     bool          // the connection cannot be used again
	cause      error         // a failure of the gateway, for the log
	detail     string        // the verifier's explanation, for users of the tenant
	bodySize   int           // of a body that was read completely; see withBody
	bodySHA256 []byte        // nil if the body was not read completely
	over       *usage.Excess // the exceeded quota
	requestID  string        // in the answer and in the log line; "" for outcomes that are not logged
}

func (h *Handler) serve(c echo.Context) error {
	r, w := c.Request(), c.Response().Writer
	at := addressOf(r, c.Param("tenant"), c.Param("source"))
	request := traced{r, at, h.traceStart()}
	res, src, refused := h.receiveCounted(w, request)
	if refused != nil {
		h.observer.Answered(refused.outcome, refused.reason)
		if refused.outcome.isLogged() {
			refused.requestID = RequestIDOf(r.Header, h.now())
			h.logRefusal(at, r, refused)
		}
		h.recordRejection(r, src, refused)
		writeRefusal(w, refused)
		h.traceRefusal(request, refused)
		c.Response().Committed = true
		return nil
	}
	h.writeResult(w, src, res)
	h.traceResult(request, src, res)
	c.Response().Committed = true
	return nil
}

// result is the result of a request that was not refused: a stored event or the reply to a
// handshake.
type result struct {
	event *eventhook.Event
	reply *reply
}

// receiveCounted is receive. If receive panics, the request counts as failed, and the panic goes on.
func (h *Handler) receiveCounted(w http.ResponseWriter, t traced) (res result, src *source, refused *refusal) {
	hasReturned := false
	defer func() {
		if !hasReturned {
			h.observer.Answered(OutcomeFailed, "")
			h.traceRefusal(t, &refusal{outcome: OutcomeFailed})
		}
	}()
	res, src, refused = h.receive(w, t.request, t.address)
	hasReturned = true
	return res, src, refused
}

// receive handles a request until its event is stored. The rate limit of the source is
// checked before the body is read or verified, but only verified requests count against it:
// refused requests never use up the provider's limit. receive returns the source even if
// the request is refused, and nil if there is no source to record a rejection for.
func (h *Handler) receive(w http.ResponseWriter, r *http.Request, at address) (res result, src *source, refused *refusal) {
	if err := h.notReady(); err != nil {
		return res, nil, notStored(err)
	}
	src, refused = h.findSource(r.Context(), at)
	if refused != nil {
		return res, nil, refused
	}
	if !src.allowsMethod(r.Method) {
		return res, nil, &refusal{outcome: OutcomeMethod, allow: src.allowedMethods()} // not recorded as a rejection: browsers send such requests
	}
	now, client := h.now(), h.Sender(r)
	if refused = src.checkHead(r, client, now); refused != nil {
		if refused.outcome == OutcomeRateLimited {
			h.shared.note(src.limits, false)
		}
		return res, src, refused
	}
	if r.ContentLength > int64(src.bodyLimit) {
		return res, src, &refusal{outcome: OutcomeTooLarge}
	}
	suffix := pathSuffix(r.URL, at)
	if hasDotSegments(suffix) {
		return res, nil, &refusal{outcome: OutcomeNotFound}
	}
	mem := h.memory.reserve(w, r, src.limits, client, now)
	defer mem.release()
	raw, refused := h.readRequest(r, src, suffix, mem)
	if refused != nil {
		return res, src, refused
	}
	in := received{verifyRequest(r, src.signedURL+suffix, raw.Body, now), src, at, client}
	verifierBytes := src.verifierMemory(in.Request)
	if mem.Take(verifierBytes) != nil {
		return res, src, shed()
	}
	e, reply, refused := h.process(r, raw, in, mem, verifierBytes)
	if e == nil {
		res.reply = reply
		return res, src, refused
	}
	res.event, refused = h.storeEvent(e, in)
	return res, src, refused
}

// process verifies a request and builds its event, unless the request is a handshake or is
// refused. verifierBytes is the part of mem that is reserved for the verifier.
func (h *Handler) process(r *http.Request, raw eventhook.Payload, in received, mem *reservation, verifierBytes int) (*eventhook.Event, *reply, *refusal) {
	release, refused := h.large.acquire(r.Context(), in.source, r.Header.Get("Content-Encoding"), raw.Body)
	if refused != nil {
		return nil, nil, refused
	}
	defer release()
	match, reply, refused := h.verifyOrAnswer(r.Context(), in)
	if reply != nil || refused != nil {
		return nil, reply, refused
	}
	mem.Return(verifierBytes)
	raw.Headers = in.source.appendVerified(raw.Headers, match)
	e, refused := h.acceptVerified(r, raw, in, mem)
	return e, nil, refused
}

// checkHead checks the client address, the rate limit and the headers, before the body is
// read. A handshake without a body needs no content type.
func (s *source) checkHead(r *http.Request, client netip.Addr, now time.Time) *refusal {
	if !s.allowsClient(client) {
		return &refusal{outcome: OutcomeNotAllowed}
	}
	if eventhook.HopsOf(r.Header[eventhook.HopsHeader]) > eventhook.MaxHops {
		return &refusal{outcome: OutcomeLoop}
	}
	if wait := s.limits.verified.wait(now); wait > 0 {
		return &refusal{outcome: OutcomeRateLimited, retryAfter: wait}
	}
	if r.ContentLength == 0 && s.handshake.exists() {
		return nil
	}
	if !s.allowsContentType(r.Header.Get("Content-Type")) {
		return &refusal{outcome: OutcomeContentType}
	}
	if !isDecodable(r.Header) {
		return &refusal{outcome: OutcomeEncoding}
	}
	return nil
}

// verifyOrAnswer verifies a request, and answers it if it is a handshake. If reply and refused
// are nil, the request is genuine and carries an event.
func (h *Handler) verifyOrAnswer(ctx context.Context, in received) (match verify.Match, reply *reply, refused *refusal) {
	src := in.source
	reply, refused = h.answerHandshake(ctx, src.handshake.unsigned[in.Method], in, src.limits.unverified)
	if reply != nil || refused != nil {
		return match, reply, refused
	}
	if match, refused = h.verify(ctx, in); refused != nil {
		refused.silent = src.handshake.silent
		return match, nil, refused
	}
	reply, refused = h.answerHandshake(ctx, src.handshake.signed[in.Method], in, src.limits.verified)
	return match, reply, refused
}

// acceptVerified counts a verified request against the rate limit of its source and builds
// its event.
func (h *Handler) acceptVerified(r *http.Request, raw eventhook.Payload, in received, mem *reservation) (*eventhook.Event, *refusal) {
	switch {
	case !slices.Contains(in.source.methods, r.Method):
		return nil, h.chargeForgery(in.client, malformed("the source takes no webhooks with this method, and the request is not a handshake")).withBody(raw.Body)
	case !in.source.allowsContentType(r.Header.Get("Content-Type")):
		return nil, &refusal{outcome: OutcomeContentType}
	}
	wait := in.source.limits.verified.take(h.now())
	h.shared.note(in.source.limits, wait == 0)
	if wait > 0 {
		return nil, &refusal{outcome: OutcomeRateLimited, retryAfter: wait}
	}
	e, refused := h.buildEvent(r, raw, in, mem)
	if refused != nil {
		return nil, refused.withBody(raw.Body)
	}
	e.SignedHash = in.source.signedHash(in.Request)
	return e, nil
}

// storeEvent stores an event if it fits into the quota of its tenant.
func (h *Handler) storeEvent(e *eventhook.Event, in received) (*eventhook.Event, *refusal) {
	now := h.now()
	size := len(e.Headers) + len(e.Body)
	if over := in.source.account.Take(size, now); over != nil {
		return nil, &refusal{outcome: OutcomeQuotaExceeded, retryAfter: over.ResetsAt.Sub(now), over: over}
	}
	if err := h.acceptor.Accept(e); err != nil {
		in.source.account.Return(size, now)
		return nil, notStored(err)
	}
	return e, nil
}

func (h *Handler) findSource(ctx context.Context, at address) (*source, *refusal) {
	if !eventhook.IsSlug(at.tenant) || !eventhook.IsSlug(at.source) {
		return nil, &refusal{outcome: OutcomeNotFound} // such a name is not looked up, cached or logged
	}
	src, err := h.sources.Get(ctx, at)
	switch {
	case err == nil && src.config.Consume == nil:
		return src, nil
	case err == nil, eventhook.KindOf(err) == eventhook.KindNotFound: // a source that consumes messages has no URL
		return nil, &refusal{outcome: OutcomeNotFound}
	case ctx.Err() != nil:
		return nil, &refusal{outcome: OutcomeUnreadable} // the sender is gone
	}
	if errors.Is(err, eventhook.ErrNotReady) {
		return nil, notStored(err)
	}
	return nil, &refusal{outcome: OutcomeFailed, cause: fmt.Errorf("find the source: %w", err)}
}

// notReady returns why this instance accepts no webhooks, as an ErrNotReady, or nil.
func (h *Handler) notReady() error {
	if h.ready == nil {
		return nil
	}
	err := h.ready()
	if err == nil {
		return nil
	}
	e := *eventhook.ErrNotReady
	e.Cause, e.RetryAfter = err, retryNotReady
	return &e
}

// retryNotReady is the Retry-After of an instance that is not ready.
const retryNotReady = 10 * time.Second

// verifyRequest returns the request as the verifier gets it. url is the URL that is registered at
// the provider, without the query.
func verifyRequest(r *http.Request, url string, body []byte, now time.Time) *verify.Request {
	if r.URL.RawQuery != "" {
		url += "?" + r.URL.RawQuery
	}
	return &verify.Request{Method: r.Method, URL: url, Header: r.Header, Body: body, At: now}
}

func notStored(err error) *refusal {
	if failed, ok := errors.AsType[*notStoredError](err); ok {
		return &refusal{outcome: OutcomeFailed, cause: failed.cause}
	}
	e, ok := errors.AsType[*eventhook.Error](err)
	switch {
	case errors.Is(err, eventhook.ErrNotReady):
		return &refusal{outcome: OutcomeNotReady, retryAfter: e.RetryAfter, cause: err}
	case ok && e == errLogFull:
		return &refusal{outcome: OutcomeLogFull, retryAfter: e.RetryAfter}
	case ok && e.Kind == eventhook.KindUnavailable:
		return &refusal{outcome: OutcomeShed, retryAfter: e.RetryAfter, cause: e.Cause}
	}
	return &refusal{outcome: OutcomeFailed}
}

// buildEvent builds the event of a verified request. When it returns, mem holds only the
// raw bytes.
func (h *Handler) buildEvent(r *http.Request, raw eventhook.Payload, in received, mem *reservation) (*eventhook.Event, *refusal) {
	before := mem.bytes
	defer func() { mem.Return(int(mem.bytes - before)) }()
	view, err := in.source.view(r.Header, raw.Body, mem)
	switch {
	case errors.Is(err, chunks.ErrTooLong):
		return nil, &refusal{outcome: OutcomeTooLarge}
	case err != nil:
		return nil, shed()
	}
	e := in.source.newEvent(r.Header, raw, view, in.At)
	if e.IdempotencyKey == "" && in.source.config.RequireIdempotencyKey {
		return nil, &refusal{outcome: OutcomeKeyMissing}
	}
	e.SourceIP = clients.Text(in.client)
	return e, nil
}

// writeResult writes the reply to a handshake, or the response that the event is stored.
func (h *Handler) writeResult(w http.ResponseWriter, src *source, res result) {
	if res.reply != nil {
		h.observer.Answered(OutcomeHandshake, "")
		res.reply.write(w)
		return
	}
	e, outcome := res.event, OutcomeAccepted
	if e.Status == eventhook.EventDuplicate {
		outcome = OutcomeDuplicate
		src.account.Duplicate()
	}
	h.observer.Answered(outcome, "")
	header := w.Header()
	if reply := src.config.Response; reply != nil {
		// A browser must not run a tenant's text as a page of the gateway.
		header["X-Content-Type-Options"], header["Content-Security-Policy"] = noSniff, sandbox
		if reply.ContentType != "" {
			header.Set("Content-Type", reply.ContentType)
		}
		w.WriteHeader(reply.Status)
		if reply.Status != http.StatusNoContent && reply.Status != http.StatusResetContent { // these have no body
			_, _ = io.WriteString(w, reply.Body) // the sender may be gone
		}
		return
	}
	header["Content-Type"] = jsonType
	const usualSize = 160
	b := append(make([]byte, 0, usualSize), `{"event_id":"`...)
	b = e.ID.AppendText(b)
	b = append(b, `","status":"`...)
	b = append(b, outcome...)
	if outcome == OutcomeDuplicate {
		b = append(b, `","duplicate_of":"`...)
		b = e.DuplicateOf.AppendText(b)
	}
	_, _ = w.Write(append(b, `"}`...)) // the sender may be gone
}

// logRefusal writes a rate-limited log line. It logs only the slugs of the source, the client
// address, the reason, the request id and the trace id, and no other part of the request. A refusal
// because of a Log has no line.
func (h *Handler) logRefusal(at address, r *http.Request, refused *refusal) {
	if errors.Is(refused.cause, ErrLogUnavailable) {
		return
	}
	if refused.cause != nil {
		if h.errorLines.AllowN(h.now(), 1) {
			trace, _, _ := TraceOf(r.Header)
			h.log.Error("a webhook could not be accepted", "tenant", at.tenant, "source", at.source, "request_id", refused.requestID,
				"trace_id", trace, "error", refused.cause)
		}
		return
	}
	if h.refusalLines.AllowN(h.now(), 1) {
		trace, _, _ := TraceOf(r.Header)
		h.log.Warn("a webhook was refused", "tenant", at.tenant, "source", at.source, "outcome", refused.outcome, "reason", refused.reasonLabel(),
			"client", h.Sender(r), "request_id", refused.requestID, "trace_id", trace)
	}
}
